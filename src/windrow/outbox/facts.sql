-- holders --
-- Whose open transactions have one of these tables in use, the oldest first.
SELECT activity.pid, activity.application_name, activity.state,
       extract(epoch FROM now() - activity.xact_start)::float8
FROM pg_stat_activity AS activity
WHERE activity.pid <> pg_backend_pid() AND activity.pid IN (
  SELECT lock.pid FROM pg_locks AS lock
  WHERE lock.granted AND lock.locktype = 'relation'
    AND lock.database = (SELECT oid FROM pg_database WHERE datname = current_database())
    AND lock.relation IN (SELECT to_regclass(name) FROM unnest(%(tables)s::text[]) AS name)
)
ORDER BY activity.xact_start;

-- relations --
-- Which of these tables there are.
SELECT name FROM unnest(%(tables)s::text[]) AS name WHERE to_regclass(name) IS NOT NULL;

-- storage --
-- How the outbox is kept: permanent or not, and with which settings.
SELECT relpersistence::text, COALESCE(reloptions, '{}') FROM pg_class
WHERE oid = to_regclass(%(outbox)s);

-- columns --
-- Each column with its type, and the length of a varchar that has one.
SELECT attname::text, format_type(atttypid, atttypmod),
       CASE WHEN atttypid = 'varchar'::regtype AND atttypmod > 4 THEN atttypmod - 4 END
FROM pg_attribute
WHERE attrelid = to_regclass(%(outbox)s) AND attnum > 0 AND NOT attisdropped;

-- sequence --
-- Where ids come from: a sequence that the column owns, or one that its default asks.
SELECT sequence.seqrelid::regclass::text, sequence.seqcache, sequence.seqincrement,
       sequence.seqcycle
FROM pg_attribute AS id
JOIN pg_sequence AS sequence ON sequence.seqrelid IN (
  SELECT owned.objid FROM pg_depend AS owned
  WHERE owned.classid = 'pg_class'::regclass AND owned.refclassid = 'pg_class'::regclass
    AND owned.refobjid = id.attrelid AND owned.refobjsubid = id.attnum
    AND owned.deptype IN ('a', 'i')
  UNION
  SELECT asked.refobjid FROM pg_attrdef AS given
  JOIN pg_depend AS asked ON asked.classid = 'pg_attrdef'::regclass AND asked.objid = given.oid
    AND asked.refclassid = 'pg_class'::regclass
  WHERE given.adrelid = id.attrelid AND given.adnum = id.attnum
)
WHERE id.attrelid = to_regclass(%(outbox)s) AND id.attname = 'id' AND NOT id.attisdropped;

-- indexes --
-- Each index with its first column, and every column it depends on, in its predicate too.
SELECT index.indexrelid::regclass::text,
       index.indisvalid AND index.indpred IS NULL,
       COALESCE((
         SELECT attname::text FROM pg_attribute
         WHERE attrelid = index.indrelid AND attnum = index.indkey[0]
       ), ''),
       ARRAY (
         SELECT attribute.attname::text FROM pg_attribute AS attribute
         WHERE attribute.attrelid = index.indrelid AND (
           attribute.attnum = ANY (index.indkey)
           OR EXISTS (
             SELECT FROM pg_depend AS needed
             WHERE needed.classid = 'pg_class'::regclass AND needed.objid = index.indexrelid
               AND needed.refobjid = index.indrelid AND needed.refobjsubid = attribute.attnum
           )
         )
       )
FROM pg_index AS index WHERE index.indrelid = to_regclass(%(outbox)s)
ORDER BY 1;

-- settings --
SELECT name, setting FROM pg_settings WHERE name IN ('wal_level', 'autovacuum');

-- horizon --
-- Who keeps dead rows from being removed: transactions and prepared ones of this database, and
-- slots and standbys of the whole server. A slot for decoding keeps the log instead. The age in
-- transactions, and in seconds where it is known.
SELECT 'transaction', pid::text, COALESCE(state, ''), false,
       age(COALESCE(backend_xmin, backend_xid)),
       extract(epoch FROM now() - xact_start)::float8
FROM pg_stat_activity
WHERE datname = current_database() AND pid <> pg_backend_pid()
  AND COALESCE(backend_xmin, backend_xid) IS NOT NULL AND backend_type = 'client backend'
UNION ALL
SELECT 'prepared', gid, owner::text, false, age(transaction),
       extract(epoch FROM now() - prepared)::float8
FROM pg_prepared_xacts WHERE database = current_database()
UNION ALL
SELECT CASE WHEN xmin IS NULL THEN 'decoder' ELSE 'slot' END, slot_name::text, slot_type, active,
       age(COALESCE(xmin, catalog_xmin)), NULL
FROM pg_replication_slots WHERE COALESCE(xmin, catalog_xmin) IS NOT NULL
UNION ALL
SELECT 'standby', COALESCE(application_name, ''), COALESCE(state, ''), true, age(backend_xmin), NULL
FROM pg_stat_replication WHERE backend_xmin IS NOT NULL;

-- sees_others --
-- Whether this role is shown what other sessions do.
SELECT pg_has_role(current_user, 'pg_read_all_stats', 'USAGE');
