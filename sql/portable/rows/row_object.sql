-- JSON objects with columns of a row: what they name, and their values as expressions.

CREATE FUNCTION _idem_row_object(object jsonb, argument text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF object IS NULL THEN
        PERFORM _idem_null(argument);
    ELSIF jsonb_typeof(object) <> 'object' THEN
        PERFORM _idem_invalid(argument || ' must be a JSON object', hint => 'Give column names and values, such as ''{"id": 7}''.');
    END IF;
END
$$;

-- 42703 for the first member of these objects that is no column.
CREATE FUNCTION _idem_row_members(target oid, relation name, VARIADIC objects jsonb[]) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    unknown text;
BEGIN
    SELECT m.name INTO unknown
      FROM unnest(objects) WITH ORDINALITY AS o (object, n) CROSS JOIN LATERAL jsonb_object_keys(o.object) WITH ORDINALITY AS m (name, n)
     WHERE NOT EXISTS (SELECT FROM pg_attribute a
                        WHERE a.attrelid = target AND a.attname = m.name::name AND a.attname::text = m.name AND a.attnum > 0 AND NOT a.attisdropped)
     ORDER BY o.n, m.n LIMIT 1;
    IF FOUND THEN
        PERFORM _idem_row_no_column(unknown, relation);
    END IF;
END
$$;

-- The columns of an object, by number.
CREATE FUNCTION _idem_row_numbers(target oid, object jsonb) RETURNS smallint[] LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN ARRAY(SELECT a.attnum FROM jsonb_object_keys(object) WITH ORDINALITY AS m (name, n)
                   JOIN pg_attribute a ON a.attrelid = target AND a.attname = m.name::name AND a.attname::text = m.name AND a.attnum > 0
                                      AND NOT a.attisdropped ORDER BY m.n);
END
$$;

-- A type's name that means the same under every search_path.
CREATE FUNCTION _idem_type_name(type oid, typmod integer) RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT CASE WHEN typmod = -1 THEN format('%I.%I', n.nspname, y.typname)
                        WHEN y.oid IN ('interval'::regtype, 'interval[]'::regtype) THEN format_type(y.oid, typmod)
                        ELSE format('%I.%I', n.nspname, y.typname)
                             || coalesce(substring(format_type(y.oid, typmod) FROM '(\([^()]*\))(?: with(?:out)? time zone)?(?:\[\])*$'), '') END
              FROM pg_type y JOIN pg_namespace n ON n.oid = y.typnamespace WHERE y.oid = type);
END
$$;

-- The type that domains are over, and its modifier.
CREATE FUNCTION _idem_base_type(INOUT type oid, INOUT typmod integer DEFAULT -1) LANGUAGE plpgsql STABLE AS $$
DECLARE
    below record;
BEGIN
    LOOP
        SELECT y.typbasetype, y.typtypmod INTO below FROM pg_type y WHERE y.oid = type AND y.typtype = 'd';
        EXIT WHEN NOT FOUND;
        type := below.typbasetype;
        typmod := below.typtypmod;
    END LOOP;
END
$$;

CREATE FUNCTION _idem_collation_name(coll oid) RETURNS text LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN (SELECT format('%I.%I', n.nspname, c.collname) FROM pg_collation c JOIN pg_namespace n ON n.oid = c.collnamespace WHERE c.oid = coll);
END
$$;

-- The columns that an object names, in its order, each with its value as an expression of the column's type. Values are those that
-- jsonb_populate_record would make: a literal where the type's input function alone decides, else jsonb_to_record does the work. is_compared: the
-- value is not assigned, so nothing else applies the type's modifier. operand: a cast of both operands, as polymorphic operators take no domains.
-- coll: the column's collation, if it is not its type's.
CREATE FUNCTION _idem_row_values(target oid, object jsonb, parameter text, is_compared boolean,
                                 OUT n bigint, OUT number smallint, OUT name text, OUT value text, OUT operand text, OUT coll text,
                                 OUT own_coll oid, OUT is_literal boolean, OUT is_null boolean, OUT is_row boolean)
RETURNS SETOF record LANGUAGE sql STABLE AS $$
    SELECT m.n, a.attnum, quote_ident(a.attname),
           CASE WHEN l.is_literal
                THEN format('%L::%I.%I', CASE WHEN m.element = 'null' THEN NULL WHEN y.oid IN ('json'::regtype, 'jsonb'::regtype) THEN m.element::text
                                              ELSE m.element #>> '{}' END, s.nspname, y.typname)
                ELSE format('(SELECT r.%1$I FROM pg_catalog.jsonb_to_record(%2$s) AS r (%1$I %3$s))', a.attname, parameter,
                            _idem_type_name(y.oid, a.atttypmod)) END,
           CASE WHEN y.typtype = 'd' THEN '::' || _idem_type_name((_idem_base_type(y.oid)).type, -1) ELSE '' END,
           CASE WHEN a.attcollation <> y.typcollation THEN ' COLLATE ' || _idem_collation_name(a.attcollation) ELSE '' END,
           a.attcollation, l.is_literal, m.element = 'null',
           CASE y.typtype WHEN 'd' THEN (SELECT b.typtype = 'c' FROM pg_type b WHERE b.oid = (_idem_base_type(y.oid)).type) ELSE y.typtype = 'c' END
      FROM jsonb_each(object) WITH ORDINALITY AS m (name, element, n)
      JOIN pg_attribute a ON a.attrelid = target AND a.attname = m.name::name AND a.attname::text = m.name AND a.attnum > 0 AND NOT a.attisdropped
      JOIN pg_type y ON y.oid = a.atttypid
      JOIN pg_namespace s ON s.oid = y.typnamespace
     CROSS JOIN LATERAL (SELECT y.typtype IN ('b', 'e', 'r', 'm') AND y.typcategory <> 'A'
                                AND (a.atttypmod = -1
                                     OR y.oid IN ('varchar'::regtype, 'bpchar'::regtype) AND octet_length(m.element #>> '{}') <= a.atttypmod - 4
                                     OR NOT is_compared AND s.nspname = 'pg_catalog' AND y.oid NOT IN ('bit'::regtype, 'varbit'::regtype))
                                AND (jsonb_typeof(m.element) NOT IN ('object', 'array') OR y.oid IN ('json'::regtype, 'jsonb'::regtype)))
                       AS l (is_literal)
$$;
