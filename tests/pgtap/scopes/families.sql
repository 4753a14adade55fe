-- Families: what the row of a scope a/b does not say, the row of a says.
\ir ../include/helpers.psql
SELECT plan(42);
CALL pg_temp.clean('family:');
SET client_min_messages = error;

-- Retention of a key in seconds.
CREATE FUNCTION pg_temp.retention(scope text, key text = 'k') RETURNS float8 LANGUAGE sql AS $$
    SELECT idem.idem_claim(key, scope => scope);
    SELECT CASE WHEN coalesce(expires_at, 'infinity') = 'infinity' THEN 'infinity' ELSE round(extract(epoch FROM expires_at - created_at)) END::float8
      FROM idem.idem_lookup(key, scope => scope)
$$;

-- --- Setting by setting ----------------------------------------------------------------------------------------------------------------

-- What requests, leases and responses tell of the settings of a scope.
CREATE PROCEDURE pg_temp.probe(space text, INOUT seen jsonb) LANGUAGE plpgsql AS $$
DECLARE
    answer idem.idem_http_answer;
    held   bigint;
BEGIN
    seen := jsonb_build_object('keys', ARRAY[idem_http_key('k', space), idem_http_key('"k"', space)]);
    SELECT * INTO answer FROM idem_http_begin(space, 'POST', '/', NULL);
    seen := seen || jsonb_build_object('missing', to_jsonb(answer));
    SELECT * INTO answer FROM idem_http_begin(space, 'PUT', '/', NULL);
    seen := seen || jsonb_build_object('put', to_jsonb(answer));
    SELECT * INTO answer FROM idem_http_begin(space, 'POST', '/', E'\x01');
    seen := seen || jsonb_build_object('malformed', to_jsonb(answer));
    SELECT * INTO answer FROM idem_http_begin(space, 'DELETE', '/', '"d"');
    seen := seen || jsonb_build_object('delete', answer.code);
    COMMIT;
    SELECT * INTO answer FROM idem_http_begin(space, 'POST', '/', '"k"', '{"a":1}', content_type => 'application/json');
    seen := seen || jsonb_build_object('run', answer.headers, 'stored', idem_http_complete(space, '"k"', 200, '{"X-A": "1", "X-B": "2"}', repeat('x', 500)));
    COMMIT;
    SELECT seen || jsonb_build_object('kept', CASE WHEN isfinite(expires_at) THEN (expires_at - completed_at)::text END) INTO seen FROM idem.idem_keys WHERE scope = space AND key = idem_http_key('"k"', space);
    SELECT * INTO answer FROM idem_http_begin(space, 'POST', '/', '"k"', '{"a": 1}', content_type => 'application/json');
    seen := seen || jsonb_build_object('same json', to_jsonb(answer));
    SELECT * INTO answer FROM idem_http_begin(space, 'POST', '/other', '"k"', '{"a":1}', content_type => 'application/json');
    seen := seen || jsonb_build_object('other route', to_jsonb(answer));
    SELECT * INTO answer FROM idem_http_begin(space, 'POST', '/', '"k"', '{"a":2}', content_type => 'application/json');
    seen := seen || jsonb_build_object('other body', to_jsonb(answer));
    PERFORM idem_http_begin(space, 'POST', '/', '"u"');
    seen := seen || jsonb_build_object('unstored', pg_temp.state_of(format('SELECT idem.idem_http_complete(%L, ''"u"'', 503)', space)));
    SELECT fence INTO held FROM idem_http_begin(space, 'POST', '/', '"l"', lease => '1 h');
    PERFORM idem_http_begin(space, 'POST', '/', '"m"', lease => '1 ms');
    COMMIT;
    SELECT * INTO answer FROM idem_http_begin(space, 'POST', '/', '"l"');
    seen := seen || jsonb_build_object('in flight', to_jsonb(answer) #- '{headers,Retry-After}');
    seen := seen || jsonb_build_object('lease', round(pg_temp.seconds_from_now(idem_renew(idem_http_key('"l"', space), held, scope => space)) / 100));
    PERFORM pg_sleep(0.005);
    SELECT * INTO answer FROM idem_http_begin(space, 'POST', '/', '"m"', lease => '1 h');
    seen := seen || jsonb_build_object('lapsed', to_jsonb(answer) - 'fence');
    COMMIT;
END $$;

SELECT idem_scope_set('family:h', ttl => '2 h', keep_forever => false, lease => '5 min', on_lease_expiry => 'manual', max_response_size => 200),
       idem_http_scope_set('family:h', missing_key => 'reject', keyed_methods => '{PUT}', unstored_statuses => '{5xx}', documentation_url => 'https://shop.example/a',
                           missing_key_status => 411, malformed_key_status => 412, mismatch_status => 413, in_flight_status => 414, in_doubt_status => 415,
                           stored_headers => '{X-A}', ignored_methods => '{DELETE}', key_syntax => 'opaque', compare => 'json', fingerprint_of => '{body}',
                           error_format => 'stripe', echo_key => true);
SELECT idem_scope_set('family:o', ttl => '3 h', keep_forever => true, lease => '15 min', on_lease_expiry => 'takeover', max_response_size => 5000),
       idem_http_scope_set('family:o', missing_key => 'run', keyed_methods => '{POST}', unstored_statuses => '{}', documentation_url => '',
                           missing_key_status => 421, malformed_key_status => 422, mismatch_status => 423, in_flight_status => 424, in_doubt_status => 425,
                           stored_headers => '{X-B}', ignored_methods => '{}', key_syntax => 'string', compare => 'bytes', fingerprint_of => '{method,route,body}',
                           error_format => 'problem', echo_key => false);
CREATE TEMP TABLE seen (setting text, in_family jsonb, alone jsonb);
-- A scope whose row has this setting alone is like one that has the others of the family's row itself.
DO $$
DECLARE
    family    CONSTANT jsonb := (SELECT to_jsonb(s) FROM idem_scopes s WHERE scope = 'family:h');
    other     CONSTANT jsonb := (SELECT to_jsonb(s) FROM idem_scopes s WHERE scope = 'family:o');
    setting   text;
    in_family jsonb;
    alone     jsonb;
BEGIN
    FOR setting IN SELECT key FROM jsonb_each(other) WHERE key NOT IN ('scope', 'owner', 'response_ttl') LOOP
        INSERT INTO idem_scopes SELECT * FROM jsonb_populate_record(NULL::idem_scopes, jsonb_build_object('scope', 'family:h/' || setting, setting, other -> setting));
        INSERT INTO idem_scopes SELECT * FROM jsonb_populate_record(NULL::idem_scopes, family || jsonb_build_object('scope', 'family:alone ' || setting, setting, other -> setting));
        COMMIT;
        CALL pg_temp.probe('family:h/' || setting, in_family);
        CALL pg_temp.probe('family:alone ' || setting, alone);
        INSERT INTO seen VALUES (setting, in_family, alone);
        COMMIT;
    END LOOP;
    CALL pg_temp.probe('family:h', alone);
    CALL pg_temp.probe('family:h/x y/z', in_family);
    INSERT INTO seen VALUES ('nothing', in_family, alone);
END $$;
SELECT is((SELECT string_agg(format('%s: %s, not %s', setting, i.value, a.value), '; ') FROM seen, jsonb_each(in_family) i JOIN jsonb_each(alone) a USING (key) WHERE i.value <> a.value),
    NULL, 'settings_that_are_overridden');
SELECT is((SELECT count(*) FROM seen), 22::bigint, 'all_of_them');
SELECT is((SELECT string_agg(s.setting, ' ') FROM seen s, seen n WHERE n.setting = 'nothing' AND s.setting <> 'nothing' AND s.in_family = n.in_family), NULL, 'each_of_which_can_be_seen');
-- To make sure that the two can differ from a scope without any row.
DO $$
DECLARE
    alone jsonb;
BEGIN
    CALL pg_temp.probe('family:none', alone);
    INSERT INTO seen VALUES ('none', NULL, alone);
    -- A scope that has the defaults as values of its own.
    PERFORM idem_scope_set('family:bare');
    INSERT INTO idem_scopes
    SELECT r.* FROM (SELECT jsonb_object_agg(setting, CASE setting WHEN 'max_response_size' THEN pg_size_bytes(effective)::text ELSE effective END) AS defaults
                       FROM idem_scope_settings WHERE scope = 'family:bare' AND source = 'default') d,
                    jsonb_populate_record(NULL::idem_scopes, defaults || '{"scope": "family:defaults"}') r;
    COMMIT;
    CALL pg_temp.probe('family:defaults', alone);
    INSERT INTO seen VALUES ('defaults', NULL, alone);
END $$;
SELECT is((SELECT string_agg(format('%s: %s, not %s', key, a.value, b.value), '; ') FROM seen d, seen n, jsonb_each(d.alone) a JOIN jsonb_each(n.alone) b USING (key)
            WHERE d.setting = 'defaults' AND n.setting = 'none' AND a.value <> b.value), NULL, 'defaults_in_idem_scope_settings');
SELECT is((SELECT string_agg(a.key, ' ') FROM seen n, seen s, jsonb_each(n.alone) a WHERE n.setting = 'none' AND s.setting = 'nothing' AND s.in_family -> a.key = a.value), NULL, 'nothing_is_a_default');

SELECT idem_scope_set('family:k', keep_forever => true), idem_scope_set('family:k/no', keep_forever => false), idem_scope_set('family:k/ttl', ttl => '1 h');
SELECT is(pg_temp.retention('family:k/x'), 'infinity', 'keep_forever_is_inherited');
SELECT is(pg_temp.retention('family:k/no'), 86400::float8, 'false_is_a_value');
SELECT is(pg_temp.retention('family:k/ttl'), 'infinity', 'keep_forever_beats_an_own_ttl');

-- --- Which scope is of which family ------------------------------------------------------------------------------------------------------

SELECT idem_scope_set('family:a', ttl => '2 h'), idem_scope_set('family:a/b', ttl => '3 h', lease => '1 h');
SELECT is(pg_temp.retention('family:a/b/c'), 7200::float8, 'the_part_before_the_first_slash');
SELECT is(pg_temp.retention('family:a/'), 7200::float8, 'of_a_scope_that_ends_with_it');
SELECT is(pg_temp.retention('family:ab/c'), 86400::float8, 'the_whole_part');
BEGIN;
SELECT idem_scope_set('', ttl => '2 h');
SELECT is(pg_temp.retention('/x', 'family:1'), 86400::float8, 'no_family_before_the_slash');
SELECT is(pg_temp.retention('', 'family:2'), 7200::float8, 'the_empty_scope_is_none');
ROLLBACK;
SELECT is((SELECT string_agg(format('%s %s', s, pg_temp.state_of(format('SELECT idem.idem_claim(''k'', scope => ''family:a/'' || repeat(''x'', %s))', s))), ', ') FROM unnest('{246,247}'::int[]) s),
    '246 ok, 247 22023', 'as_long_as_any_scope');
SET idem.require_registered_scope = on;
SELECT is((SELECT string_agg(format('%s %s', s, pg_temp.state_of(format('SELECT idem.idem_claim(''k'', scope => %1$L), idem.idem_lookup(''k'', scope => %1$L)', s))), ', ')
             FROM unnest('{family:a/new,family:a/b/new,family:ab/new,family:new}'::text[]) s),
    'family:a/new ok, family:a/b/new ok, family:ab/new 42704, family:new 42704', 'a_family_registers_its_scopes');
RESET idem.require_registered_scope;

-- --- Changes -----------------------------------------------------------------------------------------------------------------------------

SELECT idem_scope_set('family:a', ttl => '4 h');
SELECT is(pg_temp.retention('family:a/x', 'set'), 14400::float8, 'change_of_the_family');
SELECT idem_scope_set('family:a/x', ttl => '5 h');
SELECT is(pg_temp.retention('family:a/x', 'own'), 18000::float8, 'change_of_the_scope');
SELECT is(idem_scope_reset('family:a/x', 'ttl'), true, 'scope_is_reset');
SELECT is(pg_temp.retention('family:a/x', 'reset'), 14400::float8, 'to_the_familys');
SELECT is(idem_scope_reset('family:a/y', 'ttl'), false, 'scope_of_a_family_has_no_row');
SELECT is(idem_scope_reset('family:a', 'ttl'), true, 'family_is_reset');
SELECT is(pg_temp.retention('family:a/x', 'default'), 86400::float8, 'to_the_default');
SELECT idem_scope_set('family:a', ttl => '6 h');
SELECT is(pg_temp.retention('family:a/x', 'again'), 21600::float8, 'family_is_set_again');
SELECT is(idem_scope_drop('family:a'), true, 'family_is_dropped');
SELECT is(pg_temp.retention('family:a/x', 'dropped'), 86400::float8, 'without_family');
BEGIN;
SELECT idem_scope_set('family:a', ttl => '7 h');
SELECT is(pg_temp.retention('family:a/x', 'undone'), 25200::float8, 'family_of_this_transaction');
ROLLBACK;
SELECT is(pg_temp.retention('family:a/x', 'afterwards'), 86400::float8, 'that_is_rolled_back');

-- --- Responses, leases, statistics -------------------------------------------------------------------------------------------------------

SELECT idem_scope_set('family:r', response_ttl => '1 ms'), idem_scope_set('family:r/long', response_ttl => '1 h'), idem_scope_set('family:r/other', ttl => '1 h');
SELECT idem_try_claim('done', scope => 'family:' || s), idem_complete('done', '1', 200, scope => 'family:' || s) FROM unnest('{r,r/x,r/other/x,r/other,r/long,s/x}'::text[]) s;
CALL pg_temp.sleep('5 ms');
CALL idem_sweep();
SELECT is((SELECT string_agg(substr(scope, 8), ' ' ORDER BY scope) FROM idem_keys WHERE key = 'done' AND starts_with(scope, 'family:') AND response IS NOT NULL), 'r/long s/x', 'response_ttl');
SELECT idem_scope_set('family:m', on_lease_expiry => 'manual'), idem_scope_set('family:m/takeover', on_lease_expiry => 'takeover');
SELECT idem_begin('lapsed', ttl => '1 ms', lease => '1 ms', scope => 'family:' || s) FROM unnest('{m/x,m/takeover,s/x}'::text[]) s;
CALL pg_temp.sleep('5 ms');
SELECT is((SELECT string_agg(substr(scope, 8), ' ' ORDER BY scope) FROM idem_in_flight() WHERE key = 'lapsed' AND starts_with(scope, 'family:')), 'm/x', 'lapsed_lease_that_is_for_an_operator');
CALL idem_sweep();
SELECT is((SELECT string_agg(substr(scope, 8), ' ' ORDER BY scope) FROM idem_keys WHERE key = 'lapsed' AND starts_with(scope, 'family:')), 'm/x', 'is_not_swept');

-- The ring of a scope beats what its family says of retention.
SELECT lives_ok($$ SELECT idem_ring_create('family:ring', retention => '1 h'), idem_scope_set('family:k/ring', ring => 'family:ring') $$, 'ring_of_a_scope_whose_family_keeps_forever');
SELECT is(pg_temp.retention('family:k/ring'), 3600::float8, 'has_its_retention');
SELECT is(pg_temp.state_of($$ SELECT idem_scope_set('family:k/ring', keep_forever => true) $$), '22023', 'but_not_an_own_setting');
SELECT idem_scope_reset('family:k/ring', 'ring');
DELETE FROM idem_keys WHERE scope = 'family:k/ring';
SELECT pg_temp.state_of($$ SELECT idem_ring_drop('family:ring') $$) AS dropped \gset

-- --- Owners ------------------------------------------------------------------------------------------------------------------------------

SELECT pg_advisory_lock(hashtext('idem pgtap grants'));
BEGIN;
CREATE ROLE tap_kin;
CREATE ROLE tap_alien;
SELECT idem_grant(role, true) FROM unnest('{tap_kin,tap_alien}'::regrole[]) role;
GRANT USAGE ON SCHEMA idem TO tap_kin, tap_alien;
SELECT idem_begin('held', lease => '1 h', scope => 'family:' || s) FROM unnest('{p,p/x,p/own,p/open,p/row}'::text[]) s;
SELECT idem_scope_set('family:p/own', owner => 'tap_alien'), idem_scope_set('family:p/open', owner => '-'), idem_scope_set('family:p/row', ttl => '1 h');
SELECT idem_scope_set('family:p', owner => 'tap_kin');
CREATE FUNCTION pg_temp.in_flight_as(who name) RETURNS SETOF text LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('SET LOCAL ROLE %I', who);
    RETURN QUERY SELECT scope FROM idem.idem_in_flight() WHERE key = 'held' AND starts_with(scope, 'family:');
    RESET ROLE;
END $$;
-- The calls that a role may not make.
CREATE FUNCTION pg_temp.refused(who name) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(c.name || ': ' || (SELECT coalesce(string_agg(s || CASE state WHEN '42501' THEN '' ELSE ' ' || state END, ',' ORDER BY s), '-')
                                           FROM unnest('{p,p/open,p/own,p/row,p/x}'::text[]) s,
                                                pg_temp.state_as(who, format('SELECT * FROM idem.' || c.call, 'family:' || s)) AS state
                                          WHERE state <> 'ok'), '; ')
      FROM (VALUES ('claim', 'idem_claim(''new'', scope => %L)'), ('begin', 'idem_begin(''b'', scope => %L)'), ('renew', 'idem_renew(''held'', pg_temp.held(%1$L), scope => %1$L)'),
                   ('http', 'idem_http_begin(%L, ''GET'', ''/'', NULL)'), ('hit', 'idem_hit(''h'', scope => %L)'), ('lookup', 'idem_lookup(''held'', scope => %L)')) AS c (name, call)
$$;
CREATE FUNCTION pg_temp.held(scope text) RETURNS bigint LANGUAGE sql SECURITY DEFINER AS $$ SELECT fence FROM idem.idem_keys k WHERE k.scope = $1 AND key = 'held' $$;
SAVEPOINT s;
SELECT is(pg_temp.refused('tap_alien'), 'claim: p,p/row,p/x; begin: p,p/row,p/x; renew: p,p/row,p/x; http: p,p/row,p/x; hit: p,p/row,p/x; lookup: p,p/row,p/x', 'of_another_family');
ROLLBACK TO s;
SELECT is(pg_temp.refused('tap_kin'), 'claim: p/own; begin: p/own; renew: p/own; http: p/own; hit: p/own; lookup: p/own', 'of_the_family');
ROLLBACK TO s;
SELECT is((SELECT string_agg(substr(scope, 8), ' ' ORDER BY scope) FROM pg_temp.in_flight_as('tap_kin') scope), 'p p/open p/row p/x', 'leases_that_the_family_sees');
SELECT is((SELECT string_agg(substr(scope, 8), ' ' ORDER BY scope) FROM pg_temp.in_flight_as('tap_alien') scope), 'p/open p/own', 'and_others');
-- Changes need the privileges of the owner before the change.
SELECT is((SELECT string_agg(format('%s %s', pg_temp.state_as('tap_alien', 'SELECT idem.' || call), pg_temp.state_as('tap_kin', 'SELECT idem.' || call)), ', ')
             FROM unnest(ARRAY['idem_scope_set(''family:p/x'', owner => ''tap_kin'')', 'idem_http_scope_set(''family:p/x'', mismatch_status => 409)',
                               'idem_scope_reset(''family:p/row'', ''ttl'')', 'idem_scope_reset(''family:p/none'', ''ttl'')', 'idem_scope_drop(''family:p/row'')', 'idem_scope_drop(''family:p/none'')',
                               'idem_scope_set(''family:p/open'', lease => ''1 min'')']) call),
    '42501 ok, 42501 ok, 42501 ok, 42501 ok, 42501 ok, 42501 ok, ok ok', 'changes_of_scopes');
SELECT is(pg_temp.state_as('tap_kin', $$ SELECT idem.idem_scope_set('family:p/own', owner => '-') $$), '42501', 'family_cannot_seize_a_scope');
SELECT is(pg_temp.state_as('tap_alien', $$ SELECT idem.idem_scope_reset('family:p/own', 'owner') $$), 'ok', 'scope_returns_to_the_family');
SELECT is(pg_temp.state_as('tap_alien', $$ SELECT idem.idem_claim('k', scope => 'family:p/own') $$) || pg_temp.state_as('tap_kin', $$ SELECT idem.idem_claim('k', scope => 'family:p/own') $$), '42501ok', 'whose_it_is_then');
ROLLBACK;
SELECT is(pg_temp.retention('family:p/x'), 86400::float8, 'all_of_which_is_undone');
SELECT pg_advisory_unlock(hashtext('idem pgtap grants'));
CALL pg_temp.clean('family:');
SELECT * FROM finish();
