INSERT INTO raw_keys (scope, key, expires_at) VALUES ('', :key, now() + interval '24 hours')
ON CONFLICT (scope, key) DO SELECT RETURNING status_code, response;
