"""The steps of the outbox schema, one numbered SQL file each."""
