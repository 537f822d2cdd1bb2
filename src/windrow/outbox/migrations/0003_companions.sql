-- The fence: who leads which shard. A mark locks its row FOR SHARE, a take-over updates it, so a
-- leader of an earlier epoch changes nothing. The shard count is here and not in a configuration
-- file, because two relays that disagree about it would both be right.
CREATE TABLE IF NOT EXISTS {epoch} (
  shard      INTEGER PRIMARY KEY,
  epoch      BIGINT NOT NULL,
  generation BIGINT NOT NULL DEFAULT 1,
  shards     INTEGER NOT NULL DEFAULT 1,
  leader     TEXT,
  raised_at  TIMESTAMP WITH TIME ZONE NOT NULL DEFAULT now()
) WITH (fillfactor = 50);
INSERT INTO {epoch} (shard, epoch) VALUES (0, 0) ON CONFLICT DO NOTHING;

-- Who may lead: renewed every second or so, apart from the fence that every mark locks.
CREATE TABLE IF NOT EXISTS {lease} (
  shard      INTEGER PRIMARY KEY,
  holder     TEXT NOT NULL,
  epoch      BIGINT NOT NULL,
  expires_at TIMESTAMP WITH TIME ZONE NOT NULL
) WITH (fillfactor = 50);
INSERT INTO {lease} (shard, holder, epoch, expires_at) VALUES (0, '', 0, '-infinity')
ON CONFLICT DO NOTHING;

-- Records that could not be delivered, whole, with why.
CREATE TABLE IF NOT EXISTS {dead} (
  dead_id             BIGSERIAL PRIMARY KEY,
  id                  BIGINT NOT NULL,
  create_time         TIMESTAMP WITH TIME ZONE NOT NULL,
  kafka_topic         VARCHAR(249) NOT NULL,
  kafka_key           VARCHAR,
  kafka_value         VARCHAR,
  kafka_value_bytes   BYTEA,
  kafka_header_keys   TEXT[],
  kafka_header_values TEXT[],
  kafka_partition     INTEGER,
  kafka_timestamp     TIMESTAMP WITH TIME ZONE,
  attempts            INTEGER NOT NULL,
  last_error          TEXT NOT NULL,
  buried_at           TIMESTAMP WITH TIME ZONE NOT NULL DEFAULT now()
);

-- Keys that wait for a person (held, buried) or were told to wait (paused); topics likewise.
CREATE TABLE IF NOT EXISTS {hold} (
  what    TEXT NOT NULL CHECK (what IN ('key', 'topic', 'relay')),
  name    TEXT NOT NULL,
  reason  TEXT NOT NULL CHECK (reason IN ('held', 'buried', 'paused')),
  note    TEXT,
  since   TIMESTAMP WITH TIME ZONE NOT NULL DEFAULT now(),
  PRIMARY KEY (what, name)
);

-- What people did by hand, and why a record is where it is.
CREATE TABLE IF NOT EXISTS {audit} (
  at      TIMESTAMP WITH TIME ZONE NOT NULL DEFAULT now(),
  who     TEXT NOT NULL DEFAULT current_user,
  action  TEXT NOT NULL,
  subject TEXT NOT NULL,
  detail  TEXT
);
