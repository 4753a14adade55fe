-- Keys and fingerprints from values: pure functions.

CREATE FUNCTION idem_key(VARIADIC parts "any") RETURNS text LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_key("any") IS
'Joins several values to one key, so that different lists give different keys: (''a'', ''bc'') is not (''ab'', ''c''). Takes text, integers, numeric, uuid, boolean and date. Parts are compared by their text; no setting changes the result.
Errors: 22004 a part is null; 42804 a part of another type.';

CREATE FUNCTION idem_key(VARIADIC parts text[]) RETURNS text LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME', 'idem_key_texts';
COMMENT ON FUNCTION idem_key(text[]) IS
'Joins several texts to one key, the same one as idem_key("any"). Parameters without a type are text. Error: 22004 a part is null.';

CREATE FUNCTION idem_fingerprint(request jsonb) RETURNS bytea LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_fingerprint(jsonb) IS
'Returns the fingerprint of a request: a version byte (1) and the SHA-256 of its canonical form. The order of object members, white space, and 1.0 for 1 make no difference; the order of array elements does. NULL, an absent request, has no fingerprint: the result is NULL.';

CREATE FUNCTION idem_fingerprint_text(request text) RETURNS bytea LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_fingerprint_text(text) IS 'Returns the fingerprint of a text: a version byte (1) and the SHA-256 of its UTF-8 form. NULL gives NULL.';

CREATE FUNCTION idem_fingerprint_bytes(request bytea) RETURNS bytea LANGUAGE c IMMUTABLE STRICT PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_fingerprint_bytes(bytea) IS 'Returns the fingerprint of bytes: a version byte (1) and their SHA-256. NULL gives NULL.';
