-- is_present --
-- Whether the table is there, and the companions that a source needs.
SELECT to_regclass(%(outbox)s) IS NOT NULL, to_regclass(%(batch)s) IS NOT NULL;

-- lock_lease --
-- Before the epoch, as whoever takes a lease does; returns for how long it holds.
SELECT CASE WHEN expires_at > clock_timestamp()
            THEN extract(epoch FROM expires_at - clock_timestamp())::float8 ELSE 0 END
FROM {lease} WHERE shard = 0 FOR UPDATE;

-- raise_epoch --
-- Take over: waits for every mark that is under way, and from here on whoever led before marks and
-- purges nothing. Returns who that was, and how the outbox is divided.
WITH previous AS MATERIALIZED (
  SELECT leader, shards, unsettled FROM {epoch} WHERE shard = 0 FOR UPDATE
)
UPDATE {epoch} AS epoch SET epoch = epoch.epoch + 1, leader = %(leader)s, raised_at = now()
FROM previous WHERE epoch.shard = 0
RETURNING epoch.epoch, previous.leader, previous.shards, previous.unsettled;

-- take_lease --
-- A relay that stands by does so for as long as this source is heard of.
UPDATE {lease}
SET holder = %(leader)s, epoch = %(epoch)s,
    expires_at = clock_timestamp() + %(ttl)s * interval '1 second'
WHERE shard = 0;

-- reclaim --
-- Rows that were given an index keep it, though a relay has marked them since. What it has purged
-- stays gone.
UPDATE {outbox} SET {leader} = batch.name FROM {batch} AS batch
WHERE {outbox}.{id} = ANY (batch.ids) AND {leader} IS DISTINCT FROM batch.name;

-- renew_lease --
UPDATE {lease} SET expires_at = clock_timestamp() + %(ttl)s * interval '1 second'
WHERE shard = 0 AND holder = %(leader)s;

-- resign --
UPDATE {lease} SET holder = '', expires_at = '-infinity'
WHERE shard = 0 AND holder = %(leader)s;

-- look --
-- Which indices there are, and who leads.
SELECT source.incarnation::text,
       COALESCE((SELECT min(first_index) FROM {batch}), source.next_index),
       source.next_index,
       (SELECT epoch FROM {epoch} WHERE shard = 0)
FROM {source} AS source WHERE shard = 0;

-- mark --
-- Take the earliest visible rows that have no index, name them and write down in which order. The
-- fence comes first: whoever led before waits for the one that raises the epoch, and takes nothing.
-- Whatever else a row carries as its leader is the mark of one that leads no more.
WITH fence AS MATERIALIZED (
  SELECT FROM {epoch} WHERE shard = 0 AND epoch = %(epoch)s FOR SHARE
), marked AS (
  UPDATE {outbox} SET {leader} = %(name)s
  WHERE EXISTS (SELECT FROM fence) AND {id} = ANY (ARRAY (
    SELECT {id} FROM {outbox}
    WHERE ({leader} IS NULL OR {leader} NOT IN (SELECT name FROM {batch})) AND {free}
    ORDER BY {id} LIMIT %(limit)s
  ))
  RETURNING {id} AS id
), members AS MATERIALIZED (
  SELECT array_agg(id ORDER BY id) AS ids, count(*) AS rows FROM marked HAVING count(*) > 0
), moved AS (
  UPDATE {source} SET next_index = next_index + members.rows FROM members WHERE shard = 0
  RETURNING next_index - members.rows AS first_index, next_index AS end_index
)
INSERT INTO {batch} (first_index, end_index, name, ids)
SELECT moved.first_index, moved.end_index, %(name)s, members.ids FROM moved, members
RETURNING first_index, end_index;

-- purge --
-- Remove the rows of every batch that is settled as a whole, by its name.
WITH fence AS MATERIALIZED (
  SELECT FROM {epoch} WHERE shard = 0 AND epoch = %(epoch)s FOR SHARE
), settled AS (
  DELETE FROM {batch} WHERE end_index <= %(settled)s AND EXISTS (SELECT FROM fence)
  RETURNING name, ids
)
DELETE FROM {outbox} USING settled
WHERE {outbox}.{id} = ANY (settled.ids) AND {leader} = settled.name;

-- waiting --
-- How many visible rows have no index yet, counted up to a limit.
SELECT count(*) FROM (
  SELECT FROM {outbox}
  WHERE ({leader} IS NULL OR {leader} NOT IN (SELECT name FROM {batch})) AND {free}
  LIMIT %(limit)s
) AS waiting;

-- read --
-- The rows of a range of indices, of those only that fall to one of several tasks; of a row that
-- is gone nothing but its index.
SELECT place.windrow_index, {outbox}.{id} IS NULL, {fields}, {micros}
FROM (
  SELECT batch.name AS windrow_name, member.id AS windrow_id,
         greatest(batch.first_index, %(start)s::int8) + member.nth - 1 AS windrow_index
  FROM {batch} AS batch,
       unnest(batch.ids[greatest(%(start)s - batch.first_index, 0) + 1
                        : %(end)s - batch.first_index])
         WITH ORDINALITY AS member (id, nth)
  WHERE batch.first_index < %(end)s AND batch.end_index > %(start)s
) AS place
LEFT JOIN {outbox} ON {outbox}.{id} = place.windrow_id AND {leader} = place.windrow_name
WHERE {outbox}.{id} IS NULL OR %(shards)s = 1 OR {part};

-- covered --
-- Which part of a range there is.
SELECT source.incarnation::text, min(first_index), max(end_index)
FROM {source} AS source
LEFT JOIN {batch} ON first_index < %(end)s AND end_index > %(start)s
WHERE shard = 0
GROUP BY source.incarnation;
