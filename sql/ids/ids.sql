-- Ids that strictly increase, and UUIDs that sort by time.

CREATE FUNCTION idem_next_id() RETURNS bigint LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_next_id() IS
'Returns a new id: 41 bits of milliseconds since 2024-01-01 UTC, 10 bits of idem.node_id, 12 bits of sequence. Ids strictly increase in this database, whatever the clock does, and across crashes and rollbacks. An id that is not used is lost.
Errors: 25006 in a read-only transaction or on a standby; 2200H the 41 bits are used up (in 2093).';

CREATE FUNCTION idem_id_parts(id bigint, OUT at timestamptz, OUT node integer, OUT seq integer)
LANGUAGE c IMMUTABLE PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_id_parts(bigint) IS
'Returns the time, the node and the sequence number in an id of idem_next_id. at: when the id was made, to the millisecond; a little later when more ids were made than fit into a millisecond. node: idem.node_id. seq: the id''s number within its millisecond. Errors: 22004 id is null; 22023 id is negative.';

CREATE FUNCTION idem_uuid_v7() RETURNS uuid LANGUAGE c VOLATILE PARALLEL SAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_uuid_v7() IS
'Returns a UUID of version 7 (RFC 9562), with the time in front and 62 random bits. The UUIDs of one session increase. Writes nothing; works on a standby.';
