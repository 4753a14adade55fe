-- Columns that hold the state of a machine: checks of their types and values.

-- A column that holds states: 42703, 42804.
CREATE FUNCTION _idem_state_column(target oid, state_column name, OUT number smallint, OUT type oid, OUT is_enum boolean) LANGUAGE plpgsql STABLE AS $$
DECLARE
    declared  oid;
    collation oid;
    named     name := (SELECT c.relname FROM pg_class c WHERE c.oid = target);
BEGIN
    SELECT a.attnum, a.atttypid INTO number, declared FROM pg_attribute a
     WHERE a.attrelid = target AND a.attname = state_column AND a.attnum > 0 AND NOT a.attisdropped;
    IF NOT FOUND THEN
        PERFORM _idem_row_no_column(state_column, named);
    END IF;
    type := (_idem_base_type(declared)).type;
    is_enum := (SELECT t.typtype = 'e' FROM pg_type t WHERE t.oid = type);
    IF NOT is_enum AND type NOT IN ('text'::regtype, 'varchar'::regtype) THEN
        RAISE datatype_mismatch USING MESSAGE = format('column "%s" of table "%s" cannot hold states', state_column, named),
            DETAIL = format('It is of type %s.', format_type(declared, NULL)), HINT = 'Use text, varchar, an enum, or a domain over one of them.',
            TABLE = named, COLUMN = state_column;
    END IF;
END
$$;

-- 0A000 when a guard could not guarantee the states: different values are equal, or the column is part of a partition key.
CREATE FUNCTION _idem_check_state_column(target oid, state_column name) RETURNS void LANGUAGE plpgsql STABLE AS $$
DECLARE
    named name;
BEGIN
    IF EXISTS (SELECT FROM pg_attribute a JOIN pg_collation l ON l.oid = a.attcollation
                WHERE a.attrelid = target AND a.attname = state_column AND NOT l.collisdeterministic) THEN
        named := (SELECT c.relname FROM pg_class c WHERE c.oid = target);
        RAISE feature_not_supported USING MESSAGE = format('column "%s" of table "%s" has a nondeterministic collation', state_column, named),
            DETAIL = 'Different states would be equal.', TABLE = named, COLUMN = state_column;
    END IF;
    -- The columns of a partition key depend on the table, also those in its expressions.
    SELECT c.relname INTO named
      FROM _idem_parts(target) AS p JOIN pg_class c ON c.oid = p.part JOIN pg_attribute a ON a.attrelid = p.part AND a.attname = state_column
           JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = p.part AND d.objsubid = a.attnum
                               AND d.refclassid = 'pg_class'::regclass AND d.refobjid = p.part AND d.refobjsubid = 0 AND d.deptype = 'i'
     WHERE p.kind = 'p' LIMIT 1;
    IF FOUND THEN
        RAISE feature_not_supported USING MESSAGE = format('column "%s" is part of the partition key of table "%s"', state_column, named),
            DETAIL = 'Every transition would move the row to another partition.', TABLE = named;
    END IF;
END
$$;

-- 22023 when the column's enum lacks a state.
CREATE FUNCTION _idem_check_labels(target oid, state_column name, machine text, states text[]) RETURNS void LANGUAGE plpgsql STABLE AS $$
DECLARE
    of_column CONSTANT record := _idem_state_column(target, state_column);
    lacking   text;
BEGIN
    IF of_column.is_enum THEN
        SELECT s.name INTO lacking FROM unnest(states) WITH ORDINALITY AS s (name, n)
         WHERE NOT EXISTS (SELECT FROM pg_enum e WHERE e.enumtypid = of_column.type AND e.enumlabel::text = s.name) ORDER BY s.n LIMIT 1;
        IF FOUND THEN
            PERFORM _idem_invalid(format('type %s lacks the state "%s" of state machine "%s"', format_type(of_column.type, NULL), lacking, machine),
                hint => 'Add it with ALTER TYPE ... ADD VALUE.');
        END IF;
    END IF;
END
$$;

-- 23514 when a row holds NULL or a value that is no state. The caller needs the privilege SELECT. Foreign partitions are not read.
-- REQUIRES: row_security is off, so that policies that would hide rows are an error.
CREATE FUNCTION _idem_check_rows(target oid, state_column name, machine text, states text[]) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    has_foreign CONSTANT boolean := EXISTS (SELECT FROM _idem_parts(target) AS p WHERE p.kind = 'f');
    part     record;
    unlisted record;
    unknown  text[] := '{}';
BEGIN
    FOR part IN SELECT p.part, p.kind FROM _idem_parts(target) AS p
                 WHERE CASE WHEN has_foreign THEN p.kind = 'r' ELSE p.part = target AND p.kind IN ('r', 'p') END LOOP
        FOR unlisted IN EXECUTE format('SELECT CASE WHEN t.%1$I IS NOT NULL THEN concat(t.%1$I) END AS state FROM %2$s%3$s AS t'
                                       ' WHERE t.%1$I IS NULL OR concat(t.%1$I) <> ALL ($1)',
                                       state_column, CASE part.kind WHEN 'r' THEN 'ONLY ' END, part.part::regclass) USING states LOOP
            IF array_position(unknown, unlisted.state) IS NULL THEN
                unknown := unknown || unlisted.state;
            END IF;
            EXIT WHEN cardinality(unknown) > 10;
        END LOOP;
    END LOOP;
    IF unknown <> '{}' THEN
        RAISE check_violation USING
            MESSAGE = format('table "%s" has rows whose state is not in state machine "%s"', (SELECT c.relname FROM pg_class c WHERE c.oid = target), machine),
            DETAIL = format('Column "%s" holds: %s%s.', state_column,
                            (SELECT string_agg(coalesce('"' || u.state || '"', 'null'), ', ' ORDER BY u.n)
                               FROM unnest(unknown) WITH ORDINALITY AS u (state, n) WHERE u.n <= 10),
                            CASE WHEN cardinality(unknown) > 10 THEN ' and others' END),
            TABLE = (SELECT c.relname FROM pg_class c WHERE c.oid = target), COLUMN = state_column;
    END IF;
END
$$;
