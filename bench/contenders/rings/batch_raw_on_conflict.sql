INSERT INTO raw_keys (scope, key, expires_at)
SELECT '', key, now() + interval '24 hours'
FROM key_batches, unnest(keys) AS key
ORDER BY key COLLATE "C"
ON CONFLICT (scope, key) DO NOTHING;
