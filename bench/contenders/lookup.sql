--- idem_lookup.sql
SELECT status_code, response FROM idem_lookup(:key);

--- raw_select.sql
SELECT status_code, response FROM raw_keys WHERE scope = '' AND key = :key AND expires_at > now();
