"""What can follow ``windrow``, and which module answers. A new noun adds its line here.

A module is imported when its noun is on the command line: ``windrow --help`` and completion show
this table and import none of them.
"""

from __future__ import annotations

import importlib
from typing import Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup


class Noun(NamedTuple):
    """A word after ``windrow``, and the ``typer.Typer`` that takes it from there."""

    name: str
    target: str
    help: str


NOUNS = (
    Noun("demo", "windrow.cli.demo:app", "See what Windrow does, on embedded parts."),
    Noun("init", "windrow.cli.outbox:init_app", "Create the outbox."),
    Noun("migrate", "windrow.cli.outbox:migrate_app", "Bring the outbox up to date."),
    Noun("check", "windrow.cli.outbox:check_app", "Find what is off with the outbox."),
    Noun("relay", "windrow.cli.relay:app", "Move records from the outbox to Kafka."),
    Noun("pump", "windrow.cli.pump:app", "Write made-up records into an outbox."),
    Noun("status", "windrow.cli.status:app", "See who leads, what waits and what is blocked."),
    Noun("deadletter", "windrow.cli.deadletter:app", "Move on what could not be delivered."),
    Noun("journal", "windrow.cli.journal:app", "Run brokers, and work with their journals."),
    Noun("graph", "windrow.cli.graph:app", "Run graphs of processors, and look at them."),
    Noun("inbox", "windrow.cli.inbox:app", "Make and purge the inbox of consumers."),
    Noun("playpen", "windrow.cli.playpen:app", "Try the outbox: producer, relays, receiver."),
    Noun("chaos", "windrow.cli.chaos:app", "Try every fault, and see what holds."),
    Noun("verify", "windrow.cli.verify:app", "Compare what was written with what arrived."),
    Noun("doctor", "windrow.cli.doctor:app", "Try every part that is configured."),
    Noun("config", "windrow.cli.config:app", "Show or check the configuration."),
    Noun("bench", "windrow.cli.bench:app", "Measure a part, and hold it to its goals."),
)


class NounGroup(TyperGroup):
    """The group of all nouns, which loads the one that is asked for."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        for noun in NOUNS:
            self.commands[noun.name] = TyperCommand(noun.name, help=noun.help)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Put the noun's real command in the place of the line that stands for it."""
        name, command, rest = super().resolve_command(ctx, args)
        noun = next((noun for noun in NOUNS if noun.name == name), None)
        return name, command if noun is None else load_noun(noun), rest


def load_noun(noun: Noun) -> Any:
    """Import the noun's module and make its command."""
    module, _, attribute = noun.target.partition(":")
    command = typer.main.get_command(getattr(importlib.import_module(module), attribute))
    command.name = noun.name
    _make_plain(command)
    return command


def _make_plain(command: Any) -> None:
    """Show its help as plain text: quicker, and the same in a terminal, a pipe and the docs."""
    command.rich_markup_mode = None
    for subcommand in getattr(command, "commands", {}).values():
        _make_plain(subcommand)
