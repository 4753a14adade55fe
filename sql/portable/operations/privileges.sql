-- There is no extension that knows its members. The script installs in a schema that has no other objects, and notes which ones it found when it began.
CREATE FUNCTION _idem_objects(OUT classid regclass, OUT objid oid, OUT is_new boolean) RETURNS SETOF record LANGUAGE sql STABLE AS $$
    SELECT o.classid, o.objid,
           NOT coalesce(format('%s:%s', o.classid::oid, o.objid) = ANY (string_to_array(current_setting('idem_portable.installed_before', true), ',')), true)
      FROM (SELECT tableoid::regclass AS classid, oid AS objid FROM pg_proc
             WHERE pronamespace = '@extschema@'::regnamespace AND proname ~ '@owned@'
            UNION ALL
            SELECT tableoid, oid FROM pg_class WHERE relnamespace = '@extschema@'::regnamespace AND relname ~ '@owned@'
            UNION ALL
            SELECT tableoid, oid FROM pg_type WHERE typnamespace = '@extschema@'::regnamespace AND typname ~ '@owned@') o
$$;
