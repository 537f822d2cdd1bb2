-- goharvest's table as it documents it. An existing one is left as it is.
CREATE TABLE IF NOT EXISTS {outbox} (
  id                  BIGSERIAL PRIMARY KEY,
  create_time         TIMESTAMP WITH TIME ZONE NOT NULL,
  kafka_topic         VARCHAR(249) NOT NULL,
  kafka_key           VARCHAR NOT NULL,
  kafka_value         VARCHAR,
  kafka_header_keys   TEXT[] NOT NULL,
  kafka_header_values TEXT[] NOT NULL,
  leader_id           UUID
);
