-- idem_serialize, as far as one session shows it: it neither blocks its own transaction nor claims anything.
\ir ../include/helpers.psql
SELECT plan(9);
CALL pg_temp.clean('serialize:');

SELECT lives_ok($$ SELECT idem_serialize('serialize:a') $$, 'serialize');
SELECT lives_ok($$ SELECT idem_serialize(key => 'serialize:a', scope => 'serialize:scope') $$, 'serialize_by_name');
SET lock_timeout = '1 s';
BEGIN;
SELECT lives_ok($$ SELECT idem_serialize('serialize:a') $$, 'first_in_the_queue');
SELECT lives_ok($$ SELECT idem_serialize('serialize:a') $$, 'own_transaction_does_not_wait_for_itself');
SELECT is(idem_claim('serialize:a'), true, 'serialized_key_can_be_claimed');
SELECT lives_ok($$ SELECT idem_serialize('serialize:a') $$, 'claimed_key_can_be_serialized');
COMMIT;
BEGIN;
SELECT idem_serialize('serialize:b');
-- The applications' advisory locks have 1 or 2 here.
SELECT is((SELECT count(*) FROM pg_locks WHERE pid = pg_backend_pid() AND locktype = 'advisory' AND objsubid IN (1, 2)), 0::bigint,
    'own_lock_cannot_collide_with_an_applications');
COMMIT;
SELECT is((SELECT count(*) FROM pg_locks
            WHERE pid = pg_backend_pid() AND locktype NOT IN ('relation', 'virtualxid', 'transactionid')), 0::bigint,
    'nothing_is_held_after_the_transaction');
SELECT is((SELECT count(*) FROM idem_keys WHERE key = 'serialize:b'), 0::bigint, 'serialize_claims_nothing');

CALL pg_temp.clean('serialize:');
SELECT * FROM finish();
