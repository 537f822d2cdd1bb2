"""The address of a database, with or without a password in it.

Of PostgreSQL both of libpq's forms are read here and malformed ones refused, because libpq quotes
what it cannot parse, and that is often half a password: in ``postgresql://me:pa/ss@host`` it sees
the port ``pa``.
MySQL's and MariaDB's is ``mysql://user:password@host:port/database``, SQLite's ``sqlite:///path``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import quote, unquote

from windrow.config.redaction import HIDDEN
from windrow.config.secrets import Secret, hide_pieces

# Every option of libpq 18. Others are refused, not shown: they may be a misspelt "password", or the
# second half of one with a blank in it.
_LIBPQ_OPTIONS = """
    application_name channel_binding client_encoding connect_timeout dbname
    fallback_application_name gssdelegation gssencmode gsslib host hostaddr keepalives
    keepalives_count keepalives_idle keepalives_interval krbsrvname load_balance_hosts
    max_protocol_version min_protocol_version oauth_client_id oauth_client_secret oauth_issuer
    oauth_scope options passfile password port replication require_auth requirepeer
    scram_client_key scram_server_key service ssl ssl_max_protocol_version
    ssl_min_protocol_version sslcert sslcertmode sslcompression sslcrl sslcrldir sslkey
    sslkeylogfile sslmode sslnegotiation sslpassword sslrootcert sslsni target_session_attrs
    tcp_user_timeout user
"""
_OPTIONS = frozenset(_LIBPQ_OPTIONS.split())
_SECRET_OPTIONS = frozenset(
    {"oauth_client_secret", "password", "scram_client_key", "scram_server_key", "sslpassword"}
)
# The user ends at the first ":" and the password at the first "@" or "/", as libpq has it.
_URI = re.compile(
    r"(?P<scheme>postgres(?:ql)?)://"
    r"(?:(?P<user>[^\s:@/]*)(?::(?P<password>[^\s@/]*))?@)?"
    r"(?P<hosts>[^\s@/?]*)(?:/(?P<dbname>[^\s@/?]*))?(?:\?(?P<query>[^\s@]*))?"
)
_MYSQL_URI = re.compile(_URI.pattern.replace("postgres(?:ql)?", "mysql|mariadb"))
_MYSQL_OPTIONS = frozenset({"ssl_ca", "unix_socket"})
_SQLITE = "sqlite:///"
_HOST = re.compile(r"(?:\[[0-9a-fA-F:.%]+\]|[^:\[\]]*)(?::[0-9]*)?")
_OPTION = re.compile(
    r"\s*([A-Za-z_]+)\s*=\s*(?:'((?:[^'\\]|\\.)*)'(?=\s|$)|(?!')((?:[^\s\\]|\\.)*))", re.DOTALL
)
_BAD_PERCENT = re.compile(r"%(?![0-9a-fA-F]{2})|%00")


System = Literal["postgresql", "mysql", "sqlite"]


@dataclass(frozen=True, slots=True)
class _Parsed:
    shown: str
    options: dict[str, str] = field(default_factory=dict)
    hidden: frozenset[str] = frozenset()


class Dsn(Secret):
    """Where a database is and who connects; its text form hides the password.

    Raises:
        ValueError: It is in none of the known forms. The message never quotes it.
    """

    __slots__ = ("_parsed",)

    def __init__(self, value: str) -> None:
        super().__init__(value.strip())
        self._parsed = _parse(self._value)

    @property
    def system(self) -> System:
        """Whose database it is."""
        if self._value.startswith(_SQLITE):
            return "sqlite"
        return "mysql" if self._value.startswith(("mysql:", "mariadb:")) else "postgresql"

    @property
    def address(self) -> str:
        """Host and port, or the socket or file, for messages: no user, no password."""
        options = self._parsed.options
        if self.system == "sqlite":
            return options["path"]
        if self.system == "mysql":
            port = options.get("port") or "3306"
            return options.get("unix_socket") or f"{options.get('host') or 'localhost'}:{port}"
        if not (options.get("host") or options.get("hostaddr")):
            service = options.get("service")
            return f"service {service}" if service else "the local socket"
        hosts = (options.get("host") or options["hostaddr"]).split(",")
        ports = (options.get("port") or "").split(",")
        ports = ports * len(hosts) if len(ports) == 1 else ports
        pairs = zip(hosts, ports, strict=False)
        return ",".join(_host_and_port(host, port or "5432") for host, port in pairs)

    def with_password(self, password: Secret) -> Dsn:
        """The same address with this password, in place of any that it holds."""
        secret = password.reveal()
        if self.system == "sqlite":
            return self  # a file has none
        uri = (_MYSQL_URI if self.system == "mysql" else _URI).fullmatch(self._value)
        if uri is None:
            escaped = secret.replace("\\", r"\\").replace("'", r"\'")
            return Dsn(f"{self._value} password='{escaped}'")  # the last one counts
        userinfo = f"{uri['user'] or ''}:{quote(secret, safe='')}@"
        return Dsn(f"{uri['scheme']}://{userinfo}{self._value[uri.start('hosts') :]}")

    def hide_in(self, text: str) -> str:
        """Someone else's text without the secrets of this DSN in it."""
        return hide_pieces(text.replace(self._value, self._parsed.shown), self._parsed.hidden)

    def __str__(self) -> str:
        return self._parsed.shown


def _parse(text: str) -> _Parsed:
    if not text:
        raise ValueError("is empty; write it as postgresql://user@host:5432/database")
    if text.startswith(_SQLITE):
        return _parse_sqlite(text)
    if text.startswith(("mysql:", "mariadb:")):
        return _parse_uri(text, _MYSQL_URI, "mysql://user:password@host:3306/database")
    if "://" in text.partition("=")[0]:
        return _parse_uri(text, _URI, "postgresql://user:password@host:5432/database")
    return _parse_options(text)


def _parse_sqlite(text: str) -> _Parsed:
    path = text.removeprefix(_SQLITE)
    if not path:
        raise ValueError("names no file; write it as sqlite:///relative/path or sqlite:////path")
    return _Parsed(shown=text, options={"path": path})


def _parse_uri(text: str, form: re.Pattern[str], example: str) -> _Parsed:
    uri = form.fullmatch(text)
    if uri is None:
        raise ValueError(
            f"not a database address; write it as {example},"
            " with the special characters of the password percent-encoded"
        )
    if _BAD_PERCENT.search(text):
        raise ValueError('has a "%" that encodes nothing; write a "%" of the password as %25')
    options = _hosts(uri["hosts"]) | _query(
        uri["query"] or "", _MYSQL_OPTIONS if form is _MYSQL_URI else _OPTIONS
    )
    spans = [uri.span("password"), *_secret_spans(uri)]
    raw = {text[start:end] for start, end in spans if start >= 0}
    return _Parsed(
        shown=_cut(text, spans),
        options=options,
        hidden=frozenset(raw | {unquote(piece) for piece in raw}),
    )


def _hosts(text: str) -> dict[str, str]:
    hosts = text.split(",") if text else []
    if not all(_HOST.fullmatch(host) for host in hosts):
        raise ValueError(
            "the port is not a number; the special characters of a password are percent-encoded"
        )
    names = [unquote(re.sub(r":[0-9]*$", "", host)).strip("[]") for host in hosts]
    ports = [port[1] if (port := re.search(r":([0-9]*)$", host)) else "" for host in hosts]
    return {"host": ",".join(names), "port": ",".join(ports)} if hosts else {}


def _query(text: str, known: frozenset[str]) -> dict[str, str]:
    pairs = [pair.split("=") for pair in text.split("&")] if text else []
    if not all(len(pair) == 2 and pair[0] for pair in pairs):
        raise ValueError("what follows the ? must be options such as sslmode=require, joined by &")
    options = {unquote(name): unquote(value) for name, value in pairs}
    _refuse_unknown(options, known)
    return options


def _refuse_unknown(options: Iterable[str], known: frozenset[str] = _OPTIONS) -> None:
    if not known.issuperset(options):
        system = "PostgreSQL" if known is _OPTIONS else "MySQL's driver"
        raise ValueError(
            f"has an option that {system} does not know; the special characters of a password are"
            " percent-encoded in an address, and quoted in password='…'"
        )


def _secret_spans(uri: re.Match[str]) -> list[tuple[int, int]]:
    spans, start = [], uri.start("query")
    for pair in (uri["query"] or "").split("&"):
        name, _, _ = pair.partition("=")
        if unquote(name) in _SECRET_OPTIONS:
            spans.append((start + len(name) + 1, start + len(pair)))
        start += len(pair) + 1
    return spans


def _parse_options(text: str) -> _Parsed:
    options, spans, hidden, position = {}, [], set(), 0
    while position < len(text):
        option = _OPTION.match(text, position)
        if option is None:
            raise ValueError(
                "not a database address; write it as host=… dbname=… user=… password='…'"
                r" (a quote within the quotes as \'), or as postgresql://user@host:5432/database"
            )
        group = 2 if option[2] is not None else 3
        name, value = option[1], re.sub(r"\\(.)", r"\1", option[group], flags=re.DOTALL)
        options[name] = value
        if name in _SECRET_OPTIONS:
            spans.append(option.span(group))
            hidden |= {value, option[group]}
        position = option.end()
    _refuse_unknown(options)
    return _Parsed(shown=_cut(text, spans), options=options, hidden=frozenset(hidden))


def _cut(text: str, spans: list[tuple[int, int]]) -> str:
    for start, end in sorted(spans, reverse=True):
        if end > start >= 0:
            text = text[:start] + HIDDEN + text[end:]
    return text


def _host_and_port(host: str, port: str) -> str:
    if host.startswith(("/", "@")):
        return f"{host}/.s.PGSQL.{port}"
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
