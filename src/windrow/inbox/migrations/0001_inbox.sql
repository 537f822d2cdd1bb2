-- What consumers have taken. The time is that of the claim, not of the transaction's beginning, so
-- that a long transaction does not make a claim look older than it is.
CREATE TABLE IF NOT EXISTS {inbox} (
  consumer   TEXT NOT NULL,
  message_id TEXT NOT NULL,
  claimed_at TIMESTAMP WITH TIME ZONE NOT NULL DEFAULT clock_timestamp(),
  PRIMARY KEY (consumer, message_id)
);
CREATE INDEX IF NOT EXISTS {inbox_index} ON {inbox} (claimed_at);
