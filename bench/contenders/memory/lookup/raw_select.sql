PERFORM status_code, response FROM raw_keys WHERE scope = '' AND key = 'present ' || n % 1000 AND expires_at > now();
