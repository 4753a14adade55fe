-- The command tag (INSERT 0 1 or INSERT 0 0) is the answer.
INSERT INTO raw_keys (scope, key, expires_at)
VALUES ('', :key, now() + interval '24 hours')
ON CONFLICT (scope, key) DO NOTHING;
