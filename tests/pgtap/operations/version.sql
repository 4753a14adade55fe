-- idem_version: what is installed.
\ir ../include/helpers.psql
SELECT plan(2);
SELECT is(v::text, ROW('c', extversion, current_setting('server_version'))::text, 'edition_version_and_server')
  FROM pg_extension, idem_version() v WHERE extname = 'idem';
BEGIN READ ONLY;
SELECT is((SELECT count(*) FROM idem_version()), 1::bigint, 'in_a_read_only_transaction');
COMMIT;
SELECT * FROM finish();
