SELECT count(gen_random_uuid()) FROM generate_series(1, 1000000);
