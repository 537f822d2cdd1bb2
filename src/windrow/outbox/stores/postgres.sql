-- mark --
-- Take the earliest visible rows that this leader has not taken, and say so in the table.
-- By id out of an array: an initial plan and lookups in the primary key, with no join to turn
-- quadratic when the table was analysed while it was empty. Not by ctid: a row that somebody else
-- is just changing would be passed over, and those behind it taken. The fence comes first: a leader
-- of an earlier epoch waits for whoever raises it, and then takes nothing.
WITH fence AS MATERIALIZED (
  SELECT FROM {epoch} WHERE shard = %(shard)s AND epoch = %(epoch)s{plan} FOR SHARE
)
UPDATE {outbox} SET {leader} = %(leader)s
WHERE EXISTS (SELECT FROM fence) AND {id} = ANY (ARRAY (
  SELECT {id} FROM {outbox}
  WHERE ({leader} IS NULL OR {leader} <> %(leader)s) {filters} AND {free}
  ORDER BY {id} LIMIT %(limit)s
))
RETURNING {fields};

-- purge_batch --
-- Remove the batch that the target has committed, by its name: all of its rows, or none if that
-- was done before.
DELETE FROM {outbox} WHERE {leader} = %(committed)s {known} AND EXISTS (
  SELECT FROM {epoch} WHERE shard = %(shard)s AND epoch = %(epoch)s{plan} FOR SHARE
);

-- mark_batch --
-- Name the earliest visible rows as the next batch, whatever name they had: nothing else is in
-- doubt, since the purge of the last batch is in the same transaction.
WITH fence AS MATERIALIZED (
  SELECT FROM {epoch} WHERE shard = %(shard)s AND epoch = %(epoch)s{plan} FOR SHARE
)
UPDATE {outbox} SET {leader} = %(next)s
WHERE EXISTS (SELECT FROM fence) AND {id} = ANY (ARRAY (
  SELECT {id} FROM {outbox} WHERE {mine}{free} ORDER BY {id} LIMIT %(limit)s
))
RETURNING {fields};

-- look --
-- Whether there is anything to name, and under which epoch: all that is asked while nothing comes.
SELECT (SELECT epoch FROM {epoch} WHERE shard = %(shard)s),
       (SELECT {id} FROM {outbox} WHERE {mine}{free} ORDER BY {id} LIMIT 1) IS NOT NULL;

-- mark_known --
-- Name rows that were read ahead: exactly what one earlier snapshot saw at the head, so what they
-- caused is behind them still.
UPDATE {outbox} SET {leader} = %(next)s
WHERE {id} = ANY (%(ids)s) AND EXISTS (
  SELECT FROM {epoch} WHERE shard = %(shard)s AND epoch = %(epoch)s{plan} FOR SHARE
);

-- free --
-- Not told to wait: neither its key nor its topic nor the relay as a whole. While nothing at all is
-- held, or all of it is, no row is asked: both are known before the first one is read.
NOT EXISTS (SELECT FROM {hold} WHERE what = 'relay') AND (
  NOT EXISTS (SELECT FROM {hold}) OR NOT EXISTS (
    SELECT FROM {hold} AS hold
    WHERE (hold.what = 'key' AND hold.name = {key})
       OR (hold.what = 'topic' AND hold.name = {topic})
  )
);

-- mine --
-- Whether a row belongs to this shard, where there are several: by its key, or by its id if it has
-- none, since then it has no order to keep. It is the hash that PostgreSQL partitions tables by;
-- leaders only have to agree on it while they share a server.
mod(COALESCE(hashtextextended({key}::text COLLATE "C", 0), {id}) & 9223372036854775807,
    %(shards)s::int8) = %(shard)s;

-- diff --
-- The same rows without writing: all that is visible, less what this leader holds in memory.
SELECT {fields} FROM {outbox}
WHERE NOT ({id} <@ %(taken)s::int8multirange) {filters} AND {free}
  AND EXISTS (SELECT FROM {epoch} WHERE shard = %(shard)s AND epoch = %(epoch)s{plan})
ORDER BY {id} LIMIT %(limit)s;

-- purge --
-- Remove what the target has acknowledged: the acknowledgement is the proof, so no fence. Never a
-- range: a transaction may have committed late inside it.
DELETE FROM {outbox} WHERE {id} = ANY (%(ids)s);

-- reset --
-- Give rows back, a whole lane at once.
UPDATE {outbox} SET {leader} = NULL
WHERE {id} = ANY (%(ids)s) AND EXISTS (
  SELECT FROM {epoch} WHERE shard = %(shard)s AND epoch = %(epoch)s{plan} FOR SHARE
);

-- hold --
-- A lane waits for a person: its key is named, and all its rows are given back at once. Repeated,
-- it stays held since then; for another reason, since now.
WITH fence AS MATERIALIZED (
  SELECT FROM {epoch} WHERE shard = %(shard)s AND epoch = %(epoch)s{plan} FOR SHARE
), named AS (
  INSERT INTO {hold} AS hold (what, name, reason, note)
  SELECT 'key', %(key)s, %(reason)s, %(note)s WHERE EXISTS (SELECT FROM fence)
  ON CONFLICT (what, name) DO UPDATE
  SET reason = excluded.reason, note = excluded.note,
      since = CASE hold.reason WHEN excluded.reason THEN hold.since ELSE now() END
)
UPDATE {outbox} SET {leader} = NULL
WHERE {id} = ANY (%(ids)s) AND EXISTS (SELECT FROM fence);

-- bury --
-- Move records that can never pass to the dead letters, whole and with the reason.
WITH fence AS MATERIALIZED (
  SELECT FROM {epoch} WHERE shard = %(shard)s AND epoch = %(epoch)s{plan} FOR SHARE
), buried AS (
  DELETE FROM {outbox} WHERE {id} = ANY (%(ids)s) AND EXISTS (SELECT FROM fence)
  RETURNING *
)
INSERT INTO {dead} ({dead_fields}, attempts, last_error)
SELECT {dead_values}, %(attempts)s, %(error)s FROM buried;

-- bury_lanes --
-- What arrives for a key whose lane was buried follows it. Whether there is such a key is asked
-- first: a backlog is walked through only if there is.
WITH buried AS (
  DELETE FROM {outbox} WHERE EXISTS (
    SELECT FROM {hold} WHERE what = 'key' AND reason = 'buried'
  ) AND {mine}{key} IN (
    SELECT name FROM {hold} WHERE what = 'key' AND reason = 'buried'
  )
  RETURNING *
)
INSERT INTO {dead} ({dead_fields}, attempts, last_error)
SELECT {dead_values}, 0, 'follows a dead letter of its key' FROM buried;

-- note --
-- Write down that a record has failed, for whoever leads next and for people.
UPDATE {outbox} SET {attempts} = %(attempts)s, {last_error} = %(error)s
WHERE {id} = %(id)s;

-- release_names --
-- Take the names of batches off all rows: each was found to be committed, and removed, or is known
-- to have been given up.
UPDATE {outbox} SET {leader} = NULL
WHERE substr({leader}::text, 15, 1) = '8' AND EXISTS (
  SELECT FROM {epoch} WHERE shard = %(shard)s AND epoch = %(epoch)s{plan} FOR SHARE
);

-- raise_epoch --
-- Take over: from here on whoever led before marks and resets nothing.
UPDATE {epoch} SET epoch = epoch + 1, leader = %(name)s, raised_at = now()
WHERE shard = %(shard)s
RETURNING epoch, generation, shards;

-- renew_epoch --
-- The same for one's own statements of unknown outcome: waits for those that run under the old
-- epoch, and shuts out those that are still on their way.
UPDATE {epoch} SET epoch = epoch + 1 WHERE shard = %(shard)s AND epoch = %(epoch)s
RETURNING epoch;

-- identity --
-- Which outbox of the world this is; the same after a fail-over, another after a restore.
SELECT (SELECT system_identifier FROM pg_control_system()),
       (SELECT oid FROM pg_database WHERE datname = current_database()),
       to_regclass(%(outbox)s)::oid;

-- named_rows --
-- Rows that carry the name of a batch: a UUID of version 8, where leaders' ids are of version 4.
SELECT count(*), min({id}) FROM {outbox} WHERE {mine}substr({leader}::text, 15, 1) = '8';

-- read_epoch --
SELECT epoch FROM {epoch} WHERE shard = %(shard)s;

-- is_present --
-- Whether the table and its companions are there at all, and know of shards.
SELECT to_regclass(%(outbox)s) IS NOT NULL, to_regclass(%(epoch)s) IS NOT NULL, EXISTS (
  SELECT FROM pg_attribute WHERE attrelid = to_regclass(%(epoch)s) AND attname = 'unsettled'
);

-- is_shared --
-- Whether competing relays share the outbox.
SELECT EXISTS (SELECT FROM {hold} WHERE what = 'relay' AND name = 'competing');

-- columns --
SELECT attname::text FROM pg_attribute
WHERE attrelid = to_regclass(%(outbox)s) AND attnum > 0 AND NOT attisdropped;

-- backlog --
-- How much waits, and since when. Bounded: a count of millions would be a load of its own.
SELECT count(*), extract(epoch FROM now() - min({created}))
FROM (SELECT {created} FROM {outbox} ORDER BY {id} LIMIT %(limit)s) AS head;
