INSERT INTO raw_keys (scope, key, expires_at)
VALUES ('', 'present ' || n % 1000, now() + interval '24 hours')
ON CONFLICT (scope, key) DO NOTHING;
