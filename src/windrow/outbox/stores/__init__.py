"""Where outbox rows live: one module per database."""
