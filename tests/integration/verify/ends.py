"""Ends of a road on the real services: each is given records, and is then a source."""

from __future__ import annotations

import json
import secrets
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from urllib.request import Request, urlopen

from windrow.embedded.mariadb import connect_arguments
from windrow.journal.client.requests import Upsert
from windrow.journal.client.sync import connect
from windrow.journal.codec import Codec
from windrow.journal.labels import LabelSet
from windrow.journal.message.framing import FIXED, NDJSON
from windrow.journal.message.record import Record, encode_records
from windrow.journal.spec import FragmentSpec, JournalSpec
from windrow.playpen.services import PlaypenReceiver

Pair = tuple[str, int]
CREATE = "CREATE TABLE arrived (place INTEGER PRIMARY KEY, team VARCHAR(40), hero INTEGER)"


def document(team: str, hero: int) -> bytes:
    return json.dumps({"key": team, "id": hero, "hero": {"team": team, "id": f"h{hero}"}}).encode()


def fill_jsonl(path: Path, records: Sequence[Pair]) -> str:
    path.write_bytes(b"".join(document(*record) + b"\n" for record in records))
    return f"jsonl:{path}"


def rows(records: Sequence[Pair]) -> list[tuple[int, str, int]]:
    return [(place, team, hero) for place, (team, hero) in enumerate(records)]


def fill_postgres(dsn: str, records: Sequence[Pair]) -> None:
    import psycopg

    with psycopg.connect(dsn) as connection:
        connection.execute(CREATE)
        connection.cursor().executemany("INSERT INTO arrived VALUES (%s, %s, %s)", rows(records))


def fill_mariadb(url: str, records: Sequence[Pair]) -> None:
    import pymysql

    with pymysql.connect(**connect_arguments(url)) as connection, connection.cursor() as cursor:
        cursor.execute(CREATE)
        cursor.executemany("INSERT INTO arrived VALUES (%s, %s, %s)", rows(records))
        connection.commit()


def fill_sqlite(path: Path, records: Sequence[Pair]) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(CREATE)
        connection.executemany("INSERT INTO arrived VALUES (?, ?, ?)", rows(records))
        connection.commit()


def fill_kafka(
    bootstrap: str, topic: str, records: Sequence[Pair], *, aborted: Sequence[Pair] = ()
) -> None:
    """Everything in one transaction, and before it one that was given up."""
    from confluent_kafka import Producer

    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": secrets.token_hex(6)})
    producer.init_transactions(30)
    for pairs, end in (
        (aborted, producer.abort_transaction),
        (records, producer.commit_transaction),
    ):
        producer.begin_transaction()
        for team, hero in pairs:
            headers: list[tuple[str, str | bytes | None]]
            headers = [("other", b"x"), ("message-id", str(hero))]
            producer.produce(topic, document(team, hero), team, headers=headers)
        producer.flush(30)
        end(30)


def fill_journal(
    address: str, records: Sequence[Pair], *, as_lines: bool = False, parts: int = 1
) -> str:
    """Journals below a name; the records of a key in one of them."""
    name = f"verify/{secrets.token_hex(6)}"
    content_type = (NDJSON if as_lines else FIXED).content_type
    names = [name] if parts == 1 else [f"{name}/part-{n:03}" for n in range(parts)]
    with connect(address) as client:
        for number, journal in enumerate(names):
            labels = LabelSet.of({"content-type": content_type})
            fragment = FragmentSpec(length=1 << 20, codec=Codec.NONE, refresh_interval=60.0)
            client.apply([Upsert(JournalSpec(journal, 1, labels, fragment), 0)])
            mine = [record for record in records if ord(record[0][0]) % parts == number]
            client.append(journal, _lines(mine) if as_lines else _frames(mine))
    return name


def _lines(records: Sequence[Pair]) -> bytes:
    return b"".join(document(*record) + b"\n" for record in records)


def _frames(records: Sequence[Pair]) -> bytes:
    return encode_records(
        Record(
            key=team.encode(),
            value=document(team, hero),
            headers=(("message-id", str(hero).encode()),),
        )
        for team, hero in records
    )


@contextmanager
def serve_receiver(records: Sequence[Pair]) -> Iterator[str]:
    """The play-pen's own receiver, which has taken these messages."""
    with PlaypenReceiver.start() as receiver:
        url = f"http://127.0.0.1:{receiver.port}"
        for team, hero in records:
            _post(f"{url}/receive", team, hero)
        yield url


def _post(url: str, team: str, hero: int) -> None:
    message = {"id": str(hero), "msg": "HERO_CREATED", "payload": {"team": team}}
    body, headers = json.dumps(message).encode(), {"Content-Type": "application/json"}
    with urlopen(Request(url, body, headers), timeout=30) as answer:
        assert answer.status < 300
