"""Journals: append-only byte streams on replicated brokers, written all or nothing."""
