--- idem_claim_many.sql
SELECT * FROM idem_claim_many(:keys);

--- raw_sorted.sql
-- In key order, neighbouring keys meet their index page while it is still in the processor's cache.
INSERT INTO raw_keys_sorted (scope, key, expires_at)
SELECT '', key, now() + interval '24 hours'
FROM unnest(:keys::text[]) AS key
ORDER BY key COLLATE "C"
ON CONFLICT (scope, key) DO NOTHING
RETURNING key;

--- raw_unsorted.sql
INSERT INTO raw_keys_unsorted (scope, key, expires_at)
SELECT '', key, now() + interval '24 hours'
FROM unnest(:keys::text[]) AS key
ON CONFLICT (scope, key) DO NOTHING
RETURNING key;
