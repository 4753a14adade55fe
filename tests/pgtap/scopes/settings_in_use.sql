-- A setting without sense is an error, when it is set or when it is used.
\ir ../include/helpers.psql
SELECT plan(1);
CALL pg_temp.clean('setting:');
SELECT idem_key('load'); -- until the library is loaded, its settings are placeholders

SELECT is(
    (SELECT string_agg(format('%s = %s: %s', name, value, state), '; ')
       FROM (VALUES ('idem.default_ttl', 'SELECT idem_claim(''setting:k''), idem_claim(''setting:k'')'),
                    ('idem.default_lease', 'SELECT idem_lock(''setting:l'')'),
                    ('idem.max_lease', 'SELECT idem_begin(''setting:b'', lease => ''1 s'')')) AS used (name, call),
            unnest(ARRAY['0', '-5', '-1d', '0.0000001', 'nonsense', '99999999999999999999']) AS value,
            pg_temp.state_of(format('SET LOCAL %s = %L; %s', name, value, call)) AS state
      WHERE state <> '22023'),
    NULL, 'each_is_22023');

CALL pg_temp.clean('setting:');
SELECT * FROM finish();
