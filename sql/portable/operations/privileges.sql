-- There is no extension that knows its members: the build lists them, and the script notes which ones it found when it began.
CREATE FUNCTION _idem_objects(OUT classid regclass, OUT objid oid, OUT is_new boolean) RETURNS SETOF record LANGUAGE sql STABLE AS $$
    SELECT o.classid, o.objid,
           NOT coalesce(format('%s:%s', o.classid::oid, o.objid) = ANY (string_to_array(current_setting('idem_portable.installed_before', true), ',')), true)
      FROM (SELECT 'pg_proc'::regclass AS classid, to_regprocedure(signature)::oid AS objid FROM unnest('@routines@'::text[]) AS signature
            UNION ALL
            SELECT 'pg_class'::regclass, to_regclass(name)::oid FROM unnest('@relations@'::text[]) AS name
            UNION ALL
            SELECT 'pg_type'::regclass, to_regtype(name)::oid FROM unnest('@types@'::text[]) AS name) o
     WHERE o.objid IS NOT NULL
$$;
