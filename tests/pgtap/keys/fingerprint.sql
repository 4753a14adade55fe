-- Fingerprints: equal requests, and only they, have equal fingerprints.
\ir ../include/helpers.psql
SELECT plan(27);

-- The form.
SELECT is(length(idem_fingerprint('{"a": 1}')), 33, 'one_version_byte_and_sha256');
SELECT is(get_byte(idem_fingerprint('{"a": 1}'), 0), 1, 'version_is_1');
SELECT is(idem_fingerprint_text('abc'),
    '\x01ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad', 'text_is_hashed_with_sha256');
SELECT is(idem_fingerprint_bytes('abc'),
    '\x01ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad', 'bytes_are_hashed_with_sha256');
SELECT is(idem_fingerprint_text(''),
    '\x01e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855', 'empty_text_has_a_fingerprint');
SELECT is(idem_fingerprint_bytes(''),
    '\x01e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855', 'no_bytes_have_a_fingerprint');
SELECT is(
    (SELECT count(*) FROM generate_series(0, 300) n, repeat('ż', n) AS message
      WHERE idem_fingerprint_text(message) <> '\x01'::bytea || sha256(convert_to(message, 'UTF8'))
         OR idem_fingerprint_bytes(convert_to(message, 'UTF8')) <> idem_fingerprint_text(message)),
    0::bigint, 'every_length_around_the_block_size_is_hashed_as_sha256_does');
SELECT is(idem_fingerprint_bytes('\x00ff00'), '\x01'::bytea || sha256('\x00ff00'), 'zero_bytes_count');

-- jsonb: what does not matter.
SELECT is(idem_fingerprint('{"a": 1, "bb": 2}'), idem_fingerprint('{"bb": 2, "a": 1}'), 'key_order_does_not_matter');
SELECT is(idem_fingerprint('{"x": {"a": [1, {"c": 1, "b": 2}], "b": 2}}'),
          idem_fingerprint('{"x": {"b": 2, "a": [1, {"b": 2, "c": 1}]}}'), 'nested_key_order_does_not_matter');
SELECT is(idem_fingerprint(E' {\n\t"a" :1 , "b":[ ] } '), idem_fingerprint('{"a":1,"b":[]}'), 'white_space_does_not_matter');
SELECT is(
    (SELECT count(DISTINCT idem_fingerprint(n::jsonb))
       FROM unnest(ARRAY['100', '100.0', '1e2', '1E+2', '10000e-2', '100.000000000000000000000000']) n),
    1::bigint, 'spelling_of_a_number_does_not_matter');
SELECT is(idem_fingerprint('[0, 0.0, -0, -0.00, 0e10]'), idem_fingerprint('[0, 0, 0, 0, 0]'), 'zero_is_zero');
SELECT is(idem_fingerprint('1e1000'), idem_fingerprint(('1' || repeat('0', 1000))::jsonb), 'large_exponents_are_numbers');
SELECT is(idem_fingerprint('"\u00e9\n"'), idem_fingerprint('"é\u000a"'), 'escaping_of_a_letter_does_not_matter');
SELECT is(idem_fingerprint('{"a": 1, "a": 2}'), idem_fingerprint('{"a": 2}'), 'last_of_duplicate_keys_counts_as_in_jsonb');

-- jsonb: what matters. Equal as jsonb and equal fingerprint must be the same thing.
SELECT isnt(idem_fingerprint('[1, 2]'), idem_fingerprint('[2, 1]'), 'array_order_matters');
CREATE TEMP TABLE request (body jsonb);
INSERT INTO request VALUES
    ('1'), ('1.0'), ('10'), ('0.1'), ('0.10'), ('-1'), ('"1"'), ('"1.0"'), ('[1]'), ('[[1]]'), ('["1"]'), ('[1, 1]'),
    ('null'), ('[null]'), ('"null"'), ('[]'), ('[[]]'), ('[[], []]'), ('{}'), ('[{}]'), ('""'), ('[""]'), ('"[]"'),
    ('"{}"'), ('true'), ('false'), ('"true"'), ('{"a": null}'), ('{"a": {}}'), ('{"a": []}'), ('{"a": ""}'),
    ('{"": "a"}'), ('{"a": "b"}'), ('["a", "b"]'), ('{"b": "a"}'), ('{"a": "b", "c": "d"}'), ('{"a": {"b": "c"}}'),
    ('{"a": "b\",\"c\":\"d"}'), ('{"a": "b,c:d"}'), ('["a,b"]'), ('["a\",\"b"]'), ('["a", ["b"]]'), ('[["a"], "b"]'),
    ('"a"'), ('"A"'), ('"a "'), ('" a"'), ('"a\n"'), ('"a\\n"'), ('"é"'), ('"e\u0301"'), ('"\""'), ('"\\\""'),
    ('1e2'), ('100'), ('1e-2'), ('0.01'), ('123456789012345678901234567890'), ('123456789012345678901234567891'),
    ('0.1234567890123456789012345678901'), ('0.1234567890123456789012345678902'), ('9007199254740993'),
    ('9007199254740992'), ('{"10": 1, "9": 2}'), ('{"9": 2, "10": 1}'), ('[1, [2, 3]]'), ('[[1, 2], 3]'), ('[1, 2, 3]'),
    ('"\u0001"'), ('"\\u0001"'), ('1e400'), ('1e-400'), ('{"a": 1, "b": [1, 2]}'), ('{"a": [1, 2], "b": 1}');
SELECT is(
    (SELECT string_agg(format('%s and %s', x.body, y.body), '; ')
       FROM request x, request y
      WHERE (x.body = y.body) <> (idem_fingerprint(x.body) = idem_fingerprint(y.body))),
    NULL, 'fingerprints_are_equal_exactly_when_the_values_are');

-- Size and depth.
SELECT isnt(idem_fingerprint(jsonb_build_array(repeat('x', 2000000) || 'a')),
            idem_fingerprint(jsonb_build_array(repeat('x', 2000000) || 'b')), 'last_byte_of_a_large_request_matters');
SELECT is(
    (SELECT string_agg(depth || ': ' || state, ', ')
       FROM unnest(ARRAY[100, 1000, 3000, 6000, 12000]) depth,
            pg_temp.state_of(format($$ SELECT idem_fingerprint((repeat('[', %1$s) || repeat(']', %1$s))::jsonb) $$, depth))
            AS state
      WHERE state NOT IN ('ok', '54001')),
    NULL, 'deep_nesting_is_hashed_or_refused');
SELECT is(
    (SELECT count(DISTINCT idem_fingerprint(('[' || string_agg || ']')::jsonb))
       FROM (SELECT string_agg(CASE WHEN m = n THEN '2' ELSE '1' END, ',')
               FROM generate_series(1, 200) m, generate_series(1, 200) n GROUP BY n) permuted),
    200::bigint, 'each_position_of_a_long_array_matters');

SELECT is(pg_temp.state_of($$ SELECT idem_fingerprint(('[' || string_agg('1e100000', ',') || ']')::jsonb) FROM generate_series(1, 12000) $$),
    'ok', 'small_request_of_huge_numbers_is_hashed');

-- Nothing but the value decides.
CREATE TEMP TABLE before AS SELECT body, idem_fingerprint(body) AS fingerprint FROM request;
SET TimeZone = 'Pacific/Chatham';
SET DateStyle = 'SQL, DMY';
SET IntervalStyle = 'iso_8601';
SET extra_float_digits = -15;
SET bytea_output = 'escape';
SET lc_numeric = 'C';
SET standard_conforming_strings = on;
SELECT is((SELECT count(*) FROM before WHERE fingerprint <> idem_fingerprint(body)), 0::bigint,
    'settings_do_not_change_a_fingerprint');
RESET ALL;

-- An untyped literal must not pick the wrong function, and NULL is no request.
SELECT is(idem_fingerprint('"abc"'), idem_fingerprint('"abc"'::jsonb), 'untyped_literal_is_jsonb');
SELECT is(idem_fingerprint(NULL), NULL, 'null_request_has_no_fingerprint');
SELECT is(idem_fingerprint_text(NULL), NULL, 'null_text_has_no_fingerprint');
SELECT is(idem_fingerprint_bytes(NULL), NULL, 'null_bytes_has_no_fingerprint');

SELECT * FROM finish();
