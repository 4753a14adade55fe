-- Hashes of a column's values that agree with an index: values that are equal for the index have equal hashes.

-- The default hash operator class of a type, and its function that takes a seed. Containers have none here, as what they contain may be compared
-- otherwise than it is hashed.
CREATE FUNCTION _idem_row_hash(type oid, OUT family oid, OUT hash text) LANGUAGE plpgsql STABLE AS $$
BEGIN
    SELECT c.opcfamily,
           CASE WHEN p.proargtypes[0] = c.opcintype THEN replace(format('%I.%I', n.nspname, p.proname), '%', '%%') || '(%s, %s)'
                WHEN c.oid < 16384 -- bool, bytea, date, timestamptz, xid: equal values have equal bytes
                THEN format('pg_catalog.hashtextextended(pg_catalog.encode(pg_catalog.%I(%%s), ''hex''), %%s)', b.proname) END
      INTO family, hash
      FROM pg_type y
      JOIN pg_opclass c ON c.opcdefault AND (c.opcintype = y.oid OR y.typtype = 'e' AND c.opcintype = 'anyenum'::regtype
                                             OR EXISTS (SELECT FROM pg_cast k WHERE k.castsource = y.oid AND k.casttarget = c.opcintype
                                                           AND k.castmethod = 'b' AND k.castcontext = 'i'))
      JOIN pg_am m ON m.oid = c.opcmethod AND m.amname = 'hash'
      JOIN pg_amproc f ON f.amprocfamily = c.opcfamily AND f.amproclefttype = c.opcintype AND f.amprocrighttype = c.opcintype AND f.amprocnum = 2
      JOIN pg_proc p ON p.oid = f.amproc
      JOIN pg_namespace n ON n.oid = p.pronamespace
      JOIN pg_type i ON i.oid = c.opcintype
      LEFT JOIN pg_proc b ON b.oid = i.typsend
     WHERE y.oid = type AND y.typtype IN ('b', 'e') AND y.typcategory <> 'A'
     ORDER BY c.opcintype = y.oid DESC, i.typispreferred DESC LIMIT 1;
END
$$;
