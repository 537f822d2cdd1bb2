-- stand --
-- Renew the lease if it is ours; take it, with a new epoch, if it has run out. The row is locked
-- first, so that of two that find it expired one waits, and then sees it taken. Who finds it held
-- locks and writes nothing, and so does who asks for a lease of another generation.
WITH current AS MATERIALIZED (
  SELECT holder, epoch FROM {lease}
  WHERE shard = %(shard)s AND generation = %(generation)s
    AND (holder = %(holder)s OR expires_at <= clock_timestamp())
  FOR UPDATE
), raised AS (
  UPDATE {epoch} SET epoch = epoch + 1, leader = %(name)s, raised_at = now()
  WHERE shard = %(shard)s AND EXISTS (SELECT FROM current WHERE holder <> %(holder)s)
  RETURNING epoch
)
UPDATE {lease} AS lease
SET holder = %(holder)s,
    epoch = COALESCE((SELECT epoch FROM raised), current.epoch),
    expires_at = clock_timestamp() + %(ttl)s * interval '1 second'
FROM current
WHERE lease.shard = %(shard)s
  AND (EXISTS (SELECT FROM raised) OR current.holder = %(holder)s)
RETURNING lease.epoch;

-- resign --
UPDATE {lease} SET expires_at = '-infinity', holder = ''
WHERE shard = %(shard)s AND holder = %(holder)s;
