-- held --
-- Whether this waits already, and why; nobody else decides about it meanwhile.
SELECT reason FROM {hold} WHERE what = %(what)s AND name = %(name)s FOR UPDATE;

-- pause --
INSERT INTO {hold} (what, name, reason, note) VALUES (%(what)s, %(name)s, 'paused', %(note)s)
ON CONFLICT DO NOTHING;

-- resume --
DELETE FROM {hold} WHERE what = %(what)s AND name = %(name)s AND reason = 'paused';

-- still_paused --
SELECT what, name FROM {hold} WHERE reason = 'paused' ORDER BY what, name LIMIT 10;
