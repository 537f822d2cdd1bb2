-- claim --
-- Lease the oldest rows that are due: those nobody has taken yet, by id, and those whose delay or
-- lease has ended, by when it did. Each half has an index of its own, so that rows which wait are
-- not even looked at, however many they are. What others are just claiming is stepped over. A row
-- that an ordered relay has marked has a leader and no time: it is never due. A row whose lease
-- ended under another token is an orphan; the try that nobody ended is counted now, and of those
-- with many counted ones only so many are taken as are asked for. The first column tells whether
-- the outbox is still shared: without that, nothing is claimed.
WITH RECURSIVE shared AS MATERIALIZED (
  SELECT FROM {hold} WHERE what = 'relay' AND name = 'competing'
), {untried}, again AS (
  SELECT {id} AS id, ({leader} <> %(token)s) IS TRUE AS is_orphan FROM {outbox}
  WHERE {not_before} IS NOT NULL AND {not_before} <= now() {filters}
    AND (({leader} <> %(token)s) IS NOT TRUE OR {attempts} + 1 < %(suspected)s)
    AND EXISTS (SELECT FROM shared) AND {unpaused}
  ORDER BY {not_before}, {id} LIMIT %(limit)s FOR UPDATE SKIP LOCKED
), suspects AS (
  SELECT {id} AS id FROM {outbox}
  WHERE {not_before} IS NOT NULL AND {not_before} <= now() {filters}
    AND {leader} <> %(token)s AND {attempts} + 1 >= %(suspected)s
    AND EXISTS (SELECT FROM shared) AND {unpaused}
  ORDER BY {not_before}, {id} LIMIT %(suspects)s FOR UPDATE SKIP LOCKED
), orphans AS (
  SELECT id FROM again WHERE is_orphan UNION ALL SELECT id FROM suspects
), claimed (id, topic, key, value, header_keys, header_values, part, time, attempts, created) AS (
  UPDATE {outbox}
  SET {leader} = %(token)s, {not_before} = now() + %(lease)s::float8 * interval '1 second',
      {attempts} = {attempts} + (({leader} <> %(token)s) IS TRUE)::int
  WHERE {id} = ANY (ARRAY (
    SELECT id FROM (
      SELECT id FROM untried UNION ALL SELECT id FROM again UNION ALL SELECT id FROM suspects
    ) AS due
    ORDER BY id LIMIT %(limit)s
  ))
  RETURNING {fields}, {created}
)
SELECT guard.is_shared, id, topic, key, value, header_keys, header_values, attempts, created,
       id = ANY (ARRAY (SELECT id FROM orphans))
FROM (SELECT EXISTS (SELECT FROM shared)) AS guard (is_shared) LEFT JOIN claimed ON true;

-- untried --
-- Of all topics: rows that nobody has taken yet, from the head.
untried AS (
  SELECT {id} AS id FROM {outbox}
  WHERE {not_before} IS NULL AND {leader} IS NULL
    AND EXISTS (SELECT FROM shared) AND {unpaused}
  ORDER BY {id} LIMIT %(limit)s FOR UPDATE SKIP LOCKED
);

-- untried_of_topics --
-- Of some topics: the head of each, so that rows of a topic whose destination is down are not
-- walked over, however many they are.
untried AS (
  SELECT head.id FROM wanted CROSS JOIN LATERAL (
    SELECT {id} AS id FROM {outbox}
    WHERE {topic} = wanted.topic AND {not_before} IS NULL AND {leader} IS NULL
      AND EXISTS (SELECT FROM shared) AND {unpaused}
    ORDER BY {id} LIMIT %(limit)s FOR UPDATE SKIP LOCKED
  ) AS head
);

-- wanted --
wanted AS (SELECT topic FROM unnest(%(topics)s::text[]) AS topic);

-- not_unwanted --
-- From topic to topic by the index.
present (topic) AS (
  (SELECT {topic}::text FROM {outbox} WHERE {not_before} IS NULL ORDER BY {topic} LIMIT 1)
  UNION ALL
  SELECT (
    SELECT {topic}::text FROM {outbox}
    WHERE {not_before} IS NULL AND {topic} > present.topic ORDER BY {topic} LIMIT 1
  ) FROM present WHERE present.topic IS NOT NULL
), wanted AS (
  SELECT topic FROM present WHERE topic IS NOT NULL AND topic <> ALL (%(topics)s::text[])
);

-- unpaused --
-- Not told to wait by a person: neither its key nor its topic nor the relays as a whole. The mark
-- of competing relays itself keeps away ordered ones only.
NOT EXISTS (SELECT FROM {hold} WHERE what = 'relay' AND name <> 'competing') AND (
  NOT EXISTS (SELECT FROM {hold} WHERE what <> 'relay') OR NOT EXISTS (
    SELECT FROM {hold} AS hold
    WHERE (hold.what = 'key' AND hold.name = {key})
       OR (hold.what = 'topic' AND hold.name = {topic})
  )
);

-- delivered --
-- Remove what the receiver has, if it is still ours.
DELETE FROM {outbox} WHERE {id} = ANY (%(ids)s) AND {leader} = %(token)s RETURNING {id};

-- retry --
-- Give rows back, each for the end of its own delay.
UPDATE {outbox} AS outbox
SET {leader} = NULL, {not_before} = now() + retry.delay * interval '1 second',
    {attempts} = outbox.{attempts} + retry.counted, {last_error} = retry.reason
FROM unnest(%(ids)s::int8[], %(delays)s::float8[], %(counted)s::int4[], %(reasons)s::text[])
  AS retry (id, delay, counted, reason)
WHERE outbox.{id} = retry.id AND outbox.{leader} = %(token)s
RETURNING outbox.{id};

-- bury --
-- Move rows to the dead letters, whole and with the reason; a try that ended it counts.
WITH buried AS (
  DELETE FROM {outbox} WHERE {id} = ANY (%(ids)s) AND {leader} = %(token)s RETURNING *
)
INSERT INTO {dead} ({dead_fields}, attempts, last_error)
SELECT {dead_values}, buried.{attempts} + burial.counted, burial.reason
FROM buried
JOIN unnest(%(ids)s::int8[], %(counted)s::int4[], %(reasons)s::text[])
  AS burial (burial_id, counted, reason)
  ON burial.burial_id = buried.{id}
RETURNING id;

-- renew --
UPDATE {outbox} SET {not_before} = now() + %(lease)s::float8 * interval '1 second'
WHERE {id} = ANY (%(ids)s) AND {leader} = %(token)s
RETURNING {id};

-- release --
UPDATE {outbox} SET {leader} = NULL, {not_before} = NULL
WHERE {id} = ANY (%(ids)s) AND {leader} = %(token)s;

-- incarnation --
SELECT incarnation FROM {source} WHERE shard = 0;

-- lock_epochs --
-- No ordered relay takes over while this transaction lasts, and none reads or marks.
SELECT FROM {epoch} ORDER BY shard FOR UPDATE;

-- is_shared --
SELECT FROM {hold} WHERE what = 'relay' AND name = 'competing';

-- leaders --
SELECT holder FROM {lease} WHERE expires_at > clock_timestamp() AND holder <> '' ORDER BY shard;

-- in_doubt --
-- Batches that an ordered relay, or a graph that reads the outbox, has named and not yet purged.
SELECT EXISTS (SELECT FROM {outbox} WHERE substr({leader}::text, 15, 1) = '8')
    OR EXISTS (SELECT FROM {batch});

-- share --
INSERT INTO {hold} (what, name, reason, note)
VALUES ('relay', 'competing', 'paused', 'shared by competing relays, so no ordered one may lead');

-- fence_leaders --
UPDATE {epoch} SET epoch = epoch + 1, leader = NULL, raised_at = now();

-- unmark --
-- What ordered relays had marked and not sent when they were stopped.
UPDATE {outbox} SET {leader} = NULL WHERE {leader} IS NOT NULL AND {not_before} IS NULL;
