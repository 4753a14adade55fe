-- The settings as the library defines them: defaults, bad values, and what only a superuser may set.
-- The first test must come before anything that loads the library.
\ir ../include/helpers.psql
SELECT plan(9);

-- A setting that is not known yet is a placeholder that anybody may set; loading the library must not adopt it.
SELECT 'DROP ROLE tap_setter' FROM pg_roles WHERE rolname = 'tap_setter' \gexec
CREATE ROLE tap_setter;
SELECT pg_temp.state_as('tap_setter', 'SET SESSION idem.require_registered_scope = on') AS state \gset
SET client_min_messages = error;
SELECT idem_key('load');
RESET client_min_messages;
SELECT is(current_setting('idem.require_registered_scope'), 'off', 'plain_role_cannot_require_scopes_ahead_of_loading');
SELECT is(pg_temp.state_as('tap_setter', 'SET idem.require_registered_scope = on'), '42501', 'plain_role_cannot_require_scopes');
SELECT is(pg_temp.state_as('tap_setter', 'SET idem.require_registered_scope = off'), '42501', 'nor_lift_the_requirement');
DROP ROLE tap_setter;
-- Bad values never reach a claim.
SELECT throws_ok($$ SET idem.default_ttl = '0' $$, '22023', NULL, 'zero_ttl');
SELECT throws_ok($$ SET idem.default_ttl = '-1s' $$, '22023', NULL, 'negative_ttl');
SELECT throws_ok($$ SET idem.default_lease = '0' $$, '22023', NULL, 'zero_lease');
SELECT throws_ok($$ SET idem.max_response_size = '-1' $$, '22023', NULL, 'negative_size');
SELECT throws_ok($$ SET idem.default_ttl = 'soon' $$, '22023', NULL, 'ttl_that_is_no_time');

SELECT is(current_setting('idem.max_lease'), '1d', 'longest_lease_is_a_day');
SELECT * FROM finish();
