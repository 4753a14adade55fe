INSERT INTO raw_keys_unsorted (scope, key, expires_at)
SELECT '', key, now() + interval '24 hours'
FROM unnest(:keys::text[]) AS key
ON CONFLICT (scope, key) DO NOTHING
RETURNING key;
