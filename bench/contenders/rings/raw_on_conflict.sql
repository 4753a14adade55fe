INSERT INTO raw_keys (scope, key, expires_at)
VALUES ('', md5(:n)::uuid::text, now() + interval '24 hours')
ON CONFLICT (scope, key) DO NOTHING;
