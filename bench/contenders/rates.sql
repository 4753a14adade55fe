--- hot_update.sql
UPDATE rates_by_hand SET full_at = greatest(full_at, clock_timestamp()) + interval '1 us' WHERE scope = '' AND name = 'client ' || :name;

--- idem_allow.sql
SELECT allowed FROM idem_allow('client ' || :name, 1e9, 2000000000);

--- idem_allow_refused.sql
SELECT allowed FROM idem_allow('refused ' || :name, 1e-6, 1);
