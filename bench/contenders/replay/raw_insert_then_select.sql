INSERT INTO raw_keys (scope, key, expires_at)
VALUES ('', :key, now() + interval '24 hours')
ON CONFLICT (scope, key) DO NOTHING;

SELECT status_code, response FROM raw_keys WHERE scope = '' AND key = :key;
