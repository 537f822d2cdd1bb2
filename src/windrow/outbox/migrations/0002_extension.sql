-- What goharvest's table lacks. Every column may be absent from an INSERT, so writers of the
-- previous release, and goharvest's own stasher, go on as they are; a constant default does not
-- rewrite the table.
ALTER TABLE {outbox}
  ADD COLUMN IF NOT EXISTS kafka_value_bytes BYTEA,
  ADD COLUMN IF NOT EXISTS kafka_partition   INTEGER,
  ADD COLUMN IF NOT EXISTS kafka_timestamp   TIMESTAMP WITH TIME ZONE,
  ADD COLUMN IF NOT EXISTS attempts          INTEGER NOT NULL DEFAULT 0,
  ADD COLUMN IF NOT EXISTS not_before        TIMESTAMP WITH TIME ZONE,
  ADD COLUMN IF NOT EXISTS last_error        TEXT,
  ALTER COLUMN kafka_key DROP NOT NULL,
  ALTER COLUMN create_time SET DEFAULT now(),
  ALTER COLUMN kafka_header_keys SET DEFAULT '{{}}',
  ALTER COLUMN kafka_header_values SET DEFAULT '{{}}';

-- Room on the page for the marked version of each row, so that a mark touches no index; and a
-- vacuum by count, because the share of dead rows says nothing about a table that is nearly empty.
ALTER TABLE {outbox} SET (
  fillfactor = 45,
  autovacuum_vacuum_scale_factor = 0,
  autovacuum_vacuum_threshold = 5000,
  autovacuum_vacuum_insert_scale_factor = 0,
  autovacuum_vacuum_insert_threshold = 50000,
  autovacuum_analyze_scale_factor = 0,
  autovacuum_analyze_threshold = 50000,
  autovacuum_vacuum_cost_delay = 0
);
