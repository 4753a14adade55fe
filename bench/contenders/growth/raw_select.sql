-- \gset fails when there is no row.
SELECT status_code, response FROM raw_keys
WHERE scope = '' AND key = md5(:n)::uuid::text AND expires_at > now() \gset
