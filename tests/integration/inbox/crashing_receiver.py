"""A receiver that a test kills: works slowly if told to, and shares its answers with the others."""

from __future__ import annotations

import os
import sys
import time

import psycopg
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from windrow.inbox import IdempotentReceiver, PostgresAnswers

DSN = os.environ["INBOX_DSN"]


def receive(request: Request) -> Response:
    with psycopg.connect(DSN, autocommit=True) as connection:
        row = connection.execute("INSERT INTO works DEFAULT VALUES RETURNING id").fetchone()
    if sys.argv[2] == "hangs":
        time.sleep(600)
    return JSONResponse({"work": row[0] if row else None}, 201)


if __name__ == "__main__":
    app = IdempotentReceiver(
        Starlette(routes=[Route("/receive", receive, methods=["POST"])]),
        PostgresAnswers(DSN),
        hold=2.0,
        wait=30.0,
    )
    uvicorn.run(app, host="127.0.0.1", port=int(sys.argv[1]), log_level="critical", lifespan="off")
