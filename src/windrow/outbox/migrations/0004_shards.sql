-- Several relays share an outbox by key. A generation is a number of shards; a new one leads only
-- when all that the one before left behind is settled: "unsettled" is how many shards it had, 0 when
-- that is done.
ALTER TABLE {epoch} ADD COLUMN IF NOT EXISTS unsettled INTEGER NOT NULL DEFAULT 0;

-- A lease is good in one generation only, so whoever makes a new one ends the renewal of all leases
-- of the old. Of generation 0 is one that nobody may take.
ALTER TABLE {lease} ADD COLUMN IF NOT EXISTS generation BIGINT NOT NULL DEFAULT 1;

-- Which relays are alive, so that none takes more than its part, and how many shards each wants.
CREATE TABLE IF NOT EXISTS {member} (
  member     TEXT PRIMARY KEY,
  shards     INTEGER,
  expires_at TIMESTAMP WITH TIME ZONE NOT NULL
) WITH (fillfactor = 50);
