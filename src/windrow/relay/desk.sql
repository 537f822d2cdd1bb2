-- is_present --
-- Whether the outbox is there, and what goes with it.
SELECT to_regclass(%(outbox)s) IS NOT NULL, to_regclass(%(hold)s) IS NOT NULL;

-- columns --
SELECT attname::text FROM pg_attribute
WHERE attrelid = to_regclass(%(outbox)s) AND attnum > 0 AND NOT attisdropped;

-- write_down --
-- Who did what to which, for whoever wonders later.
INSERT INTO {audit} (who, action, subject, detail)
VALUES (%(who)s::text || ' as ' || current_user, %(action)s, %(subject)s, %(detail)s);
