"""Outboxes in MariaDB, MySQL and SQLite: names, schema, and the way in."""
