-- Sessions cache the tables of definitions. The triggers on those tables are row triggers, because a subscriber of logical
-- replication fires no others.

CREATE FUNCTION idem_definitions_changed() RETURNS trigger LANGUAGE c AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_definitions_changed() IS 'Internal: makes every session read the table again.';
