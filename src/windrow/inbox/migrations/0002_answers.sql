-- What an HTTP receiver answered, to be given again; one without a status is being worked on.
CREATE TABLE IF NOT EXISTS {answers} (
  key        TEXT PRIMARY KEY,
  token      UUID NOT NULL,
  held_until TIMESTAMP WITH TIME ZONE NOT NULL,
  claimed_at TIMESTAMP WITH TIME ZONE NOT NULL DEFAULT clock_timestamp(),
  status     INTEGER,
  headers    TEXT,
  body       BYTEA
);
CREATE INDEX IF NOT EXISTS {answers_index} ON {answers} (claimed_at);
