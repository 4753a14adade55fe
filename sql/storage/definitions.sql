-- Sessions keep what tables of definitions say in memory. The triggers on those tables fire for each row: a subscriber of logical
-- replication fires no others.

CREATE FUNCTION idem_definitions_changed() RETURNS trigger LANGUAGE c AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_definitions_changed() IS 'Internal: makes every session read the table again.';
