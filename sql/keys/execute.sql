-- Claim, work and response in one call.

CREATE FUNCTION idem_execute(key text, statement text, args jsonb DEFAULT '[]', fingerprint bytea DEFAULT NULL, ttl interval DEFAULT NULL,
                             scope text DEFAULT '')
RETURNS idem_ticket LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_execute(text, text, jsonb, bytea, interval, text) IS
'Claims the key, runs one statement, stores its rows as a jsonb array of objects, and returns a ticket, as idem_begin does. For a duplicate, the statement does not run, and the ticket has the stored rows. The statement runs with the caller''s privileges and search_path. An error in it frees the key.
args: the elements are $1, $2 ... in the statement. The type of a parameter is inferred from its use, else it is text. An element is converted to that type as in jsonb_populate_record: json and jsonb take the element itself, arrays fill arrays, null is NULL.
Never waits for another holder: returns in_flight. idem_lookup does not show an uncommitted holder yet: call again.
Errors: as idem_begin, and those of the statement; 22023 args is not a JSON array, or its length is not the number of parameters; 42601 not exactly one statement; 42701 two result columns of one name; 42P18, 42P08 the type of a parameter cannot be inferred, or not in one way.';
