-- begin --
-- Take a request on; gives a row if it is ours. A hold that has ended was somebody's who died.
INSERT INTO {answers} AS answer (key, token, held_until)
VALUES (%(key)s, %(token)s, clock_timestamp() + make_interval(secs => %(hold)s))
ON CONFLICT (key) DO UPDATE
SET token = excluded.token, held_until = excluded.held_until, claimed_at = excluded.claimed_at
WHERE answer.status IS NULL AND answer.held_until < clock_timestamp()
RETURNING true;

-- look --
-- What has become of a request.
SELECT status, headers, body FROM {answers} WHERE key = %(key)s;

-- finish --
-- Keep the answer, if the request is still ours.
UPDATE {answers} SET status = %(status)s, headers = %(headers)s, body = %(body)s
WHERE key = %(key)s AND token = %(token)s AND status IS NULL
RETURNING true;

-- abandon --
-- Let the request be taken on again.
DELETE FROM {answers} WHERE key = %(key)s AND token = %(token)s AND status IS NULL
RETURNING true;
