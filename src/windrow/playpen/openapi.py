"""What the two services can do, told once: as an OpenAPI document and as a page. Pure."""

from __future__ import annotations

import html
import json
from dataclasses import dataclass
from typing import Any

from windrow.version import __version__

Schema = dict[str, Any]

_TEXT: Schema = {"type": "string"}
_WHOLE: Schema = {"type": "integer"}
_OBJECT: Schema = {"type": "object"}


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of the query, or a header."""

    name: str
    help: str
    schema: Schema
    where: str = "query"


@dataclass(frozen=True, slots=True)
class Operation:
    """One thing that can be asked."""

    method: str
    path: str
    help: str
    answers: dict[int, str]
    parameters: tuple[Parameter, ...] = ()
    example: Any = None
    """What to send, for operations that take something."""
    content: str = "application/json"


@dataclass(frozen=True, slots=True)
class Description:
    """One service."""

    title: str
    help: str
    operations: tuple[Operation, ...]


_CORRELATION = Parameter(
    "correlation-id",
    "Goes with the message, and into the logs; made up if absent.",
    _TEXT,
    "header",
)
_AFTER = Parameter("after", "Only what comes behind this number.", _WHOLE)
_LIMIT = Parameter("limit", "How many at most.", _WHOLE)
_NEWEST = Parameter("order", "`newest` gives the last ones, the newest first.", _TEXT)
_HERO = {"name": "Batman", "team": "Justice League"}
_MESSAGE = {
    "id": "5f0c7a52-3c1c-4c1e-9d9a-0c2b8f6c6d11",
    "msg": "HERO_CREATED",
    "payload": {"id": 1, "name": "Batman"},
    "correlation": "request-7",
}
_COMMON = (
    Operation("GET", "/", "A page that shows what happens.", {200: "HTML."}, content="text/html"),
    Operation("GET", "/docs", "This page.", {200: "HTML."}, content="text/html"),
    Operation("GET", "/openapi.json", "This page for programs.", {200: "OpenAPI 3.1."}),
    Operation("GET", "/healthz", "Whether the service lives.", {200: "It does."}),
)
_BAD = {400: "What was sent is not JSON, or a header is bad.", 422: "A field is bad."}

PRODUCER = Description(
    "Play-pen producer",
    "Creates heroes, and tells the receiver of them by way of an outbox or, as a control, at once.",
    (
        Operation(
            "POST",
            "/hero/create",
            "Write a hero and its message in one transaction; a relay sends the message.",
            {
                201: "The hero.",
                **_BAD,
                500: "The database was lost during the commit: it may be written or not.",
                503: "Nothing was written.",
            },
            (_CORRELATION,),
            _HERO,
        ),
        Operation(
            "POST",
            "/hero/create-sync",
            "Write a hero, then call the receiver: the control, which loses messages.",
            {
                201: "The hero; the receiver has the message.",
                **_BAD,
                500: "The database was lost during the commit: it may be written or not.",
                502: "The hero is written, and the receiver did not take the message.",
                503: "Nothing was written.",
            },
            (_CORRELATION,),
            _HERO,
        ),
        Operation(
            "GET",
            "/heroes",
            "The heroes in the order of their ids, a page at a time.",
            {200: "`heroes`, and `next`: what to give as `after` for more.", 400: "A bad number."},
            (_AFTER, _LIMIT, _NEWEST, Parameter("via", "Only `outbox` or `sync`.", _TEXT)),
        ),
        Operation(
            "GET",
            "/outbox",
            "What waits in the outbox: how often it was tried, and the last error.",
            {200: "`waiting`, `dead`, and the oldest `messages`.", 400: "A bad number."},
            (_LIMIT,),
        ),
        Operation("GET", "/stats", "Counts of heroes and of messages that wait.", {200: "Counts."}),
        *_COMMON,
    ),
)

RECEIVER = Description(
    "Play-pen receiver",
    "Keeps what it gets in the order of arrival, knows duplicates, and fails on demand.",
    (
        Operation(
            "POST",
            "/receive",
            "Take a message: a CloudEvent, binary or structured, or plain JSON as below.",
            {
                200: "It is kept: its number `seq`, and which `copy` of its id it is.",
                400: "No message.",
            },
            (_CORRELATION,),
            _MESSAGE,
        ),
        Operation(
            "GET",
            "/messages",
            "All that came, in that order, a page at a time.",
            {
                200: "`messages`, and `next`: what to give as `after` for more.",
                400: "A bad number.",
            },
            (
                _AFTER,
                _LIMIT,
                _NEWEST,
                Parameter("id", "Only this message.", _TEXT),
                Parameter("msg", "Only what happened so.", _TEXT),
                Parameter("correlation", "Only what this request caused.", _TEXT),
            ),
        ),
        Operation(
            "GET",
            "/duplicates",
            "The messages that came more than once.",
            {200: "How many `duplicates`, and the `messages` with how many `times`."},
            (_LIMIT,),
        ),
        Operation(
            "GET",
            "/gaps",
            "What the producer has written and never came, for each of the two ways.",
            {
                200: "`outbox` and `sync`: `expected`, `arrived`, `missing` and examples.",
                400: "No producer is known.",
                502: "The producer does not answer.",
            },
            (Parameter("producer", "The URL of a producer on this machine.", _TEXT),),
        ),
        Operation(
            "POST",
            "/gaps",
            "Which of these ids never came.",
            {200: "`expected`, `arrived` and the `missing` ids.", **_BAD},
            example={"ids": [_MESSAGE["id"]]},
        ),
        Operation("GET", "/stats", "Counts of arrivals and duplicates.", {200: "Counts."}),
        Operation("GET", "/faults", "The fault that is set.", {200: "The fault."}),
        Operation(
            "PUT",
            "/faults",
            "Misbehave: `none`, `fail`, `hold`, `stall` or `reject` a share of the messages,"
            " before or after they are kept.",
            {200: "The fault.", **_BAD},
            example={"mode": "fail", "rate": 0.3, "status": 503, "when": "before", "seed": 7},
        ),
        *_COMMON,
    ),
)


def describe(service: Description) -> dict[str, Any]:
    """The OpenAPI document of a service."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in service.operations:
        paths.setdefault(operation.path, {})[operation.method.lower()] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": service.title, "description": service.help, "version": __version__},
        "paths": paths,
        "components": {"schemas": {"Error": _ERROR}},
    }


_ERROR: Schema = {
    "type": "object",
    "required": ["error"],
    "properties": {"error": {"type": "string", "description": "What is wrong."}},
}


def _operation(operation: Operation) -> dict[str, Any]:
    described: dict[str, Any] = {
        "summary": operation.help,
        "parameters": [
            {"name": each.name, "in": each.where, "description": each.help, "schema": each.schema}
            for each in operation.parameters
        ],
        "responses": {
            str(status): {"description": text, "content": _answer(operation, status)}
            for status, text in operation.answers.items()
        },
    }
    if operation.example is not None:
        content = {"schema": _OBJECT, "example": operation.example}
        described["requestBody"] = {"required": True, "content": {"application/json": content}}
    return described


def _answer(operation: Operation, status: int) -> dict[str, Any]:
    if status >= 400:
        return {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    return {operation.content: {"schema": _TEXT if operation.content == "text/html" else _OBJECT}}


_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 50rem; margin: 2rem auto; padding: 0 1rem;
       color: #1c2530; background: #fff }
h2 { font: 600 1rem ui-monospace, monospace; border-top: 1px solid #d8dee6; padding-top: 1rem }
pre { background: #f2f5f8; padding: .6rem; overflow-x: auto } td { padding: 0 1rem 0 0 }
@media (prefers-color-scheme: dark) { body { color: #dde4ec; background: #14191f }
  pre { background: #1f262e } h2 { border-color: #333c46 } }
"""


def docs_page(document: dict[str, Any]) -> str:
    """The document as a page that needs nothing else."""
    info = document["info"]
    sections = [
        _section(path, method, operation)
        for path, methods in document["paths"].items()
        for method, operation in methods.items()
    ]
    title = html.escape(info["title"])
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE}</style><h1>{title}</h1><p>{html.escape(info['description'])}</p>"
        '<p><a href="/">What happens</a> · <a href="/openapi.json">OpenAPI</a></p>'
        f"{''.join(sections)}</html>"
    )


def _section(path: str, method: str, operation: dict[str, Any]) -> str:
    rows = [(each["name"], each["description"]) for each in operation["parameters"]]
    rows += [(status, answer["description"]) for status, answer in operation["responses"].items()]
    table = "".join(
        f"<tr><td><code>{html.escape(name)}</code><td>{html.escape(text)}" for name, text in rows
    )
    body = operation.get("requestBody")
    example = ""
    if body is not None:
        (content,) = body["content"].values()
        example = f"<pre>{html.escape(json.dumps(content['example'], indent=2))}</pre>"
    heading = f"<h2>{method.upper()} {html.escape(path)}</h2>"
    summary = f"<p>{html.escape(operation['summary'])}</p>"
    return f"{heading}{summary}{example}<table>{table}</table>"
