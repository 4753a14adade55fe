-- Counters would need shared memory.
CREATE FUNCTION idem_stats_counters LANGUAGE sql AS $$
    SELECT NULL::text, NULL::boolean, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint, NULL::bigint WHERE false
$$;
CREATE FUNCTION idem_stats_reset LANGUAGE sql AS $$ SELECT _idem_not_supported('statistics') $$;
