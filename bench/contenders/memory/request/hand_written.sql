INSERT INTO raw_keys (scope, key, expires_at)
VALUES ('', 'request ' || n, now() + interval '24 hours')
ON CONFLICT (scope, key) DO NOTHING;
UPDATE raw_keys SET status_code = 201, response = jsonb_build_object('id', n) WHERE scope = '' AND key = 'request ' || n;
