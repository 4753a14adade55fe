DELETE FROM idem_keys WHERE expires_at <= now() AND state = 'c';
