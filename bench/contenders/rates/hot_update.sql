UPDATE rates_by_hand SET full_at = greatest(full_at, clock_timestamp()) + interval '1 us' WHERE scope = '' AND name = 'client ' || :name;
