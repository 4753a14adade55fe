INSERT INTO raw_keys (scope, key, expires_at)
VALUES ('', 'fresh ' || n, now() + interval '24 hours')
ON CONFLICT (scope, key) DO NOTHING;
