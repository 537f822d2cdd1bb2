"""Queues on journals and on Kafka, read by position."""

from windrow.spark.queues.create import ensure_journals, ensure_topics
from windrow.spark.queues.open import cached_queue, open_queue

__all__ = ["cached_queue", "ensure_journals", "ensure_topics", "open_queue"]
