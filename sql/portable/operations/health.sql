-- There is no library, so there is nothing to compare.
CREATE FUNCTION idem_health_library LANGUAGE sql AS $$ SELECT NULL::text, NULL::boolean, NULL::text $$;
