-- The outbox, with the columns it has in PostgreSQL: lists are JSON, moments UTC text. Ids are never
-- used again: those of messages are made of them.
CREATE TABLE IF NOT EXISTS {outbox} (
  id                  INTEGER PRIMARY KEY AUTOINCREMENT,
  create_time         TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now')),
  kafka_topic         TEXT NOT NULL,
  kafka_key           TEXT,
  kafka_value         TEXT,
  kafka_value_bytes   BLOB,
  kafka_header_keys   TEXT NOT NULL DEFAULT '[]',
  kafka_header_values TEXT NOT NULL DEFAULT '[]',
  kafka_partition     INTEGER,
  kafka_timestamp     TEXT,
  leader_id           TEXT,
  attempts            INTEGER NOT NULL DEFAULT 0,
  not_before          TEXT,
  last_error          TEXT
);

-- How relays find what is due, of all topics or of one: rows that nobody has taken come first in
-- them, by id.
CREATE INDEX IF NOT EXISTS {due_index} ON {unqualified} (not_before, id);
CREATE INDEX IF NOT EXISTS {topics_index} ON {unqualified} (kafka_topic, not_before, id);

-- Records that could not be delivered, whole, with why.
CREATE TABLE IF NOT EXISTS {dead} (
  dead_id             INTEGER PRIMARY KEY AUTOINCREMENT,
  id                  INTEGER NOT NULL,
  create_time         TEXT NOT NULL,
  kafka_topic         TEXT NOT NULL,
  kafka_key           TEXT,
  kafka_value         TEXT,
  kafka_value_bytes   BLOB,
  kafka_header_keys   TEXT,
  kafka_header_values TEXT,
  kafka_partition     INTEGER,
  kafka_timestamp     TEXT,
  attempts            INTEGER NOT NULL,
  last_error          TEXT NOT NULL,
  buried_at           TEXT NOT NULL DEFAULT (strftime('%Y-%m-%d %H:%M:%f', 'now'))
);

-- Which outbox of the world this is: the ids of its messages are made of it.
CREATE TABLE IF NOT EXISTS {source} (
  shard       INTEGER NOT NULL PRIMARY KEY,
  incarnation TEXT NOT NULL
);
