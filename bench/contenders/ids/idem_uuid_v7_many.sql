SELECT count(idem_uuid_v7()) FROM generate_series(1, 1000000);
