-- Scopes: retention, lease and response policy, and who may use them.

CREATE FUNCTION idem_scope_set(scope text, ttl interval DEFAULT NULL, keep_forever boolean DEFAULT NULL, lease interval DEFAULT NULL,
                               on_lease_expiry text DEFAULT NULL, max_response_size integer DEFAULT NULL, owner regrole DEFAULT NULL)
RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_scope_set(text, interval, boolean, interval, text, integer, regrole) IS
'Registers a scope, or changes its policy; NULL leaves as is, owner ''-'' takes the owner away. Holds for every session at once. Operators.
Errors: 22004 scope is null; 22023 scope over 255 bytes, ttl or lease not positive, unknown on_lease_expiry (takeover, manual), negative max_response_size; 42501 the scope has an owner whose privileges the caller lacks.';

CREATE FUNCTION idem_scope_drop(scope text) RETURNS boolean LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_scope_drop(text) IS 'Drops a scope''s policy and owner; its keys stay. True if there was one. Operators.';
