INSERT INTO partitioned_keys_7 (scope, key, created_at, expires_at)
SELECT '', given.key, now(), now() + interval '8 days'
FROM key_batches, unnest(keys) AS given (key)
WHERE NOT EXISTS (SELECT FROM partitioned_keys AS k WHERE k.scope = '' AND k.key = given.key COLLATE "C")
ORDER BY given.key COLLATE "C"
ON CONFLICT (scope, key) DO NOTHING;
