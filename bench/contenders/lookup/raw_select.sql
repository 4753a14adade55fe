SELECT status_code, response FROM raw_keys WHERE scope = '' AND key = :key AND expires_at > now();
