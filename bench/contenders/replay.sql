--- idem_begin.sql
SELECT * FROM idem_begin(:key);

--- on_conflict_do_select.sql
INSERT INTO raw_keys (scope, key, expires_at) VALUES ('', :key, now() + interval '24 hours')
ON CONFLICT (scope, key) DO SELECT RETURNING status_code, response;

--- raw_insert_then_select.sql
INSERT INTO raw_keys (scope, key, expires_at)
VALUES ('', :key, now() + interval '24 hours')
ON CONFLICT (scope, key) DO NOTHING;

SELECT status_code, response FROM raw_keys WHERE scope = '' AND key = :key;
