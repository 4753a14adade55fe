-- By name: the server records a dependency for a constant of type regclass, and none for an array of them, so a dump would have the view before the tables.
CREATE VIEW idem_replicated_tables AS
    SELECT CASE WHEN c.relkind = 'S' THEN 2 ELSE 1 END AS step,
           c.oid::pg_catalog.regclass AS relation,
           CASE WHEN c.relkind = 'S' THEN 'sequence' ELSE 'table' END AS kind,
           CASE WHEN c.relkind = 'S' THEN 'carry over'
                WHEN EXISTS (SELECT FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid AND i.indisprimary) THEN 'publish'
                ELSE 'publish inserts' END AS action
      FROM pg_catalog.pg_class c
     WHERE c.relnamespace = (SELECT k.relnamespace FROM pg_catalog.pg_class k WHERE k.oid = 'idem_keys'::pg_catalog.regclass)
       AND c.relname = ANY ('@dumped@'::pg_catalog.name[])
     ORDER BY 1, c.relname;
