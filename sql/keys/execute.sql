-- Claim, work and response in one call.

CREATE FUNCTION idem_execute(key text, statement text, args jsonb DEFAULT '[]', fingerprint bytea DEFAULT NULL, ttl interval DEFAULT NULL,
                             scope text DEFAULT '')
RETURNS idem_ticket LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_execute(text, text, jsonb, bytea, interval, text) IS
'Claims the key, runs one statement with the elements of args as $1, $2 ..., stores its rows as a jsonb array of objects, and answers as idem_begin does; a duplicate gets the stored rows, and the statement does not run. The statement runs with the caller''s privileges and search_path; parameter types are inferred from their use, and are text where they cannot be. An element becomes its parameter''s type as in jsonb_populate_record: json and jsonb take the element itself, arrays fill arrays, null is NULL. An error in it frees the key. Never waits for another holder (in_flight); an uncommitted one cannot be looked up yet: ask again.
Errors: as idem_begin, and those of the statement; 22023 args is not a JSON array, or their number is not the statement''s; 42601 not exactly one statement; 42701 two result columns of one name; 42P18, 42P08 a parameter whose type cannot be inferred, or not in one way.';
