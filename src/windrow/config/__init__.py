"""Configuration: flags over environment over file over defaults, with the source of every value."""

from windrow.config.dsn import Dsn
from windrow.config.errors import SeveralMistakes
from windrow.config.layers import (
    Layer,
    Setting,
    dotted,
    environment_layer,
    file_layer,
    flag_layer,
)
from windrow.config.load import load
from windrow.config.model import Config, Database, Http, Log
from windrow.config.redaction import HIDDEN, redact
from windrow.config.resolve import Resolved, resolve
from windrow.config.secrets import Secret
from windrow.config.section import Section

__all__ = [
    "HIDDEN",
    "Config",
    "Database",
    "Dsn",
    "Http",
    "Layer",
    "Log",
    "Resolved",
    "Secret",
    "Section",
    "Setting",
    "SeveralMistakes",
    "dotted",
    "environment_layer",
    "file_layer",
    "flag_layer",
    "load",
    "redact",
    "resolve",
]
