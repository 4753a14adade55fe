--- duplicate/idem_claim.sql
PERFORM idem_claim('present ' || n % 1000);

--- duplicate/raw_on_conflict.sql
INSERT INTO raw_keys (scope, key, expires_at)
VALUES ('', 'present ' || n % 1000, now() + interval '24 hours')
ON CONFLICT (scope, key) DO NOTHING;

--- fresh/idem_claim.sql
PERFORM idem_claim('fresh ' || n);

--- fresh/raw_on_conflict.sql
INSERT INTO raw_keys (scope, key, expires_at)
VALUES ('', 'fresh ' || n, now() + interval '24 hours')
ON CONFLICT (scope, key) DO NOTHING;

--- lock/hand_written.sql
UPDATE leases SET fence = fence + 1, held_until = clock_timestamp() + interval '30 s'
WHERE name = 'lock ' || n % 10000 AND (held_until IS NULL OR held_until <= clock_timestamp());
UPDATE leases SET held_until = NULL WHERE name = 'lock ' || n % 10000;

--- lock/idem_lock.sql
PERFORM idem_unlock('lock ' || n % 10000, idem_lock('lock ' || n % 10000, '30 s'));

--- lookup/idem_lookup.sql
PERFORM FROM idem_lookup('present ' || n % 1000);

--- lookup/raw_select.sql
PERFORM status_code, response FROM raw_keys WHERE scope = '' AND key = 'present ' || n % 1000 AND expires_at > now();

--- request/hand_written.sql
INSERT INTO raw_keys (scope, key, expires_at)
VALUES ('', 'request ' || n, now() + interval '24 hours')
ON CONFLICT (scope, key) DO NOTHING;
UPDATE raw_keys SET status_code = 201, response = jsonb_build_object('id', n) WHERE scope = '' AND key = 'request ' || n;

--- request/idem_begin_complete.sql
PERFORM FROM idem_begin('request ' || n);
PERFORM idem_complete('request ' || n, jsonb_build_object('id', n), 201);

--- request/idem_execute.sql
PERFORM FROM idem_execute('executed ' || n, 'SELECT $1::bigint AS id', jsonb_build_array(n::text));
