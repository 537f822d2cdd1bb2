-- An outbox that is read as a source of queues gives each row an index, once and for good. The id of
-- a row would not do: a transaction that commits late brings ids below those that were read already.
-- The incarnation tells these indices from those of an earlier outbox of the same name.
CREATE TABLE IF NOT EXISTS {source} (
  shard       INTEGER PRIMARY KEY,
  incarnation UUID NOT NULL,
  next_index  BIGINT NOT NULL
) WITH (fillfactor = 50);
INSERT INTO {source} (shard, incarnation, next_index) VALUES (0, gen_random_uuid(), 0)
ON CONFLICT DO NOTHING;

-- The rows that were marked together and are not purged yet: the first has the index "first_index",
-- and so on in the order of "ids". They carry "name" as their leader.
CREATE TABLE IF NOT EXISTS {batch} (
  first_index BIGINT PRIMARY KEY,
  end_index   BIGINT NOT NULL CHECK (end_index - first_index = cardinality(ids)),
  name        UUID NOT NULL,
  ids         BIGINT[] NOT NULL
);
