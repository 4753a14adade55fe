SELECT count(idem_next_id()) FROM generate_series(1, 1000000);
