"""The steps of the inbox's tables in PostgreSQL, one file each."""
