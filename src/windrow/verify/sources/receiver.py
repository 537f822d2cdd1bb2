"""What a receiver of the play-pen took, by the pages of its list of messages."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http.client import HTTPException
from typing import Any, Final
from urllib.error import HTTPError, URLError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

import pyarrow as pa

from windrow.errors import Unreachable
from windrow.verify.columns.batches import make_batch
from windrow.verify.errors import BadQuery, UnreadableSource
from windrow.verify.picking import Pick
from windrow.verify.sources.jsonl import picked

PAGE: Final = 10_000
ANSWER_TIMEOUT: Final = 30.0


class Receiver:
    """Reads ``{"messages": […], "next": …}`` page by page, from the first message to the last.

    Args:
        url: The list of messages.
        key: Which member of a message is its key.
        id: Which member is its id.
        name: What to call it in errors.
    """

    def __init__(self, url: str, key: Pick, id: Pick, name: str) -> None:
        self._url, self._name = url, name
        self._picks = {"key": key, "id": id}

    def __str__(self) -> str:
        return self._name

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The messages of each page.

        Raises:
            Unreachable: The receiver does not answer.
            BadQuery: It answers with an error.
            UnreadableSource: Its answer is not such a page.
        """
        read = 0
        after: int | None = 0
        while after is not None:
            messages, after = self._page(after)
            if messages:
                keys, ids = picked(messages, self._picks)
                yield make_batch(self._name, read, keys, ids)
                read += len(messages)

    def _page(self, after: int) -> tuple[list[dict[str, Any]], int | None]:
        url = f"{self._url}?{urlencode({'after': after, 'limit': PAGE})}"
        request = Request(url, headers={"Accept": "application/json"})
        try:
            with urlopen(request, timeout=ANSWER_TIMEOUT) as answer:
                page = json.load(answer)
            messages, following = page["messages"], page["next"]
        except HTTPError as error:
            raise BadQuery(self._name, f"{url} answers {error.code} {error.reason}") from error
        except URLError as error:
            raise Unreachable("the receiver", self._url, str(error.reason)) from error
        except (OSError, HTTPException) as error:
            raise Unreachable("the receiver", self._url, str(error)) from error
        except (ValueError, TypeError, KeyError) as error:
            raise UnreadableSource(self._name, f"{url} gave no page of messages") from error
        if not isinstance(messages, list) or (following is not None and following <= after):
            raise UnreadableSource(self._name, f"{url} gave no page of messages")
        return messages, following
