--- fill.sql
-- So many keys, every other one expired, in no order that an index would like.
TRUNCATE idem_keys;
ALTER TABLE idem_keys DROP CONSTRAINT idem_keys_pkey;
INSERT INTO idem_keys (created_at, expires_at, attempt, state, scope, key)
SELECT now() - interval '2 days', now() + CASE WHEN i % 2 = 0 THEN interval '-1 day' ELSE interval '1 day' END, 1, 'c', '', md5(i::text)
  FROM generate_series(1, :keys) AS i;
ALTER TABLE idem_keys ADD PRIMARY KEY (scope, key);
VACUUM (FREEZE, ANALYZE) idem_keys;
CHECKPOINT;

--- idem_sweep.sql
CALL idem_sweep();

--- idem_sweep_gently.sql
CALL idem_sweep(200, '2 ms');

--- one_delete.sql
DELETE FROM idem_keys WHERE expires_at <= now() AND state = 'c';
