-- The trigger that makes every UPDATE of a row increase its version by one.

-- The trigger that guards a table's version, as idem_guards sees it, and its column. What is recorded of a table whose rows are on workers has no trigger.
CREATE FUNCTION _idem_version_guard_of(target oid, OUT guard name, OUT guarded text) LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    SELECT t.tgname, convert_from(substr(t.tgargs, 1, octet_length(t.tgargs) - 1), getdatabaseencoding()) INTO guard, guarded
      FROM pg_trigger t
     WHERE t.tgrelid = target AND t.tgfoid = 'idem_version_guard'::regproc AND t.tgnargs = 1 AND t.tgqual IS NULL AND t.tgattr = ''
       AND t.tgtype & 83 = 19
     ORDER BY t.tgname COLLATE "C" LIMIT 1;
    IF NOT FOUND THEN
        SELECT g.column_name INTO guarded FROM _idem_citus_guards_of(target) AS g WHERE g.machine IS NULL LIMIT 1;
    END IF;
END
$$;

CREATE FUNCTION _idem_no_version_guard(relation name, name text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE object_not_in_prerequisite_state USING MESSAGE = format('table "%s" has no version guard', relation),
        HINT = format('Call optimistic_enable(%L) once.', name);
END
$$;

-- The lock that a change of the guard needs; 42501 before anything is locked.
CREATE FUNCTION _idem_row_guard_lock(target regclass, version_column name, function text)
RETURNS text LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    entry record;
    mode  text := 'ACCESS EXCLUSIVE';
    t     record;
BEGIN
    PERFORM _idem_require_writable(function);
    SELECT c.relname, c.relkind, c.relowner INTO entry FROM pg_class c WHERE c.oid = target;
    IF FOUND AND NOT pg_has_role(entry.relowner, 'USAGE') THEN
        RAISE insufficient_privilege USING
            MESSAGE = format('must be owner of %s %s',
                             CASE entry.relkind WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view' WHEN 'S' THEN 'sequence'
                                                WHEN 'f' THEN 'foreign table' WHEN 'i' THEN 'index' WHEN 'I' THEN 'index' ELSE 'table' END, entry.relname);
    END IF;
    t := _idem_row_table(target);
    IF EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = target AND a.attname = version_column AND NOT a.attisdropped) THEN
        mode := 'SHARE ROW EXCLUSIVE';
    END IF;
    RETURN format('LOCK TABLE ONLY %s IN %s MODE', t.name, mode);
END
$$;

CREATE FUNCTION _idem_row_guard_plan(target regclass, version_column name)
RETURNS text[] LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    t      record := _idem_row_table(target);
    held   record := _idem_version_guard_of(target);
    is_new boolean := NOT EXISTS (SELECT FROM pg_attribute a WHERE a.attrelid = target AND a.attname = version_column AND NOT a.attisdropped);
    guard  text;
    entry  record;
BEGIN
    IF held.guarded IS NOT NULL THEN
        IF held.guarded <> version_column::text THEN
            RAISE object_not_in_prerequisite_state
                USING MESSAGE = format('table "%s" already has a version guard on column "%s"', t.relation, held.guarded),
                HINT = format('Call optimistic_disable(%L) first.', t.name);
        END IF;
        RETURN '{}';
    END IF;
    IF NOT is_new THEN
        SELECT a.atttypid, a.attnotnull, a.attgenerated, a.attidentity INTO entry FROM pg_attribute a
         WHERE a.attrelid = target AND a.attnum = _idem_row_column(target, version_column);
        IF NOT FOUND THEN
            PERFORM _idem_row_no_column(version_column, t.relation);
        ELSIF entry.atttypid NOT IN ('smallint'::regtype, 'integer'::regtype, 'bigint'::regtype) THEN
            RAISE datatype_mismatch
                USING MESSAGE = format('column "%s" of table "%s" is of type %s', version_column, t.relation, format_type(entry.atttypid, NULL)),
                DETAIL = 'A version is a smallint, integer or bigint.';
        ELSIF entry.attgenerated <> '' OR entry.attidentity = 'a' THEN
            RAISE generated_always USING MESSAGE = format('column "%s" of table "%s" is always generated', version_column, t.relation);
        ELSIF NOT entry.attnotnull THEN
            RAISE object_not_in_prerequisite_state USING MESSAGE = format('column "%s" of table "%s" allows nulls', version_column, t.relation),
                HINT = format('Run ALTER TABLE %s ALTER COLUMN %I SET NOT NULL.', t.name, version_column);
        END IF;
    END IF;
    IF t.kind = 'r' AND EXISTS (SELECT FROM pg_inherits i WHERE i.inhparent = target) THEN
        RAISE WARNING USING MESSAGE = format('rows of the tables that inherit from "%s" are not guarded', t.relation),
            HINT = 'Call optimistic_enable for each of those tables, too.';
    END IF;
    IF _idem_is_on_workers(target) THEN
        RAISE WARNING 'versions of table "%" are compared by optimistic_update alone', t.relation
            USING DETAIL = 'Citus takes no triggers on a distributed table: UPDATE neither counts the version nor compares it.',
                  HINT = 'Change rows by optimistic_update, or by an UPDATE that compares the version and sets the next.';
        guard := _idem_citus_guard_statement(target, version_column, NULL, true);
    ELSE
        guard := format('CREATE TRIGGER zz_idem_version_guard BEFORE UPDATE ON %s FOR EACH ROW EXECUTE FUNCTION %s.idem_version_guard(%L)', t.name,
                        (SELECT p.pronamespace::regnamespace FROM pg_proc p WHERE p.oid = 'idem_version_guard'::regproc), version_column);
    END IF;
    RETURN CASE WHEN is_new THEN ARRAY[format('ALTER TABLE %s ADD COLUMN %I pg_catalog.int8 NOT NULL DEFAULT 1', t.name, version_column)]
                ELSE '{}' END || guard;
END
$$;

CREATE FUNCTION _idem_row_unguard_plan(target regclass) RETURNS text LANGUAGE plpgsql VOLATILE SET plan_cache_mode = force_generic_plan AS $$
DECLARE
    t    record := _idem_row_table(target);
    held record := _idem_version_guard_of(target);
BEGIN
    IF held.guarded IS NULL THEN
        PERFORM _idem_no_version_guard(t.relation, t.name);
    ELSIF held.guard IS NULL THEN
        RETURN _idem_citus_guard_statement(target, held.guarded, NULL, NULL);
    END IF;
    RETURN format('DROP TRIGGER %I ON %s', held.guard, t.name);
END
$$;

CREATE FUNCTION optimistic_enable LANGUAGE plpgsql UNPINNED AS $$
DECLARE
    statement pg_catalog.text;
BEGIN
    version_column := coalesce(version_column, 'version');
    EXECUTE @extschema@._idem_row_guard_lock(target, version_column, 'optimistic_enable()');
    FOREACH statement IN ARRAY @extschema@._idem_row_guard_plan(target, version_column) LOOP
        EXECUTE statement;
    END LOOP;
END
$$;

CREATE FUNCTION optimistic_disable LANGUAGE plpgsql UNPINNED AS $$
BEGIN
    EXECUTE @extschema@._idem_row_guard_lock(target, NULL, 'optimistic_disable()');
    EXECUTE @extschema@._idem_row_unguard_plan(target);
END
$$;

-- Fires for anybody who may update the table, so it calls nothing of idem's. PL/pgSQL knows fields by their names in its text, and compiles each
-- expression for one type: a column called version is read and set as a field, by an expression for each type that it may be altered to. A column
-- with another name needs a query, and a copy of the row, which also copies values that are stored out of line.
CREATE FUNCTION idem_version_guard LANGUAGE plpgsql UNPINNED AS $$
DECLARE
    is_field boolean := TG_ARGV[0] OPERATOR(pg_catalog.=) 'version';
    is_int8  boolean;
    is_int4  boolean;
    type     pg_catalog.oid;
    before   bigint;
    after    bigint;
    names    pg_catalog.text;
    fields   pg_catalog.text;
    row_name pg_catalog.text := '';
BEGIN
    IF TG_WHEN OPERATOR(pg_catalog.<>) 'BEFORE' OR TG_LEVEL OPERATOR(pg_catalog.<>) 'ROW' OR TG_OP OPERATOR(pg_catalog.<>) 'UPDATE'
       OR TG_NARGS OPERATOR(pg_catalog.<>) 1 THEN
        RAISE trigger_protocol_violated USING MESSAGE = 'function "idem_version_guard" is the trigger that optimistic_enable makes';
    END IF;
    type := (SELECT a.atttypid FROM pg_catalog.pg_attribute a
              WHERE a.attrelid OPERATOR(pg_catalog.=) TG_RELID AND a.attname OPERATOR(pg_catalog.=) TG_ARGV[0]::pg_catalog.name
                AND a.attnum OPERATOR(pg_catalog.>) 0);
    is_int8 := type OPERATOR(pg_catalog.=) 20::pg_catalog.oid;
    is_int4 := type OPERATOR(pg_catalog.=) 23::pg_catalog.oid;
    IF type IS NULL THEN
        RAISE undefined_column USING
            MESSAGE = pg_catalog.format('version column "%s" of table "%s" does not exist', TG_ARGV[0], TG_TABLE_NAME),
            HINT = 'After renaming it, call optimistic_disable and optimistic_enable.';
    ELSIF NOT is_int8 AND NOT is_int4 AND type OPERATOR(pg_catalog.<>) 21::pg_catalog.oid THEN
        RAISE datatype_mismatch USING
            MESSAGE = pg_catalog.format('column "%s" of table "%s" is of type %s', TG_ARGV[0], TG_TABLE_NAME, pg_catalog.format_type(type, NULL)),
            DETAIL = 'A version is a smallint, integer or bigint.';
    ELSIF NOT is_field THEN
        EXECUTE pg_catalog.format('SELECT ($1).%1$I, ($2).%1$I', TG_ARGV[0]) INTO before, after USING OLD, NEW;
    ELSIF is_int8 THEN
        before := OLD.version;
        after := NEW.version;
    ELSIF is_int4 THEN
        before := OLD.version;
        after := NEW.version;
    ELSE
        before := OLD.version;
        after := NEW.version;
    END IF;
    IF after OPERATOR(pg_catalog.=) before THEN
        IF before OPERATOR(pg_catalog.=) (CASE WHEN is_int8 THEN 9223372036854775807 WHEN is_int4 THEN 2147483647 ELSE 32767 END) THEN
            RAISE numeric_value_out_of_range USING
                MESSAGE = pg_catalog.format('version column "%s" of table "%s" is at its maximum', TG_ARGV[0], TG_TABLE_NAME);
        ELSIF is_field THEN
            NEW.version := before OPERATOR(pg_catalog.+) 1;
        ELSE
            NEW := pg_catalog.jsonb_populate_record(NEW, pg_catalog.jsonb_build_object(TG_ARGV[0], before OPERATOR(pg_catalog.+) 1));
        END IF;
    ELSIF before IS NULL THEN
        RAISE object_not_in_prerequisite_state USING
            MESSAGE = pg_catalog.format('column "%s" of table "%s" allows nulls', TG_ARGV[0], TG_TABLE_NAME),
            HINT = pg_catalog.format('Run ALTER TABLE %I.%I ALTER COLUMN %I SET NOT NULL.', TG_TABLE_SCHEMA, TG_TABLE_NAME, TG_ARGV[0]);
    ELSIF after IS NULL OR before OPERATOR(pg_catalog.=) 9223372036854775807 OR after OPERATOR(pg_catalog.<>) (before OPERATOR(pg_catalog.+) 1) THEN
        -- As _idem_row_name. Output functions run with the rights of the caller here.
        SELECT pg_catalog.string_agg(pg_catalog.quote_ident(a.attname), ', ' ORDER BY k.n), pg_catalog.string_agg(pg_catalog.format('($1).%I', a.attname), ', ' ORDER BY k.n)
          INTO names, fields
          FROM (SELECT x.indkey::pg_catalog.int2[] AS numbers, x.indnkeyatts FROM pg_catalog.pg_index x
                 WHERE x.indrelid OPERATOR(pg_catalog.=) TG_RELID AND x.indisunique AND x.indisvalid AND x.indisready AND x.indislive AND x.indimmediate
                   AND x.indpred IS NULL AND x.indexprs IS NULL AND NOT x.indisexclusion
                   AND NOT EXISTS (SELECT FROM pg_catalog.pg_attribute a
                                    WHERE a.attrelid OPERATOR(pg_catalog.=) TG_RELID AND NOT a.attnotnull
                                      AND a.attnum OPERATOR(pg_catalog.=) ANY ((x.indkey::pg_catalog.int2[])[0:x.indnkeyatts OPERATOR(pg_catalog.-) 1]))
                 ORDER BY x.indisprimary DESC, x.indexrelid LIMIT 1) x,
               pg_catalog.unnest(x.numbers[0:x.indnkeyatts OPERATOR(pg_catalog.-) 1]) WITH ORDINALITY AS k (number, n)
          JOIN pg_catalog.pg_attribute a ON a.attrelid OPERATOR(pg_catalog.=) TG_RELID AND a.attnum OPERATOR(pg_catalog.=) k.number
          JOIN pg_catalog.pg_type y ON y.oid OPERATOR(pg_catalog.=) a.atttypid
         WHERE (y.oid OPERATOR(pg_catalog.<) 16384::pg_catalog.oid OR y.typtype OPERATOR(pg_catalog.=) 'e')
           AND pg_catalog.has_column_privilege(TG_RELID, a.attnum, 'SELECT') AND NOT pg_catalog.row_security_active(TG_RELID);
        IF names IS NOT NULL THEN
            EXECUTE pg_catalog.format('SELECT pg_catalog.concat_ws('', '', %s)', fields) INTO fields USING OLD;
            row_name := pg_catalog.format(' The row has the key (%s)=(%s).', names, fields);
        END IF;
        RAISE SQLSTATE 'ID004' USING
            MESSAGE = pg_catalog.format('stale version of a row of table "%s"', TG_TABLE_NAME),
            DETAIL = pg_catalog.format('The row has version %s; the update sets it to %s.', before, coalesce(after::pg_catalog.text, 'null'))
                     OPERATOR(pg_catalog.||) row_name,
            HINT = 'Read the row again, and repeat the change on what it holds now.';
    END IF;
    RETURN NEW;
END
$$;
