-- Keys and fingerprints from values: pure functions.

CREATE FUNCTION idem_key(VARIADIC parts "any") RETURNS text LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_key("any") IS
'One key from several values, joined so that different lists give different keys: (''a'', ''bc'') is not (''ab'', ''c''). Text, integers, numeric, uuid, boolean, date; parts are compared by their text, independent of settings.
Errors: 22004 a part is null; 42804 a part of another type.';

CREATE FUNCTION idem_key(VARIADIC parts text[]) RETURNS text LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'idem_key_texts';
COMMENT ON FUNCTION idem_key(text[]) IS
'One key from several texts, the same as idem_key("any") makes of them. Parameters without a type are text. Error: 22004 a part is null.';

CREATE FUNCTION idem_fingerprint(request jsonb) RETURNS bytea LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_fingerprint(jsonb) IS
'Fingerprint of a request: a version byte (1) and SHA-256 of its canonical form. Order of object members, white space and 1.0 for 1 make no difference; order of array elements does. NULL, an absent request, has none: NULL.';

CREATE FUNCTION idem_fingerprint_text(request text) RETURNS bytea LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_fingerprint_text(text) IS 'Fingerprint of a text: a version byte (1) and SHA-256 of its UTF-8 form. NULL: NULL.';

CREATE FUNCTION idem_fingerprint_bytes(request bytea) RETURNS bytea LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_fingerprint_bytes(bytea) IS 'Fingerprint of bytes: a version byte (1) and their SHA-256. NULL: NULL.';
