-- lanes --
-- Keys that wait for a person, each with the record at its head.
SELECT hold.name, hold.reason, hold.note, hold.since, head.id, head.topic, head.attempts
FROM {hold} AS hold LEFT JOIN LATERAL (
  SELECT id, kafka_topic::text AS topic, {attempts} AS attempts
  FROM {outbox} WHERE hold.reason = 'held' AND kafka_key = hold.name ORDER BY id LIMIT 1
) AS head ON true
WHERE hold.what = 'key' AND hold.reason IN ('held', 'buried')
  AND (%(key)s::text IS NULL OR hold.name = %(key)s)
ORDER BY hold.since, hold.name LIMIT %(limit)s;

-- dead --
-- Dead letters, without what is in them.
SELECT dead_id, id, kafka_key::text, kafka_topic::text, attempts, last_error, buried_at
FROM {dead}
WHERE (%(key)s::text IS NULL OR kafka_key = %(key)s)
  AND (%(topic)s::text IS NULL OR kafka_topic = %(topic)s)
ORDER BY dead_id LIMIT %(limit)s;

-- show_dead --
SELECT dead_id, id, create_time, kafka_topic::text, kafka_key::text,
       COALESCE(kafka_value_bytes, convert_to(kafka_value, 'UTF8')),
       kafka_header_keys, kafka_header_values, attempts, last_error, buried_at
FROM {dead} WHERE dead_id = %(dead)s;

-- lock_hold --
-- Why this key waits, if it does; the relay changes nothing about it meanwhile.
SELECT reason, since FROM {hold} WHERE what = 'key' AND name = %(key)s FOR UPDATE;

-- head --
SELECT id, kafka_topic::text, {attempts}, {last_error}
FROM {outbox} WHERE kafka_key = %(key)s ORDER BY id LIMIT 1;

-- forgive --
-- Its record begins anew, with all its attempts before it.
UPDATE {outbox} SET {forget_attempts} WHERE kafka_key = %(key)s AND {has_attempts};

-- release --
DELETE FROM {hold} WHERE what = 'key' AND name = %(key)s;

-- bury_head --
WITH gone AS (DELETE FROM {outbox} WHERE id = %(record)s RETURNING *)
INSERT INTO {dead} (id, {fields}, attempts, last_error)
SELECT id, {fields}, {attempts}, COALESCE({last_error}, 'skipped by hand') FROM gone
RETURNING dead_id;

-- discard_head --
DELETE FROM {outbox} WHERE id = %(record)s;

-- lock_dead --
SELECT dead_id, id, kafka_key::text, kafka_topic::text FROM {dead}
WHERE dead_id = %(dead)s FOR UPDATE;

-- lock_dead_of_key --
-- In the order in which they were stashed, which is not that in which they were moved.
SELECT dead_id, id, buried_at FROM {dead}
WHERE kafka_key = %(key)s ORDER BY id, dead_id FOR UPDATE;

-- discard_dead --
DELETE FROM {dead} WHERE dead_id = ANY (%(dead)s);

-- lock_outbox --
-- A service that has drawn an id and not committed would come out before what is put back now,
-- though it was stashed later: wait for it, and let nobody begin.
LOCK TABLE {outbox} IN SHARE ROW EXCLUSIVE MODE;

-- bury_rest --
-- What has arrived for a buried key and was not moved yet belongs behind its dead letters.
WITH gone AS (DELETE FROM {outbox} WHERE kafka_key = %(key)s RETURNING *)
INSERT INTO {dead} (id, {fields}, attempts, last_error)
SELECT id, {fields}, 0, 'follows a dead letter of its key' FROM gone;

-- put_back --
-- Under new ids, drawn in the old order.
WITH returned AS (DELETE FROM {dead} WHERE dead_id = ANY (%(dead)s) RETURNING *)
INSERT INTO {outbox} ({fields})
SELECT {fields} FROM returned ORDER BY id, dead_id
RETURNING id;
