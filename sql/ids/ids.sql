-- Numbers: ids that grow, and UUIDs that nearly do.

CREATE FUNCTION idem_next_id() RETURNS bigint LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_next_id() IS
'A new id: 41 bits of milliseconds since 2024-01-01 UTC, 10 bits idem.node_id, 12 bits sequence. Strictly increasing in this database, whatever the clock, a crash or a rollback does; numbers that are not used are lost.
Errors: 25006 in a read-only transaction or on a standby; 2200H the 41 bits are used up (in 2093).';

CREATE FUNCTION idem_id_parts(id bigint, OUT at timestamptz, OUT node integer, OUT seq integer)
LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_id_parts(bigint) IS
'What idem_next_id put into an id: when it was made (to the millisecond; a little later, when more ids were made than a millisecond has), idem.node_id, and which of that millisecond''s it is. Errors: 22004 when null; 22023 when negative.';

CREATE FUNCTION idem_uuid_v7() RETURNS uuid LANGUAGE c VOLATILE PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_uuid_v7() IS
'A UUID of version 7 (RFC 9562): time in front, 62 random bits. Those of one session grow. Writes nothing; works on a standby.';
