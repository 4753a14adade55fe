-- idem_scope_settings and idem_scope_sizes: what operators see of the scopes. families.sql compares the defaults with what scopes without settings do.
\ir ../include/helpers.psql
SELECT plan(13);
CALL pg_temp.clean('settings:');

CREATE FUNCTION pg_temp.settings(space text, VARIADIC names text[]) RETURNS text LANGUAGE sql AS $$
    SELECT string_agg(format('%s: %s, %s (%s)', setting, coalesce(own, '-'), coalesce(effective, '-'), source), '; ' ORDER BY array_position(names, setting))
      FROM idem_scope_settings WHERE scope = 'settings:' || space AND setting = ANY (names)
$$;

SELECT idem_scope_set('settings:shop', ttl => '2 h', on_lease_expiry => 'manual', keep_forever => true, response_ttl => '1 h'), idem_http_scope_set('settings:shop', keyed_methods => '{PUT}', documentation_url => 'https://shop.example/a'),
       idem_scope_set('settings:shop/x', ttl => '3 h', keep_forever => false), idem_http_scope_set('settings:shop/x', documentation_url => '', echo_key => true);
SELECT is(pg_temp.settings('shop', 'ttl', 'on_lease_expiry', 'lease'), 'ttl: 02:00:00, 02:00:00 (scope); on_lease_expiry: manual, manual (scope); lease: -, 30s (default)', 'scope_that_is_a_family');
SELECT is(pg_temp.settings('shop/x', 'ttl', 'keep_forever', 'on_lease_expiry', 'response_ttl', 'lease'),
    'ttl: 03:00:00, 03:00:00 (scope); keep_forever: false, false (scope); on_lease_expiry: -, manual (family); response_ttl: -, 01:00:00 (family); lease: -, 30s (default)', 'scope_of_a_family');
SELECT is(pg_temp.settings('shop/x', 'keyed_methods', 'documentation_url', 'echo_key', 'compare'),
    'keyed_methods: -, {PUT} (family); documentation_url: ,  (scope); echo_key: true, true (scope); compare: -, bytes (default)', 'settings_of_http');
SELECT is(pg_temp.settings('shop/y', 'ttl'), NULL, 'scope_that_is_not_registered');
SELECT is((SELECT string_agg(setting, ' ' ORDER BY setting COLLATE "C") FROM idem_scope_settings WHERE scope = 'settings:shop/x'),
    (SELECT string_agg(name, ' ' ORDER BY name COLLATE "C")
       FROM (SELECT attname::text FROM pg_attribute WHERE attrelid = 'idem_scopes'::regclass AND attnum > 1 AND NOT attisdropped UNION ALL SELECT 'ring') AS s (name)),
    'each_setting_once');
BEGIN;
SET LOCAL idem.default_ttl = '90 min';
SET LOCAL idem.default_lease = '45s';
SET LOCAL idem.max_response_size = '2MB';
SELECT idem_scope_reset('settings:shop', 'ttl');
SELECT is(pg_temp.settings('shop', 'ttl', 'lease', 'max_response_size') LIKE 'ttl: -, 90%min (default); lease: -, 45s (default); max_response_size: -, 2MB (default)', true, 'settings_of_the_session');
ROLLBACK;
SELECT lives_ok($$ SELECT idem_ring_create('settings:ring', retention => '4 h'), idem_scope_set('settings:shop/ring', ttl => '1 h', ring => 'settings:ring') $$, 'scope_in_a_ring');
SELECT is(pg_temp.settings('shop/ring', 'ring', 'ttl', 'keep_forever', 'response_ttl'),
    'ring: settings:ring, settings:ring (scope); ttl: 01:00:00, 04:00:00 (ring); keep_forever: -, false (ring); response_ttl: -, 01:00:00 (family)', 'whose_retention_applies');

SELECT idem_claim('k' || n, scope => 'settings:' || s) FROM unnest('{shop/ring,shop/y,other}'::text[]) s, generate_series(1, 3) n WHERE s <> 'other' OR n = 1;
SELECT is((SELECT string_agg(format('%s %s', substr(scope, 10), keys), ', ' ORDER BY scope) FROM idem_scope_sizes() WHERE starts_with(scope, 'settings:')), 'other 1, shop/ring 3, shop/y 3', 'keys_of_each_scope');
SELECT idem_complete('k1', to_jsonb(repeat('a', 5000)), scope => 'settings:big') FROM idem_try_claim('k1', scope => 'settings:big') c;
SELECT is((SELECT string_agg(format('%s %s', substr(scope, 10), bytes > 100), ', ' ORDER BY scope) FROM idem_scope_sizes() WHERE scope IN ('settings:big', 'settings:other')), 'big t, other f', 'bytes_of_each_scope');

-- Every operator sees how the scopes are set, but keys only of those that it may use.
SELECT pg_advisory_lock(hashtext('idem pgtap grants'));
BEGIN;
CREATE ROLE tap_reader;
CREATE ROLE tap_holder;
SELECT idem_grant('tap_reader', true);
GRANT USAGE ON SCHEMA idem TO tap_reader;
SELECT idem_scope_set('settings:shop', owner => 'tap_holder');
CREATE FUNCTION pg_temp.seen_as(who name, OUT sizes text, OUT settings text) LANGUAGE plpgsql AS $$
BEGIN
    EXECUTE format('SET LOCAL ROLE %I', who);
    SELECT string_agg(substr(scope, 10), ' ' ORDER BY scope) INTO sizes FROM idem.idem_scope_sizes() WHERE starts_with(scope, 'settings:');
    SELECT string_agg(format('%s %s %s', substr(scope, 10), effective, source), ', ' ORDER BY scope) INTO settings
      FROM idem.idem_scope_settings WHERE starts_with(scope, 'settings:shop') AND setting = 'owner' AND scope <> 'settings:shop/ring';
    RESET ROLE;
END $$;
SELECT sizes, settings FROM pg_temp.seen_as('tap_reader') \gset
GRANT tap_holder TO tap_reader;
SELECT sizes AS sizes_of_member FROM pg_temp.seen_as('tap_reader') \gset
ROLLBACK;
SELECT is(:'sizes'::text, 'big other', 'scopes_with_an_owner_are_its_roles');
SELECT is(:'sizes_of_member'::text, 'big other shop/ring shop/y', 'which_see_them');
SELECT is(:'settings'::text, 'shop tap_holder scope, shop/x tap_holder family', 'settings_of_scopes_with_an_owner');
SELECT pg_advisory_unlock(hashtext('idem pgtap grants'));
SELECT idem_scope_reset('settings:shop/ring', 'ring');
DELETE FROM idem_keys WHERE scope = 'settings:shop/ring';
SELECT pg_temp.state_of($$ SELECT idem_ring_drop('settings:ring') $$) AS dropped \gset
CALL pg_temp.clean('settings:');
SELECT * FROM finish();
