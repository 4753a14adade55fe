-- Looks into every partition, by its unique index, and inserts into the newest. When the newest changes, two statements of one key can both insert.
INSERT INTO partitioned_keys_7 (scope, key, created_at, expires_at)
SELECT '', md5(:n)::uuid::text, now(), now() + interval '8 days'
WHERE NOT EXISTS (SELECT FROM partitioned_keys WHERE scope = '' AND key = md5(:n)::uuid::text)
ON CONFLICT (scope, key) DO NOTHING;
