-- There is no extension that knows its members. The script installs in a schema that has no other objects, and notes which ones it found when it began.
CREATE FUNCTION idem_objects LANGUAGE sql STABLE PARALLEL SAFE ROWS 150 AS $$
    SELECT o.classid, o.objid,
           NOT coalesce(format('%s:%s', o.classid::oid, o.objid) = ANY (string_to_array(current_setting('idem_portable.installed_before', true), ',')), true),
           o.is_inner
      FROM (SELECT tableoid::regclass AS classid, oid AS objid, proname = ANY ('@inner@'::text[]) AS is_inner FROM pg_proc
             WHERE pronamespace = '@extschema@'::regnamespace AND proname ~ '@owned@'
            UNION ALL
            SELECT tableoid, oid, false FROM pg_class WHERE relnamespace = '@extschema@'::regnamespace AND relname ~ '@owned@'
            UNION ALL
            SELECT tableoid, oid, false FROM pg_type WHERE typnamespace = '@extschema@'::regnamespace AND typname ~ '@owned@') o
$$;
