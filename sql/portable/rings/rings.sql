-- Rings need an index method of their own, which only a C library can give.
OMIT idem_filter_handler;
OMIT idem_filter;
OMIT idem_filter_ops;
OMIT idem_ring_registry;
OMIT idem_scope_places;
OMIT idem_ring_row_arrived;
OMIT idem_ring_adopt;
OMIT idem_ring_check;

-- Raises 0A000.
CREATE FUNCTION _idem_not_supported(what text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE feature_not_supported USING MESSAGE = format('the portable edition of idem has no %s', what),
        HINT = 'docs/portable.md lists what it cannot do.';
END
$$;

CREATE FUNCTION idem_ring_create LANGUAGE sql AS $$ SELECT _idem_not_supported('rings') $$;
CREATE FUNCTION idem_ring_drop LANGUAGE sql AS $$ SELECT _idem_not_supported('rings') $$;
CREATE FUNCTION idem_ring_rebuild_filter LANGUAGE sql AS $$ SELECT _idem_not_supported('rings') $$;
CREATE FUNCTION idem_ring_windows LANGUAGE sql AS $$
    SELECT NULL::text, NULL::interval, NULL::integer, NULL::integer, NULL::text, NULL::timestamptz, NULL::timestamptz, NULL::timestamptz, NULL::bigint,
           NULL::bigint, NULL::bigint, NULL::real WHERE false
$$;
CREATE FUNCTION idem_ring_filters LANGUAGE sql AS $$ SELECT NULL::text, NULL::boolean, NULL::bigint WHERE false $$;
