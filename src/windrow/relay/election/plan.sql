-- look --
-- How the outbox is divided.
SELECT generation, shards, unsettled, 1, '{{}}'::int4[], '{{}}'::int4[]
FROM {epoch} WHERE shard = 0;

-- announce --
-- Say that this relay is alive and how many shards it asks for; see how the outbox is divided, who
-- else is there, and which leases may be taken.
WITH announced AS (
  INSERT INTO {member} AS member (member, shards, expires_at)
  VALUES (%(member)s, %(wanted)s, clock_timestamp() + %(ttl)s * interval '1 second')
  ON CONFLICT (member) DO UPDATE SET shards = excluded.shards, expires_at = excluded.expires_at
), others AS MATERIALIZED (
  SELECT shards FROM {member} AS member
  WHERE member <> %(member)s AND expires_at > clock_timestamp()
)
SELECT generation, shards, unsettled,
       1 + (SELECT count(*)::int4 FROM others),
       ARRAY (SELECT DISTINCT others.shards FROM others WHERE others.shards IS NOT NULL),
       ARRAY (
         SELECT lease.shard FROM {lease} AS lease
         WHERE lease.generation = epoch.generation AND lease.shard < epoch.shards
           AND lease.expires_at <= clock_timestamp()
         ORDER BY lease.shard
       )
FROM {epoch} AS epoch WHERE shard = 0;

-- depart --
-- This relay is gone, and so is whoever has not been heard of for a long time.
DELETE FROM {member}
WHERE member = %(member)s OR expires_at < clock_timestamp() - interval '1 hour';

-- lock_leases --
-- Before the epochs, as whoever takes a lease does.
SELECT FROM {lease} ORDER BY shard FOR UPDATE;

-- lock_plan --
-- Waits for every mark that is under way.
SELECT FROM {epoch} ORDER BY shard FOR UPDATE;

-- is_current --
SELECT FROM {epoch} WHERE shard = 0 AND generation = %(generation)s AND unsettled = 0;

-- add_epochs --
INSERT INTO {epoch} (shard, epoch)
SELECT shard, 0 FROM generate_series(1, %(shards)s - 1) AS shard ON CONFLICT DO NOTHING;

-- add_leases --
INSERT INTO {lease} (shard, holder, epoch, expires_at)
SELECT shard, '', 0, '-infinity' FROM generate_series(1, %(shards)s - 1) AS shard
ON CONFLICT DO NOTHING;

-- divide --
-- Fence every leader there is, of whatever shard.
UPDATE {epoch} SET epoch = epoch + 1, generation = %(generation)s + 1, 
  unsettled = %(unsettled)s, shards = %(shards)s, leader = NULL, raised_at = clock_timestamp();

-- end_leases --
-- None of them can be renewed; only that of shard 0 can be taken anew.
UPDATE {lease} SET generation = CASE shard WHEN 0 THEN %(generation)s + 1 ELSE 0 END;

-- is_over --
-- Whether whoever led in an earlier generation has ended: no lease runs on but that of shard 0,
-- which has been taken anew.
SELECT NOT EXISTS (SELECT FROM {lease} WHERE shard > 0 AND expires_at > clock_timestamp());

-- settle --
-- All that earlier generations left is seen to: every shard may be led.
WITH fence AS MATERIALIZED (
  SELECT FROM {epoch}
  WHERE shard = 0 AND epoch = %(epoch)s AND generation = %(generation)s FOR UPDATE
), freed AS (
  UPDATE {lease} SET generation = %(generation)s
  WHERE shard > 0 AND shard < %(shards)s AND EXISTS (SELECT FROM fence)
)
UPDATE {epoch} SET unsettled = 0 WHERE EXISTS (SELECT FROM fence);

-- raise --
-- Fence whoever led this shard before; nobody, while the plan is another or not settled.
UPDATE {epoch} SET epoch = epoch + 1, leader = %(name)s, raised_at = clock_timestamp()
WHERE shard = %(shard)s AND generation = %(generation)s
  AND (unsettled = 0 OR shard = 0)
RETURNING epoch;
