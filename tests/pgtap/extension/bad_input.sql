-- Bad input is an error with its SQLSTATE, in every function. Each test lists the calls that answered otherwise.
\ir ../include/helpers.psql
SELECT plan(23);
CALL pg_temp.clean('bad:');

-- Every function that takes a key and a scope; %1$s is the key, %2$s the scope.
CREATE TEMP TABLE keyed (call text);
INSERT INTO keyed VALUES
    ('idem_claim(%1$s, scope => %2$s)'),
    ('idem_must_claim(%1$s, scope => %2$s)'),
    ('idem_try_claim(%1$s, scope => %2$s)'),
    ('idem_claim_many(ARRAY[%1$s], scope => %2$s)'),
    ('idem_claim_many(ARRAY[''bad:first'', %1$s], scope => %2$s)'),
    ('idem_begin(%1$s, scope => %2$s)'),
    ('idem_begin(%1$s, lease => ''1 s'', owner => ''o'', scope => %2$s)'),
    ('idem_begin(%1$s, wait => ''10 min'', scope => %2$s)'),
    ('idem_step(%1$s, 1, ''x'', scope => %2$s)'),
    ('idem_renew(%1$s, 1, scope => %2$s)'),
    ('idem_complete(%1$s, scope => %2$s)'),
    ('idem_complete(%1$s, fence => 1, scope => %2$s)'),
    ('idem_release(%1$s, 1, %2$s)'),
    ('idem_lookup(%1$s, scope => %2$s)'),
    ('idem_is_owner(%1$s, ''o'', scope => %2$s)'),
    ('idem_execute(%1$s, ''SELECT 1'', scope => %2$s)'),
    ('idem_hit(%1$s, scope => %2$s)'),
    ('idem_hits(%1$s, %2$s)'),
    ('idem_serialize(%1$s, %2$s)'),
    ('idem_forget(%1$s, %2$s)'),
    ('idem_redact(%1$s, %2$s)'),
    ('idem_resolve(%1$s, ''released'', scope => %2$s)');

CREATE FUNCTION pg_temp.others(expected text, key text, scope text = '''''') RETURNS text LANGUAGE sql VOLATILE AS $$
    SELECT string_agg(format('%s: %s', call, state), '; ')
      FROM keyed, pg_temp.state_of('SELECT * FROM idem.' || format(call, key, scope)) AS state
     WHERE state <> expected
$$;

SELECT is(pg_temp.others('22004', 'NULL'), NULL, 'null_key');
SELECT is(pg_temp.others('22023', ''''''), NULL, 'empty_key');
SELECT is(pg_temp.others('22023', 'repeat(''x'', 1025)'), NULL, 'key_of_1025_bytes');
SELECT is(pg_temp.others('22023', 'repeat(''ż'', 512) || ''x'''), NULL, 'key_of_513_letters_and_1025_bytes');
SELECT is(pg_temp.others('22023', 'repeat(''x'', 1000000)'), NULL, 'key_of_a_megabyte');
SELECT is((SELECT string_agg(call, '; ') FROM keyed WHERE pg_temp.state_of('SELECT * FROM idem.' || format(call, '''bad:k''', 'NULL')) NOT IN ('ok', 'ID001', 'ID005', 'ID006', '55000')),
    NULL, 'null_scope_is_not_given');
SELECT is((SELECT string_agg(idem_claim('bad:null scope', scope => scope)::text, ' ') FROM unnest(ARRAY[NULL, '']) AS scope), 'true false', 'and_so_is_the_empty_one');
SELECT is((SELECT outcome FROM idem_begin('bad:null scope', NULL, NULL, NULL, NULL, NULL, NULL)), 'completed', 'all_optional_arguments_may_be_null');
SELECT is(pg_temp.others('22023', '''k''', 'repeat(''x'', 256)'), NULL, 'scope_of_256_bytes');
SELECT is(pg_temp.others('22023', '''k''', 'repeat(''ż'', 127) || ''xx'''), NULL, 'scope_of_129_letters_and_256_bytes');

-- The limits themselves, with bytes that do not compress below an index row's limit.
CREATE TEMP TABLE limits AS
    SELECT 'bad:' || (SELECT string_agg(md5('k' || n), '') FROM generate_series(1, 31) n) || repeat('ż', 14) AS key,
           'bad:' || (SELECT left(string_agg(md5('s' || n), ''), 250) FROM generate_series(1, 8) n) || 'x' AS scope;
SELECT results_eq($$ SELECT octet_length(key), octet_length(scope) FROM limits $$, $$ VALUES (1024, 255) $$, 'sizes_of_the_limits');
SELECT is((SELECT idem_claim(key, scope => scope) FROM limits), true, 'longest_key_in_the_longest_scope');
SELECT is((SELECT idem_claim(key, scope => scope) FROM limits), false, 'and_again');
SELECT is((SELECT count(*) FROM limits, idem_claim_many(ARRAY[key, left(key, -1)], scope => scope)), 1::bigint, 'and_in_bulk');
SELECT is((SELECT idem_hit(key, scope => scope) FROM limits), 1::bigint, 'and_counted');

-- Durations.
SELECT is(
    (SELECT string_agg(format('%s: %s', call, state), '; ')
       FROM unnest(ARRAY['idem_claim(''bad:k'', %s)', 'idem_try_claim(''bad:k'', %s)', 'idem_claim_many(''{bad:k}'', %s)',
                         'idem_claim_many(''{}'', %s)',
                         'idem_begin(''bad:k'', ttl => %s)', 'idem_begin(''bad:k'', ttl => %s, lease => ''1 s'')',
                         'idem_begin(''bad:k'', lease => %s)', 'idem_renew(''bad:k'', 1, %s)',
                         'idem_execute(''bad:k'', ''SELECT 1'', ttl => %s)', 'idem_hit(''bad:k'', %s)',
                         'idem_scope_set(''bad:scope'', ttl => %s)', 'idem_scope_set(''bad:scope'', lease => %s)',
                         'idem_scope_set(''bad:scope'', response_ttl => %s)']) AS template,
            unnest(ARRAY['interval ''0''', 'interval ''-1 s''', 'interval ''-1 month''']) AS duration,
            format(template, duration) AS call, pg_temp.state_of('SELECT * FROM ' || call) AS state
      WHERE state <> '22023'),
    NULL, 'ttl_or_lease_that_is_not_positive');
SELECT is(
    (SELECT string_agg(format('%s: %s', duration, state), '; ')
       FROM unnest(ARRAY['-1 us', '-1 s', '-1 day', '1 day -1 month']) duration,
            pg_temp.state_of(format('SELECT * FROM idem_begin(''bad:k'', wait => %L)', duration)) AS state
      WHERE state <> '22023'),
    NULL, 'negative_wait');

-- Bad values are refused for keys that are there, too.
SELECT idem_claim('bad:done');
SELECT is(
    (SELECT string_agg(format('%s: %s', call, state), '; ')
       FROM unnest(ARRAY['idem_claim(''bad:done'', ''0'')', 'idem_try_claim(''bad:done'', ''-1 s'')', 'idem_begin(''bad:done'', wait => ''-1 s'')',
                         'idem_begin(''bad:done'', lease => ''0'')', 'idem_begin(''bad:done'', ''\x'')',
                         'idem_claim_many(''{bad:done}'', ''0'')', 'idem_execute(''bad:done'', ''SELECT 1'', ttl => ''0'')']) AS call,
            pg_temp.state_of('SELECT * FROM ' || call) AS state
      WHERE state <> '22023'),
    NULL, 'bad_values_are_refused_for_duplicates_too');

-- Fingerprints.
SELECT is(
    (SELECT string_agg(format('%s: %s', call, state), '; ')
       FROM unnest(ARRAY['idem_begin(''bad:k'', %s)', 'idem_begin(''bad:k'', %s, lease => ''1 s'')',
                         'idem_execute(''bad:k'', ''SELECT 1'', fingerprint => %s)']) AS template,
            unnest(ARRAY['''\x''', 'decode(repeat(''00'', 256), ''hex'')', 'convert_to(repeat(''x'', 1000000), ''UTF8'')']) AS fingerprint,
            format(template, fingerprint) AS call, pg_temp.state_of('SELECT * FROM ' || call) AS state
      WHERE state <> '22023'),
    NULL, 'empty_or_long_fingerprint');

-- What else may not be NULL.
SELECT is(
    (SELECT string_agg(format('%s: %s', call, state), '; ')
       FROM unnest(ARRAY['idem_step(''bad:done'', 1, NULL)', 'idem_step(''bad:done'', NULL, ''x'')',
                         'idem_renew(''bad:done'', NULL)', 'idem_claim_many(NULL)',
                         'idem_execute(''bad:done'', NULL)', 'idem_resolve(''bad:done'', NULL)', 'idem_scope_set(NULL)',
                         'idem_scope_drop(NULL)', 'idem_grant(NULL)', 'idem_revoke(NULL)']) AS call,
            pg_temp.state_of('SELECT * FROM ' || call) AS state
      WHERE state <> '22004'),
    NULL, 'null_where_a_value_is_needed');

-- Scopes.
SELECT is(
    (SELECT string_agg(format('%s: %s, not %s', call, state, code), '; ')
       FROM (VALUES ('idem_scope_set(repeat(''x'', 256))', '22023'),
                    ('idem_scope_set(repeat(''ż'', 128))', '22023'),
                    ('idem_scope_drop(repeat(''x'', 256))', '22023'),
                    ('idem_scope_set(''bad:scope'', on_lease_expiry => ''retry'')', '22023'),
                    ('idem_scope_set(''bad:scope'', on_lease_expiry => '''')', '22023'),
                    ('idem_scope_set(''bad:scope'', on_lease_expiry => ''Manual'')', '22023'),
                    ('idem_scope_set(''bad:scope'', max_response_size => -1)', '22023'),
                    ('idem_scope_set(''bad:scope'', owner => ''no such role'')', '42602'),
                    ('idem_scope_set(''bad:scope'', owner => ''tap_no_such_role'')', '42704'),
                    ('idem_scope_set(''bad:scope'', owner => 4294967294)', '42704'),
                    ('idem_grant(''tap_no_such_role'')', '42704'),
                    ('idem_grant(4294967294)', '42704'),
                    ('idem_revoke(4294967294)', '42704')) AS bad (call, code),
            pg_temp.state_of('SELECT ' || call) AS state
      WHERE state <> code),
    NULL, 'bad_scopes_and_roles');

SELECT is((SELECT count(*) FROM idem_keys WHERE key = 'bad:k') + (SELECT count(*) FROM idem_scopes WHERE scope = 'bad:scope'), 0::bigint,
    'bad_input_stores_nothing');

-- Messages: what is wrong, in the style of the server's own.
CREATE FUNCTION pg_temp.message_of(statement text) RETURNS text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE statement;
    RETURN NULL;
EXCEPTION WHEN OTHERS THEN
    RETURN SQLERRM;
END $$;
SELECT is(
    (SELECT string_agg(coalesce(message, '(none)'), '; ')
       FROM unnest(ARRAY['idem_claim(NULL)', 'idem_claim('''')', 'idem_claim(repeat(''x'', 1025))', 'idem_claim(''k'', scope => repeat(''x'', 256))',
                         'idem_claim(''k'', ''0'')', 'idem_begin(''k'', lease => ''0'')', 'idem_begin(''k'', wait => ''-1 s'')',
                         'idem_begin(''k'', ''\x'')', 'idem_key(1.5::float8)', 'idem_key(NULL)',
                         'idem_renew(''bad:k'', 1)', 'idem_complete(''bad:k'')', 'idem_resolve(''bad:k'', ''released'')',
                         'idem_scope_set(''bad:scope'', on_lease_expiry => ''x'')']) AS call,
            pg_temp.message_of('SELECT ' || call) AS message
      WHERE coalesce(message, '') !~ '^("|[a-z])' OR message ~ '[.!]$' OR length(message) > 200),
    NULL, 'messages_begin_in_lower_case_and_end_without_a_full_stop');

CALL pg_temp.clean('bad:');
SELECT * FROM finish();
