-- Whatever is handed in as a token gets an outcome, never an error, and nothing but the token itself is accepted.
\ir ../include/helpers.psql
SELECT plan(18);

-- What redeeming every text of a query comes to. Each is redeemed on its own, so that one that is accepted is not hidden.
CREATE FUNCTION pg_temp.outcomes(texts text[], subject text DEFAULT 'alice', scope text DEFAULT 'fuzz:') RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    given text;
    outcome text;
    seen text[] := '{}';
BEGIN
    FOREACH given IN ARRAY texts LOOP
        BEGIN
            outcome := idem.idem_token_redeem(given, subject, scope);
        EXCEPTION WHEN OTHERS THEN
            outcome := SQLSTATE;
        END;
        IF NOT outcome = ANY (seen) THEN
            seen := seen || outcome;
        END IF;
    END LOOP;
    RETURN array_to_string(seen, ' ');
END $$;

CREATE FUNCTION pg_temp.base64url(bytes bytea) RETURNS text LANGUAGE sql AS $$
    SELECT rtrim(translate(encode(bytes, 'base64'), E'+/\n', '-_'), '=')
$$;
CREATE FUNCTION pg_temp.bytes_of(token text) RETURNS bytea LANGUAGE sql AS $$
    SELECT decode(translate(token, '-_', '+/') || repeat('=', (4 - length(token) % 4) % 4), 'base64')
$$;

SELECT idem_token_issue('alice', '1 hour', 'fuzz:') AS token, idem_token_issue('alice', '1 hour', 'fuzz:') AS other \gset
SELECT is(pg_temp.base64url(pg_temp.bytes_of(:'token')), :'token', 'the_test_can_take_tokens_apart');

SELECT is(pg_temp.outcomes(array_agg(left(:'token', n)) || array_agg(right(:'token', n))), 'invalid', 'every_truncation')
  FROM generate_series(0, 81) AS n;
SELECT is(pg_temp.outcomes(array_agg(pg_temp.base64url(set_bit(pg_temp.bytes_of(:'token'), n, 1 - get_bit(pg_temp.bytes_of(:'token'), n))))),
          'invalid', 'every_flipped_bit')
  FROM generate_series(0, 61 * 8 - 1) AS n;
SELECT is(pg_temp.outcomes(array_agg(overlay(:'token' PLACING chr(c) FROM n))), 'invalid', 'every_other_character_everywhere')
  FROM generate_series(1, 82) AS n, generate_series(1, 127) AS c WHERE chr(c) <> substr(:'token', n, 1);
SELECT is(pg_temp.outcomes(array_agg(substr(:'token', 1, n) || c || substr(:'token', n + 1))), 'invalid', 'every_insertion')
  FROM generate_series(0, 82) AS n, unnest(ARRAY['A', '=', ' ', E'\n', 'é', '/', '+', '.', '%3D']) AS c;
SELECT is(pg_temp.outcomes(array_agg(left(:'token', n) || substr(:'other', n + 1))), 'invalid', 'two_tokens_spliced')
  FROM generate_series(1, 80) AS n WHERE left(:'token', n) <> left(:'other', n) AND substr(:'token', n + 1) <> substr(:'other', n + 1);
SELECT is(pg_temp.outcomes(array_agg(pg_temp.base64url((SELECT string_agg(uuid_send(gen_random_uuid()), '') FROM generate_series(1, 4 + i * 0))))),
          'invalid', 'random_bytes_of_another_length')
  FROM generate_series(1, 200) AS i;
SELECT is(pg_temp.outcomes(array_agg(pg_temp.base64url(
              substring('\x01'::bytea || (SELECT string_agg(uuid_send(gen_random_uuid()), '') FROM generate_series(1, 4 + i * 0)) FOR 61)))),
          'invalid', 'random_bytes_of_the_right_length')
  FROM generate_series(1, 500) AS i;
-- Under a key id that exists, far in the future, with whatever MAC.
SELECT is(pg_temp.outcomes(array_agg(pg_temp.base64url(substring(pg_temp.bytes_of(:'token') FOR 5) || '\x7fffffffffffffff'::bytea
              || substring((SELECT string_agg(uuid_send(gen_random_uuid()), '') FROM generate_series(1, 3 + i * 0)) FOR 48)))),
          'invalid', 'forged_expiry')
  FROM generate_series(1, 200) AS i;
SELECT is(pg_temp.outcomes(ARRAY['', ' ', 'null', '{}', repeat('A', 82), repeat('_', 82), repeat('é', 41), repeat('A', 1000000),
                                 :'token' || ' ', ' ' || :'token', :'token' || '=', upper(:'token'), lower(:'token'),
                                 :'token' || :'token', encode(pg_temp.bytes_of(:'token'), 'hex')]),
          'invalid', 'oddities');
SELECT is(pg_temp.outcomes(ARRAY[:'token'], 'alicf') || ' ' || pg_temp.outcomes(ARRAY[:'token'], 'alice', 'fuzz;') || ' '
          || pg_temp.outcomes(ARRAY[:'token'], '', ''), 'invalid invalid invalid', 'other_subject_and_scope');
SELECT is((SELECT count(*) FROM idem_tokens WHERE scope LIKE 'fuzz:%'), 0::bigint, 'none_of_it_left_a_trace');

-- After all of which the token itself is good, once; and not after a revocation.
SELECT is(pg_temp.outcomes(ARRAY[:'token', :'token']), 'accepted duplicate', 'the_token_itself');

-- The same with a secret that signs no more; when it is gone, with its tokens as they are.
SELECT idem_token_rotate_secret();
SELECT is(pg_temp.outcomes(array_agg(pg_temp.base64url(set_bit(pg_temp.bytes_of(:'other'), n, 1 - get_bit(pg_temp.bytes_of(:'other'), n))))),
          'invalid', 'every_flipped_bit_of_a_token_of_a_rotated_secret')
  FROM generate_series(0, 61 * 8 - 1) AS n;
SELECT is(pg_temp.outcomes(ARRAY[:'other']), 'accepted', 'that_token_itself');
SELECT idem_token_issue('alice', '1 hour', 'fuzz:') AS new \gset
-- The key id alone, of either secret, on the other's token.
SELECT is(pg_temp.outcomes(ARRAY[pg_temp.base64url(overlay(pg_temp.bytes_of(:'new') PLACING substring(pg_temp.bytes_of(:'other') FROM 2 FOR 4) FROM 2)),
                                 pg_temp.base64url(overlay(pg_temp.bytes_of(:'other') PLACING substring(pg_temp.bytes_of(:'new') FROM 2 FOR 4) FROM 2))]),
          'invalid', 'key_id_of_another_secret');
DELETE FROM idem_token_secrets WHERE key_id = (SELECT max(key_id) FROM idem_token_secrets);
SELECT is(pg_temp.outcomes(ARRAY[:'new']), 'invalid', 'dropped');
SELECT idem_token_rotate_secret(revoke => true);
SELECT is(pg_temp.outcomes(ARRAY[:'token', :'other', :'new']), 'invalid', 'revoked');

DELETE FROM idem_tokens WHERE scope LIKE 'fuzz:%';
SELECT * FROM finish();
