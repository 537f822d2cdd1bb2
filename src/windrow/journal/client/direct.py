"""A stored fragment, read from its store and not through a broker.

Blocking, and therefore for threads. The content is decompressed and begins at the offset that was
asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote, urlsplit
from urllib.request import Request, urlopen

from windrow.errors import Unreachable
from windrow.journal.client.errors import FragmentTorn, FragmentUnreachable
from windrow.journal.codec import Codec
from windrow.journal.fragment import Fragment
from windrow.journal.fragments.codecs import decompress

PIECE = 256 * 1024
FETCH_TIMEOUT = 30.0


def fragment_content(
    fragment: Fragment, url: str, offset: int, file_root: Path | None
) -> Iterator[bytes]:
    """Pieces of a fragment's content, from ``offset`` to its end.

    Raises:
        FragmentUnreachable: This client cannot read from such a store.
        Unreachable: The store did not answer; another try may help.
        FragmentTorn: The file holds more or less than the fragment spans.
        CorruptFragment: It cannot be decompressed.
    """
    source, codec = _opened(fragment, url, file_root)
    at = offset
    with source:
        stored = iter(lambda: source.read(PIECE), b"")
        for piece in decompress(codec, stored, offset - fragment.begin, url):
            at += len(piece)
            if at > fragment.end:
                raise FragmentTorn(url, fragment.end, at)
            yield piece
    if at != fragment.end:
        raise FragmentTorn(url, fragment.end, at)


def _opened(fragment: Fragment, url: str, file_root: Path | None) -> tuple[IO[bytes], Codec]:
    match urlsplit(url).scheme:
        case "file":
            return _open_file(url, file_root), fragment.codec
        case "http" | "https":
            answer = _fetch(url)
            return answer, _codec_on_the_way(fragment.codec, answer)
        case scheme:
            raise FragmentUnreachable(url, f"no way to fetch {scheme!r}; read it through a broker")


def _open_file(url: str, file_root: Path | None) -> IO[bytes]:
    if file_root is None:
        raise FragmentUnreachable(url, "this client knows no file_root; set it to the brokers' own")
    root = file_root.resolve()
    path = (root / unquote(urlsplit(url).path).lstrip("/")).resolve()
    if not path.is_relative_to(root):
        raise FragmentUnreachable(url, f"it lies outside of {root}")
    try:
        return path.open("rb")
    except OSError as error:
        raise Unreachable("fragment store", url, error.strerror or str(error)) from error


def _fetch(url: str) -> Any:
    try:
        return urlopen(Request(url), timeout=FETCH_TIMEOUT)
    except OSError as error:  # an HTTP error is one too
        raise Unreachable("fragment store", url, str(error)) from error


def _codec_on_the_way(codec: Codec, answer: Any) -> Codec:
    """A store may have taken off the compression that it was asked to take off."""
    if codec is not Codec.GZIP_OFFLOAD_DECOMPRESSION:
        return codec
    return Codec.GZIP if answer.headers.get("Content-Encoding") == "gzip" else Codec.NONE
