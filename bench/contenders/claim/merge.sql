-- The command tag (MERGE 1 or MERGE 0) is the answer.
MERGE INTO raw_keys AS k USING (VALUES ('', :key::text)) AS c (scope, key) ON k.scope = c.scope AND k.key = c.key
WHEN NOT MATCHED THEN INSERT (scope, key, expires_at) VALUES (c.scope, c.key, now() + interval '24 hours');
