-- A relay that has nothing to do says here until when it sleeps, so that writers need to ring for it
-- only then: every ring makes commits wait for each other.
CREATE TABLE IF NOT EXISTS {doorbell} (
  shard        INTEGER PRIMARY KEY,
  asleep_until TIMESTAMP WITH TIME ZONE NOT NULL
) WITH (fillfactor = 50);
