SELECT count(nextval('plain_ids')) FROM generate_series(1, 1000000);
