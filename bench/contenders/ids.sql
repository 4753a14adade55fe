--- gen_random_uuid.sql
SELECT gen_random_uuid();

--- gen_random_uuid_many.sql
SELECT count(gen_random_uuid()) FROM generate_series(1, 1000000);

--- idem_next_id.sql
SELECT idem_next_id();

--- idem_next_id_many.sql
SELECT count(idem_next_id()) FROM generate_series(1, 1000000);

--- idem_uuid_v7.sql
SELECT idem_uuid_v7();

--- idem_uuid_v7_many.sql
SELECT count(idem_uuid_v7()) FROM generate_series(1, 1000000);

--- nextval.sql
SELECT nextval('plain_ids');

--- nextval_many.sql
SELECT count(nextval('plain_ids')) FROM generate_series(1, 1000000);
