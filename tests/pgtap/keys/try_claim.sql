-- idem_try_claim: the outcome for every state of the key that one session can reach.
\ir ../include/helpers.psql
SELECT plan(16);
CALL pg_temp.clean('try:');

SELECT is(idem_try_claim('try:a'), 'acquired', 'fresh_key');
SELECT is(idem_try_claim('try:a'), 'completed', 'committed_key');
SELECT is(idem_claim('try:a'), false, 'try_and_claim_share_their_keys');
SELECT is(idem_try_claim(key => 'try:a', ttl => '1 hour', scope => 'try:scope'), 'acquired', 'another_scope');

BEGIN;
SELECT is(idem_try_claim('try:own'), 'acquired', 'fresh_key_in_a_transaction');
SELECT is(idem_try_claim('try:own'), 'completed', 'own_claim');
COMMIT;

SELECT is((SELECT outcome FROM idem_begin('try:leased', lease => '1 hour', owner => 'o')), 'acquired', 'leased_key');
SELECT is(idem_try_claim('try:leased'), 'in_flight', 'live_lease');
BEGIN;
SELECT fence AS fence FROM idem_begin('try:own leased', lease => '1 hour') \gset
SELECT is(idem_try_claim('try:own leased'), 'in_flight', 'own_live_lease');
COMMIT;

SELECT fence AS fence FROM idem_begin('try:lapsed', lease => '1 ms') \gset
CALL pg_temp.sleep('5 ms');
SELECT is(idem_try_claim('try:lapsed'), 'taken_over', 'lapsed_lease');
SELECT is(idem_try_claim('try:lapsed'), 'completed', 'what_was_taken_over_is_completed_at_commit');

SELECT idem_scope_set('try:manual', on_lease_expiry => 'manual');
SELECT fence AS fence FROM idem_begin('try:k', lease => '1 ms', scope => 'try:manual') \gset
CALL pg_temp.sleep('5 ms');
SELECT is(idem_try_claim('try:k', scope => 'try:manual'), 'in_doubt', 'lapsed_lease_with_manual_policy');
SELECT is(idem_try_claim('try:k', scope => 'try:manual'), 'in_doubt', 'key_in_doubt_stays_so');

SELECT fence AS fence FROM idem_begin('try:released', lease => '1 hour') \gset
SELECT idem_release('try:released', :fence);
SELECT is(idem_try_claim('try:released'), 'acquired', 'released_key');

SELECT is(idem_try_claim('try:expired', '10 ms'), 'acquired', 'key_with_a_short_retention');
CALL pg_temp.sleep('20 ms');
SELECT is(idem_try_claim('try:expired'), 'acquired', 'expired_key');

CALL pg_temp.clean('try:');
SELECT * FROM finish();
