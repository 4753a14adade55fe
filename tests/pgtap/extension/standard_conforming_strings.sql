-- Functions with backslashes in their literals, in a session that reads these as escapes. PostgreSQL 19 has no such sessions.
\ir ../include/helpers.psql
SELECT plan(5);
CALL pg_temp.clean('backslash:');
SELECT current_setting('server_version_num')::int < 190000 AS can_be_off \gset
\if :can_be_off
BEGIN;
CREATE TABLE tap_backslash (id int PRIMARY KEY, state text);
SELECT idem_fingerprint(jsonb_build_object('a', chr(92) || chr(34) || chr(1))) AS fingerprint, idem_fingerprint_text(chr(92)) AS of_text \gset
SELECT idem_machine_define('backslash', '{"initial": ["a"], "transitions": {"a": ["b"]}}');
SELECT idem_machine_dot('backslash') AS dot \gset
SET LOCAL standard_conforming_strings = off;
SET LOCAL escape_string_warning = off;
SELECT is(idem_fingerprint(jsonb_build_object('a', chr(92) || chr(34) || chr(1)))::text, :'fingerprint', 'fingerprint');
SELECT is(idem_fingerprint_text(chr(92))::text, :'of_text', 'fingerprint_of_a_text');
SELECT is(idem_machine_dot('backslash'), :'dot', 'drawing');
SELECT idem_machine_attach('tap_backslash', 'state', 'backslash');
INSERT INTO tap_backslash VALUES (1, 'a');
SELECT is((SELECT outcome::text FROM idem_transition('tap_backslash', '{"id": 1}', 'a', 'b')), 'moved', 'transition');
ROLLBACK;
SET standard_conforming_strings = off;
SELECT isnt((SELECT count(*) FROM idem_health()), 0::bigint, 'health');
\else
SELECT skip('strings always conform', 5);
\endif
SET standard_conforming_strings = on;
CALL pg_temp.clean('backslash:');
SELECT * FROM finish();
