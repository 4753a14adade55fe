SELECT count(*) FROM pg_trigger AS t JOIN pg_depend AS d ON d.objid = t.tgfoid AND d.classid = 'pg_proc'::regclass AND d.deptype = 'e'
  JOIN pg_extension AS e ON d.refclassid = 'pg_extension'::regclass AND d.refobjid = e.oid AND e.extname = 'idem'
 WHERE t.tgrelid = to_regclass('public.orders') AND t.tgenabled = 'O'
