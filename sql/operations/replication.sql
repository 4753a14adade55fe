-- Logical replication: the relations that another server needs before applications switch to it.

-- Derived from the extension's members, and from the tables of rings, which only depend on it. A switchover carries the tables of a dump, and
-- also the leases of the outbox: after a restore every message is given out again, after a switchover relays continue with their fences.
CREATE VIEW idem_replicated_tables AS
    SELECT CASE WHEN c.relkind = 'S' THEN 2 ELSE 1 END AS step,
           c.oid::pg_catalog.regclass AS relation,
           CASE WHEN c.relkind = 'S' THEN 'sequence' ELSE 'table' END AS kind,
           CASE WHEN c.relkind = 'S' THEN 'carry over'
                WHEN EXISTS (SELECT FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid AND i.indisprimary) THEN 'publish'
                ELSE 'publish inserts' END AS action
      FROM pg_catalog.pg_extension e
      JOIN pg_catalog.pg_depend d
        ON d.refclassid = e.tableoid AND d.refobjid = e.oid AND d.deptype IN ('e', 'x')
      JOIN pg_catalog.pg_class c ON c.tableoid = d.classid AND c.oid = d.objid
     WHERE e.extname = 'idem' AND c.relkind IN ('r', 'S')
       AND (c.oid = ANY (e.extconfig) OR c.relname = 'idem_outbox_leases' OR d.deptype = 'x')
     ORDER BY 1, c.relname;
COMMENT ON VIEW idem_replicated_tables IS
'The tables and sequences that a switchover by logical replication has to carry to the other server, in this order. Secrets and the progress of sweeps are not included: each server has its own.';
COMMENT ON COLUMN idem_replicated_tables.step IS '1: before the initial copy. 2: at the switchover, after the publisher has stopped.';
COMMENT ON COLUMN idem_replicated_tables.relation IS 'The table or sequence.';
COMMENT ON COLUMN idem_replicated_tables.kind IS 'table or sequence.';
COMMENT ON COLUMN idem_replicated_tables.action IS
'publish: in a publication; publish inserts: in one that publishes insertions only, because the table has no key by which other changes could be replicated; carry over: a high-water mark, which logical replication does not carry.';
