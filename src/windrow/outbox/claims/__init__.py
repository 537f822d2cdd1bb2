"""Outboxes that several relays share: rows are leased, and each end of a claim is fenced."""

from windrow.outbox.claims.contract import Burial, Claim, ClaimStore, Retry, Suspects, Topics
from windrow.outbox.claims.opening import open_claims

__all__ = ["Burial", "Claim", "ClaimStore", "Retry", "Suspects", "Topics", "open_claims"]
