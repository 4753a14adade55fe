SELECT status_code, response FROM idem_lookup(:key);
