-- With what is recorded of tables whose rows Citus keeps on workers: no trigger fires there, so no guard is enabled.
CREATE VIEW idem_guards AS
    @shared@
    UNION ALL
    SELECT g.target, CASE WHEN g.machine IS NULL THEN 'version' ELSE 'state' END, g.column_name, g.machine, false, g.is_valid
      FROM ONLY _idem_citus_guards g WHERE _idem_is_on_workers(g.target);
