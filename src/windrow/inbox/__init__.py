"""The inbox: a table in which consumers note, in their own transactions, what they have taken."""

from windrow.inbox.answers import Answer, AnswerStore, MemoryAnswers
from windrow.inbox.claiming import Inbox
from windrow.inbox.errors import (
    CannotClaimOn,
    ClaimOutsideTransaction,
    InvalidMessageId,
    NoInbox,
)
from windrow.inbox.postgres_answers import PostgresAnswers
from windrow.inbox.receiver import IdempotentReceiver
from windrow.inbox.schema import migrate, schema_sql

__all__ = [
    "Answer",
    "AnswerStore",
    "CannotClaimOn",
    "ClaimOutsideTransaction",
    "IdempotentReceiver",
    "Inbox",
    "InvalidMessageId",
    "MemoryAnswers",
    "NoInbox",
    "PostgresAnswers",
    "migrate",
    "schema_sql",
]
