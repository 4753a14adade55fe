-- idem_version: what is installed.
\ir ../include/helpers.psql
\set version `sed -n "s/^default_version *= *'\(.*\)'.*/\1/p" extension/idem.control`
SELECT plan(2);
SELECT is(v::text, ROW(coalesce(installed.edition, 'portable'), installed.version, current_setting('server_version'))::text, 'edition_version_and_server')
  FROM idem_version() v, (SELECT max('c') AS edition, coalesce(max(extversion), :'version') AS version FROM pg_extension WHERE extname = 'idem') installed;
BEGIN READ ONLY;
SELECT is((SELECT count(*) FROM idem_version()), 1::bigint, 'in_a_read_only_transaction');
COMMIT;
SELECT * FROM finish();
