CREATE VIEW idem_replicated_tables AS
    SELECT CASE WHEN c.relkind = 'S' THEN 2 ELSE 1 END AS step,
           c.oid::pg_catalog.regclass AS relation,
           CASE WHEN c.relkind = 'S' THEN 'sequence' ELSE 'table' END AS kind,
           CASE WHEN c.relkind = 'S' THEN 'carry over'
                WHEN EXISTS (SELECT FROM pg_catalog.pg_index i WHERE i.indrelid = c.oid AND i.indisprimary) THEN 'publish'
                ELSE 'publish inserts' END AS action
      FROM pg_catalog.pg_class c
     WHERE c.oid = ANY ('@dumped@'::pg_catalog.regclass[])
     ORDER BY 1, c.relname;
