-- raise --
-- Take over whoever leads; returns who did, and when this was done, which tells us from a namesake.
WITH previous AS MATERIALIZED (
  SELECT leader FROM {epoch} WHERE shard = %(shard)s FOR UPDATE
)
UPDATE {epoch} SET epoch = epoch + 1, leader = %(name)s, raised_at = clock_timestamp()
FROM previous
WHERE shard = %(shard)s
RETURNING epoch, raised_at, previous.leader, shards, unsettled;

-- look --
SELECT raised_at FROM {epoch} WHERE shard = %(shard)s;

-- resign --
-- Nobody leads, and nothing is on its way.
UPDATE {epoch} SET leader = NULL WHERE shard = %(shard)s AND raised_at = %(raised_at)s;
