-- The outbox, with the columns it has in PostgreSQL: lists are JSON, moments UTC. The indexes are how
-- relays find what is due, of all topics or of one: rows that nobody has taken come first in them,
-- by id.
CREATE TABLE IF NOT EXISTS {outbox} (
  id                  BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  create_time         DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6)),
  kafka_topic         VARCHAR(249) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  kafka_key           LONGTEXT,
  kafka_value         LONGTEXT,
  kafka_value_bytes   LONGBLOB,
  kafka_header_keys   LONGTEXT NOT NULL DEFAULT ('[]'),
  kafka_header_values LONGTEXT NOT NULL DEFAULT ('[]'),
  kafka_partition     INT,
  kafka_timestamp     DATETIME(6),
  leader_id           CHAR(36) CHARACTER SET ascii COLLATE ascii_bin,
  attempts            INT NOT NULL DEFAULT 0,
  not_before          DATETIME(6),
  last_error          LONGTEXT,
  INDEX due (not_before, id),
  INDEX topics (kafka_topic, not_before, id)
) ENGINE = InnoDB DEFAULT CHARACTER SET = utf8mb4 COLLATE = utf8mb4_bin;

-- Records that could not be delivered, whole, with why.
CREATE TABLE IF NOT EXISTS {dead} (
  dead_id             BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
  id                  BIGINT NOT NULL,
  create_time         DATETIME(6) NOT NULL,
  kafka_topic         VARCHAR(249) CHARACTER SET ascii COLLATE ascii_bin NOT NULL,
  kafka_key           LONGTEXT,
  kafka_value         LONGTEXT,
  kafka_value_bytes   LONGBLOB,
  kafka_header_keys   LONGTEXT,
  kafka_header_values LONGTEXT,
  kafka_partition     INT,
  kafka_timestamp     DATETIME(6),
  attempts            INT NOT NULL,
  last_error          LONGTEXT NOT NULL,
  buried_at           DATETIME(6) NOT NULL DEFAULT (UTC_TIMESTAMP(6))
) ENGINE = InnoDB DEFAULT CHARACTER SET = utf8mb4 COLLATE = utf8mb4_bin;

-- Which outbox of the world this is: the ids of its messages are made of it.
CREATE TABLE IF NOT EXISTS {source} (
  shard       INT NOT NULL PRIMARY KEY,
  incarnation CHAR(36) CHARACTER SET ascii COLLATE ascii_bin NOT NULL
) ENGINE = InnoDB;
