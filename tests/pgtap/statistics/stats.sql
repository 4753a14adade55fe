-- idem_stats without preload: there, empty, and harmless. tests/recovery/019_stats.pl has it preloaded.
\ir ../include/helpers.psql
SELECT plan(7);
CALL pg_temp.clean('stats:');
SELECT current_setting('shared_preload_libraries') ~ 'idem' AS preloaded \gset
\if :preloaded
SELECT skip('the library is preloaded', 7);
\else
SELECT idem_claim('stats:a'), idem_claim('stats:a');
SELECT is((SELECT count(*)::int FROM idem_stats), 0, 'view_is_empty_without_preload');
SELECT lives_ok('SELECT idem_stats_reset()', 'reset_is_harmless_without_preload');
SELECT is((SELECT level FROM idem_health() WHERE check_name = 'preload'), 'notice', 'health_says_so');
SELECT matches((SELECT detail FROM idem_health() WHERE check_name = 'preload'), 'shared_preload_libraries', 'and_names_the_setting');
SELECT is(current_setting('idem.track_stats'), 'on', 'setting_is_known');
SELECT is(current_setting('idem.stats_max_scopes'), '1000', 'size_is_known');
SELECT throws_ok($$ SET idem.stats_max_scopes = 5 $$, '55P02', NULL, 'size_cannot_be_set_in_a_session');
\endif
CALL pg_temp.clean('stats:');
SELECT * FROM finish();
