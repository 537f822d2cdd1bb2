-- sleep --
-- Nothing to do: ring, if there is something.
INSERT INTO {doorbell} (shard, asleep_until)
VALUES (%(shard)s, clock_timestamp() + %(seconds)s * interval '1 second')
ON CONFLICT (shard) DO UPDATE SET asleep_until = excluded.asleep_until;

-- wake --
-- At work: nobody needs to ring.
UPDATE {doorbell} SET asleep_until = '-infinity' WHERE shard = %(shard)s;
