-- Rings: keys in windows, by the time of their claim. The cost of a claim does not grow with the number of keys, and removing
-- expired keys costs nothing. extension/src/storage/ring.hpp describes the storage.

CREATE FUNCTION idem_filter_handler(internal) RETURNS index_am_handler LANGUAGE c STRICT AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_filter_handler(internal) IS 'Internal: the handler of the access method idem_filter.';
CREATE ACCESS METHOD idem_filter TYPE INDEX HANDLER idem_filter_handler;
COMMENT ON ACCESS METHOD idem_filter IS 'The Bloom filter of a ring, as an index on its map. Queries cannot use it; REINDEX empties it, and the next sweep fills it again.';
CREATE OPERATOR CLASS idem_filter_ops DEFAULT FOR TYPE smallint USING idem_filter AS STORAGE smallint;

CREATE TABLE idem_ring_registry (
    id        integer  PRIMARY KEY,
    ring      text COLLATE "C" NOT NULL UNIQUE,
    retention interval NOT NULL
);
COMMENT ON TABLE idem_ring_registry IS 'The rings. The windows of a ring are the tables idem_ring_<id>_<number>; the table idem_ring_<id> has the state of each. Change it only by the functions.';
COMMENT ON COLUMN idem_ring_registry.id IS 'The id in the names of the ring''s tables.';
COMMENT ON COLUMN idem_ring_registry.ring IS 'The name of the ring.';
COMMENT ON COLUMN idem_ring_registry.retention IS 'How long a key is retained, from its claim on.';
SELECT pg_catalog.pg_extension_config_dump('idem_ring_registry', '');

CREATE TABLE idem_scope_places (
    scope      text COLLATE "C" NOT NULL,
    ring       integer NOT NULL,
    is_current boolean NOT NULL,
    through    bigint,
    PRIMARY KEY (scope, ring)
);
COMMENT ON TABLE idem_scope_places IS 'The places of the keys of each scope that lives in a ring, or has left one. A scope without rows has all of its keys in idem_keys itself. Change it only by the functions.';
COMMENT ON COLUMN idem_scope_places.scope IS 'The scope.';
COMMENT ON COLUMN idem_scope_places.ring IS 'The id of a ring; 0: idem_keys itself.';
COMMENT ON COLUMN idem_scope_places.is_current IS 'Whether new keys go to this place. If not, the place may still have older ones, until the sweeper removes the row.';
COMMENT ON COLUMN idem_scope_places.through IS 'The last generation of windows that may have keys of the scope; only for a ring that the scope has left.';
SELECT pg_catalog.pg_extension_config_dump('idem_scope_places', '');

CREATE TRIGGER idem_definitions_changed AFTER INSERT OR UPDATE OR DELETE ON idem_ring_registry
    FOR EACH ROW EXECUTE FUNCTION idem_definitions_changed();
CREATE TRIGGER idem_definitions_truncated AFTER TRUNCATE ON idem_ring_registry
    FOR EACH STATEMENT EXECUTE FUNCTION idem_definitions_changed();
ALTER TABLE idem_ring_registry ENABLE ALWAYS TRIGGER idem_definitions_changed, ENABLE ALWAYS TRIGGER idem_definitions_truncated;
COMMENT ON TRIGGER idem_definitions_changed ON idem_ring_registry IS 'Makes every session read the table again.';
COMMENT ON TRIGGER idem_definitions_truncated ON idem_ring_registry IS 'Makes every session read the table again.';
CREATE TRIGGER idem_definitions_changed AFTER INSERT OR UPDATE OR DELETE ON idem_scope_places
    FOR EACH ROW EXECUTE FUNCTION idem_definitions_changed();
CREATE TRIGGER idem_definitions_truncated AFTER TRUNCATE ON idem_scope_places
    FOR EACH STATEMENT EXECUTE FUNCTION idem_definitions_changed();
ALTER TABLE idem_scope_places ENABLE ALWAYS TRIGGER idem_definitions_changed, ENABLE ALWAYS TRIGGER idem_definitions_truncated;
COMMENT ON TRIGGER idem_definitions_changed ON idem_scope_places IS 'Makes every session read the table again.';
COMMENT ON TRIGGER idem_definitions_truncated ON idem_scope_places IS 'Makes every session read the table again.';

CREATE FUNCTION idem_ring_row_arrived() RETURNS trigger LANGUAGE c AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_ring_row_arrived() IS
'Internal: a trigger on the windows of rings. A row that does not come from a claim (COPY, logical replication, INSERT) is not in the filter. From then on, claims look for every key in that window, until the next sweep has filled the filter again.';

CREATE FUNCTION idem_ring_adopt(ring_id integer) RETURNS void LANGUAGE c VOLATILE STRICT PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_ring_adopt(integer) IS
'Internal: makes the ring''s tables depend on the extension, so that DROP EXTENSION drops them. A dump loses that dependency; the sweeper calls the function again.';

CREATE FUNCTION idem_ring_check() RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_ring_check() IS 'Internal: raises 55000 unless the tables that rings need are those of the installation.';

CREATE FUNCTION idem_ring_create(ring text, retention interval, windows integer DEFAULT 8)
RETURNS void LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp SET default_tablespace = '' SET default_table_access_method = heap AS $$
DECLARE
    home    pg_catalog.text := (SELECT extnamespace::regnamespace FROM pg_extension WHERE extname = 'idem');
    id      integer;
    map     pg_catalog.text;
    created pg_catalog.regclass;
    grantee pg_catalog.record;
BEGIN
    IF ring IS NULL THEN
        RAISE EXCEPTION 'ring must not be null' USING ERRCODE = 'null_value_not_allowed';
    ELSIF octet_length(ring) NOT BETWEEN 1 AND 255 THEN
        RAISE EXCEPTION 'ring must have 1 to 255 bytes' USING ERRCODE = 'invalid_parameter_value';
    ELSIF retention IS NULL THEN
        RAISE EXCEPTION 'retention must not be null' USING ERRCODE = 'null_value_not_allowed';
    ELSIF NOT isfinite(retention) OR retention <= interval '0' THEN
        RAISE EXCEPTION 'retention must be positive and finite' USING ERRCODE = 'invalid_parameter_value';
    ELSIF coalesce(windows, 8) NOT BETWEEN 3 AND 32 THEN
        RAISE EXCEPTION 'windows must be from 3 to 32' USING ERRCODE = 'invalid_parameter_value';
    END IF;
    PERFORM clock_timestamp() + retention; -- raises 22008 beyond the range of timestamps
    EXECUTE format('SELECT %s.idem_ring_check()', home);
    EXECUTE format('LOCK TABLE ONLY %s.idem_ring_registry IN SHARE ROW EXCLUSIVE MODE', home);
    -- Where the snapshot is older than a ring, or than the drop of one, the two statements raise 40001.
    EXECUTE format('SELECT r.id FROM ONLY %s.idem_ring_registry r WHERE r.ring = $1 FOR KEY SHARE', home) INTO id USING ring;
    IF id IS NOT NULL THEN
        RAISE EXCEPTION 'ring "%" already exists', ring USING ERRCODE = 'duplicate_object';
    END IF;
    EXECUTE format('INSERT INTO %1$s.idem_ring_registry OVERRIDING SYSTEM VALUE SELECT coalesce(max(r.id), 0) + 1, $1, $2 FROM ONLY %1$s.idem_ring_registry r ON CONFLICT DO NOTHING RETURNING id', home)
        INTO id USING ring, retention;
    map := format('%s.idem_ring_%s', home, id);
    EXECUTE format('CREATE TABLE %s (number smallint PRIMARY KEY, state text NOT NULL CHECK (state IN (''empty'', ''open'', ''sealed'', ''expired'')), '
                   'opened_at timestamptz, closed_at timestamptz, until timestamptz, generation bigint NOT NULL)', map);
    EXECUTE format('COMMENT ON TABLE %s IS %L', map,
                   format('The windows of ring "%s" of extension idem. Change it only by the extension''s functions; read the view idem_rings.', ring));
    EXECUTE format('CREATE TRIGGER idem_definitions_changed AFTER INSERT OR UPDATE OR DELETE ON %s FOR EACH ROW EXECUTE FUNCTION %s.idem_definitions_changed()', map, home);
    EXECUTE format('CREATE TRIGGER idem_definitions_truncated AFTER TRUNCATE ON %s FOR EACH STATEMENT EXECUTE FUNCTION %s.idem_definitions_changed()', map, home);
    EXECUTE format('ALTER TABLE %s ENABLE ALWAYS TRIGGER idem_definitions_changed, ENABLE ALWAYS TRIGGER idem_definitions_truncated', map);
    EXECUTE format('INSERT INTO %s SELECT n, CASE n WHEN 0 THEN ''open'' ELSE ''empty'' END, CASE n WHEN 0 THEN clock_timestamp() END, NULL, NULL, '
                   'CASE n WHEN 0 THEN 1 ELSE 0 END FROM generate_series(0, $1 - 1) n', map) USING coalesce(windows, 8);
    EXECUTE format('CREATE INDEX idem_ring_%s_filter ON %s USING idem_filter (number)', id, map);
    FOR number IN 0 .. coalesce(windows, 8) - 1 LOOP
        EXECUTE format('CREATE TABLE %1$s_%2$s (PRIMARY KEY (scope, key)) INHERITS (%3$s.idem_keys) '
                       'WITH (fillfactor = 85, autovacuum_vacuum_insert_scale_factor = 0.1)', map, number, home);
        EXECUTE format('CREATE TRIGGER idem_ring_row_arrived BEFORE INSERT OR UPDATE OF scope, key, expires_at ON %s_%s FOR EACH ROW '
                       'EXECUTE FUNCTION %s.idem_ring_row_arrived()', map, number, home);
        EXECUTE format('ALTER TABLE %s_%s ENABLE ALWAYS TRIGGER idem_ring_row_arrived', map, number);
        EXECUTE format('COMMENT ON TABLE %s_%s IS %L', map, number,
                       format('A window of ring "%s" of extension idem, a part of idem_keys. Change it only by the extension''s functions.', ring));
    END LOOP;
    -- Revoke what ALTER DEFAULT PRIVILEGES granted.
    FOR created IN SELECT oid FROM pg_class WHERE relkind = 'r' AND (oid = map::regclass OR oid IN (SELECT to_regclass(map || '_' || n) FROM generate_series(0, 31) n)) LOOP
        FOR grantee IN SELECT DISTINCT a.grantee AS role FROM pg_class c, aclexplode(c.relacl) a WHERE c.oid = created AND a.grantee <> c.relowner LOOP
            EXECUTE format('REVOKE ALL ON %s FROM %s', created, CASE grantee.role WHEN 0 THEN 'PUBLIC' ELSE grantee.role::regrole::text END);
        END LOOP;
    END LOOP;
    EXECUTE format('SELECT %s.idem_ring_adopt($1)', home) USING id;
END
$$;
COMMENT ON FUNCTION idem_ring_create(text, interval, integer) IS
'Creates a ring: storage for keys that all have the same retention. A claim costs nearly the same however many keys the ring has, and expired keys are removed by whole windows. windows: how many tables share the retention, 3 to 32; NULL: 8. One window takes new keys, for retention / (windows - 2); the others keep the keys that came before. Then call idem_scope_set(scope, ring => ring). The sweeper opens and empties the windows. Operators.
Errors: 22004 ring or retention is null; 22023 ring not of 1 to 255 bytes, retention not positive, windows not from 3 to 32; 22008 retention beyond the range of timestamps; 40001 a ring was created or dropped after the transaction''s snapshot; 42710 the ring exists.';

CREATE FUNCTION idem_ring_drop(ring text)
RETURNS void LANGUAGE plpgsql VOLATILE PARALLEL UNSAFE SECURITY DEFINER
SET search_path = pg_catalog, pg_temp AS $$
DECLARE
    home   pg_catalog.text := (SELECT extnamespace::regnamespace FROM pg_extension WHERE extname = 'idem');
    id     integer;
    map     pg_catalog.text;
    numbers integer[];
    scope   pg_catalog.text;
    number  integer;
    live    boolean;
BEGIN
    IF ring IS NULL THEN
        RAISE EXCEPTION 'ring must not be null' USING ERRCODE = 'null_value_not_allowed';
    ELSIF current_setting('transaction_isolation') NOT IN ('read committed', 'read uncommitted') THEN
        -- An older snapshot may not see the scopes that use the ring by now.
        RAISE EXCEPTION 'idem_ring_drop() needs the isolation level READ COMMITTED' USING ERRCODE = 'invalid_transaction_state';
    END IF;
    EXECUTE format('SELECT %s.idem_ring_check()', home);
    EXECUTE format('LOCK TABLE ONLY %s.idem_ring_registry IN SHARE ROW EXCLUSIVE MODE', home);
    EXECUTE format('LOCK TABLE ONLY %s.idem_keys IN SHARE MODE', home);
    EXECUTE format('LOCK TABLE ONLY %s.idem_scope_places IN SHARE ROW EXCLUSIVE MODE', home);
    EXECUTE format('SELECT r.id FROM ONLY %s.idem_ring_registry r WHERE r.ring = $1', home) INTO id USING ring;
    IF id IS NULL THEN
        RAISE EXCEPTION 'ring "%" does not exist', ring USING ERRCODE = 'undefined_object';
    END IF;
    map := format('%s.idem_ring_%s', home, id);
    IF to_regclass(map) IS NOT NULL THEN
        EXECUTE format('LOCK TABLE ONLY %s IN ACCESS EXCLUSIVE MODE', map);
        EXECUTE format('SELECT array_agg(w.number ORDER BY w.number) FROM ONLY %s w WHERE w.state IN (''open'', ''sealed'')', map) INTO numbers;
    END IF;
    IF numbers IS NOT NULL THEN
        EXECUTE format('SELECT p.scope FROM ONLY %s.idem_scope_places p WHERE p.ring = $1 AND p.is_current ORDER BY p.scope LIMIT 1', home) INTO scope USING id;
        IF scope IS NOT NULL THEN
            RAISE EXCEPTION 'ring "%" is in use', ring USING ERRCODE = 'object_in_use', DETAIL = format('Scope "%s" lives in it.', scope),
                HINT = format('Take it out first: SELECT idem_scope_reset(%L, ''ring'').', scope);
        END IF;
    END IF;
    -- No scope can be taken out while the map is missing or empty, as after the restore of a schema without its data: any window may have keys,
    -- and the drop takes the scopes out.
    FOREACH number IN ARRAY coalesce(numbers, ARRAY(SELECT generate_series(0, 31))) LOOP
        CONTINUE WHEN to_regclass(format('%s_%s', map, number)) IS NULL;
        EXECUTE format('SELECT EXISTS (SELECT FROM ONLY %s_%s k WHERE k.expires_at > clock_timestamp())', map, number) INTO live;
        IF live THEN
            RAISE EXCEPTION 'ring "%" is in use', ring USING ERRCODE = 'object_in_use', DETAIL = 'It holds keys that have not expired.',
                HINT = 'Wait for the end of their retention.';
        END IF;
    END LOOP;
    EXECUTE format('INSERT INTO %1$s.idem_scope_places AS o (scope, ring, is_current) SELECT p.scope, 0, true FROM ONLY %1$s.idem_scope_places p '
                   'WHERE p.ring = $1 AND p.is_current ON CONFLICT (scope, ring) DO UPDATE SET is_current = true', home) USING id;
    EXECUTE format('DELETE FROM ONLY %s.idem_scope_places p WHERE p.ring = $1', home) USING id;
    -- A scope that has all of its keys in idem_keys again needs no row.
    EXECUTE format('DELETE FROM ONLY %1$s.idem_scope_places p WHERE p.ring = 0 AND NOT EXISTS '
                   '(SELECT FROM ONLY %1$s.idem_scope_places o WHERE o.scope = p.scope AND o.ring <> 0)', home);
    FOR number IN 0 .. 31 LOOP
        IF to_regclass(format('%s_%s', map, number)) IS NOT NULL THEN
            EXECUTE format('DROP TABLE %s_%s', map, number);
        END IF;
    END LOOP;
    IF to_regclass(map) IS NOT NULL THEN
        EXECUTE format('DROP TABLE %s', map);
    END IF;
    EXECUTE format('DELETE FROM ONLY %s.idem_ring_registry r WHERE r.id = $1', home) USING id;
END
$$;
COMMENT ON FUNCTION idem_ring_drop(text) IS
'Drops a ring that no scope lives in and that holds no live key. Scopes that live in a ring without a map, or with an empty one, have their keys in idem_keys from then on. Waits for transactions that have claimed keys of any scope. Operators.
Errors: 22004 ring is null; 25000 the transaction is REPEATABLE READ or SERIALIZABLE; 42704 there is no such ring; 55006 a scope lives in it, or it holds live keys.';

CREATE FUNCTION idem_ring_rebuild_filter(ring text) RETURNS void LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_ring_rebuild_filter(text) IS
'Fills the ring''s filter again from the keys in its sealed windows. A damaged filter is emptied, and the next sweep fills it. Needed after rows have come into a window other than by a claim while the window''s trigger was disabled. Operators.
Errors: 22004 ring is null; 42704 there is no such ring; 55P03 another session is changing the ring; 25006 in a read-only transaction.';

CREATE FUNCTION idem_ring_windows(OUT ring text, OUT retention interval, OUT windows integer, OUT number integer, OUT state text, OUT opened_at timestamptz,
                                  OUT closed_at timestamptz, OUT until timestamptz, OUT keys bigint, OUT bytes bigint, OUT filter_bytes bigint,
                                  OUT false_positives real)
RETURNS SETOF record LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_ring_windows() IS 'Internal: the rows of the view idem_rings. Operators.';

CREATE FUNCTION idem_ring_filters(OUT ring text, OUT is_missing boolean, OUT damaged_pages bigint)
RETURNS SETOF record LANGUAGE c VOLATILE PARALLEL UNSAFE AS 'MODULE_PATHNAME';
COMMENT ON FUNCTION idem_ring_filters() IS 'Internal, for idem_health: for each ring, whether its filter is missing, and how many of the filter''s pages are damaged. Reads the whole filter.';

CREATE VIEW idem_rings AS
    SELECT w.ring, w.retention, w.windows, w.number, w.state, w.opened_at, w.closed_at, w.until, w.keys, w.bytes, w.filter_bytes, w.false_positives
      FROM idem_ring_windows() w;
COMMENT ON VIEW idem_rings IS 'The windows of each ring. Operators.';
COMMENT ON COLUMN idem_rings.ring IS 'The ring.';
COMMENT ON COLUMN idem_rings.retention IS 'How long its keys are retained, from their claim on.';
COMMENT ON COLUMN idem_rings.windows IS 'Number of windows of the ring.';
COMMENT ON COLUMN idem_rings.number IS 'Number of this window, from 0.';
COMMENT ON COLUMN idem_rings.state IS 'open: takes new keys; sealed: claims look for keys in it; expired: waits to be emptied; empty.';
COMMENT ON COLUMN idem_rings.opened_at IS 'When the window was last opened.';
COMMENT ON COLUMN idem_rings.closed_at IS 'When the window was closed; NULL: it was not.';
COMMENT ON COLUMN idem_rings.until IS 'When the retention of the window''s last key ends; NULL: not known, or none.';
COMMENT ON COLUMN idem_rings.keys IS 'Number of keys in the window: counted when the filter was filled, else estimated from the window''s size.';
COMMENT ON COLUMN idem_rings.bytes IS 'The size of the window''s table and its index.';
COMMENT ON COLUMN idem_rings.filter_bytes IS 'The size of the ring''s filter, which all windows share.';
COMMENT ON COLUMN idem_rings.false_positives IS 'Of the keys that are not in the window, the share that may be there according to the filter, measured when it was filled. NULL: the filter does not cover the window, so claims search its index.';
