-- leaders --
-- Who led last, whether leases are in use, and what is left of one.
SELECT epoch.shard, epoch.epoch, epoch.leader, epoch.raised_at, COALESCE(lease.epoch > 0, false),
       CASE WHEN isfinite(lease.expires_at) THEN
         extract(epoch FROM lease.expires_at - clock_timestamp())::float8
       END
FROM {epoch} AS epoch LEFT JOIN {lease} AS lease USING (shard)
WHERE epoch.shard < epoch.shards
ORDER BY epoch.shard;

-- plan --
-- How the outbox is divided.
SELECT generation, shards, unsettled FROM {epoch} WHERE shard = 0;

-- backlog --
-- How much waits, since when, and how much of it is taken. Bounded: a count of millions would be a
-- load of its own.
SELECT count(*), extract(epoch FROM clock_timestamp() - min(create_time))::float8, count(leader_id)
FROM (SELECT create_time, leader_id FROM {outbox} ORDER BY id LIMIT %(limit)s) AS head;

-- hottest --
-- Which keys most of the first rows belong to.
SELECT kafka_key::text, count(*) FROM (
  SELECT kafka_key FROM {outbox} ORDER BY id LIMIT %(sample)s
) AS head
WHERE kafka_key IS NOT NULL GROUP BY kafka_key ORDER BY count(*) DESC, kafka_key LIMIT %(top)s;

-- blocked --
-- What waits for a person or was told to wait, and how many of the first rows wait with it.
SELECT hold.what, hold.name, hold.reason, hold.note, hold.since, count(head.id)
FROM (SELECT * FROM {hold} ORDER BY since, what, name LIMIT %(top)s) AS hold
LEFT JOIN (
  SELECT id, kafka_key, kafka_topic FROM {outbox} ORDER BY id LIMIT %(sample)s
) AS head
  ON hold.what = 'relay'
  OR (hold.what = 'key' AND head.kafka_key = hold.name)
  OR (hold.what = 'topic' AND head.kafka_topic = hold.name)
GROUP BY hold.what, hold.name, hold.reason, hold.note, hold.since
ORDER BY hold.since, hold.what, hold.name;

-- blocked_by_reason --
SELECT reason, count(*) FROM {hold} GROUP BY reason;

-- dead_letters --
SELECT count(*), max(buried_at) FROM (SELECT buried_at FROM {dead} LIMIT %(limit)s) AS letters;
