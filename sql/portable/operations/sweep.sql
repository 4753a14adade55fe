-- A procedure that commits can have no settings of its own: it runs with the caller's rights and search_path, and calls a function for each batch.

-- What the arguments and settings come to. refusal: the error of a COMMIT in an exception block of the caller. If it is that of a COMMIT in a function, the
-- caller can commit nowhere. If it is another, only the exception block kept it from committing.
CREATE FUNCTION _idem_sweep_begin(batch integer, pause interval, refusal text, OUT rows integer, OUT seconds float8, OUT tables text[])
LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
DECLARE
    span  interval := _idem_span(coalesce(pause, interval '0'), 'pause');
    start timestamptz := pg_postmaster_start_time() + CASE WHEN current_setting('idem.sweep_start_delay', true) <> ''
                                                           THEN _idem_span_setting('sweep_start_delay', 's') ELSE interval '0' END;
BEGIN
    rows := coalesce(batch, 10000);
    IF rows <= 0 THEN
        PERFORM _idem_invalid('batch must be positive');
    ELSIF span < interval '0' THEN
        PERFORM _idem_invalid('pause must not be negative');
    END IF;
    PERFORM _idem_deadline(clock_timestamp(), span, 'pause');
    BEGIN
        COMMIT;
    EXCEPTION WHEN invalid_transaction_termination THEN
        IF SQLERRM = refusal THEN
            RAISE invalid_transaction_termination USING MESSAGE = 'idem_sweep() cannot run inside a transaction block',
                DETAIL = 'It commits after each batch.',
                HINT = 'Send CALL idem_sweep() as a statement of its own, outside of BEGIN … COMMIT, pipelines, functions and exception blocks.';
        END IF;
    END;
    PERFORM _idem_require_writable('idem_sweep()');
    seconds := extract(epoch FROM span);
    tables := '{idem_keys,idem_tokens,idem_locks,idem_rates,idem_counters}';
    IF start > clock_timestamp() THEN
        RAISE NOTICE USING MESSAGE = format('nothing is swept before %s', start),
            DETAIL = format('The server started at %s, and idem.sweep_start_delay is not over.', pg_postmaster_start_time()),
            HINT = 'To sweep all the same: SET idem.sweep_start_delay = 0.';
        tables := '{}';
    END IF;
    DELETE FROM ONLY _idem_replaced_keys r WHERE r.ctid = ANY (ARRAY(SELECT o.ctid FROM ONLY _idem_replaced_keys o FOR UPDATE SKIP LOCKED));
END
$$;

-- Whether a row is due, as a condition on k, its scope s and the family f. $3: now. is_manual: whether the scope leaves lapsed leases to an operator.
CREATE FUNCTION _idem_sweep_condition(swept text, is_manual text DEFAULT 'coalesce(s.on_lease_expiry, f.on_lease_expiry) IS NOT DISTINCT FROM ''manual''')
RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE swept
        WHEN 'idem_keys' THEN format('k.expires_at <= $3 AND k.state <> ''d'' AND NOT (k.state = ''p'' AND (k.lease_until > $3 OR %s))', is_manual)
        WHEN 'idem_locks' THEN 'k.expires_at <= $3 AND NOT (k.state = ''p'' AND k.lease_until > $3)'
        ELSE 'k.expires_at <= $3' END
$$;

-- Whether its response is.
CREATE FUNCTION _idem_sweep_response_condition() RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT 'k.state = ''c'' AND (k.response IS NOT NULL OR k.steps IS NOT NULL) AND coalesce(s.response_ttl, f.response_ttl) IS NOT NULL '
           'AND coalesce(k.completed_at, k.created_at) + @extschema@._idem_span(coalesce(s.response_ttl, f.response_ttl), ''response_ttl'') <= $3'
$$;

-- Where these conditions find the scope of k and its family.
CREATE FUNCTION _idem_sweep_scopes() RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT 'LEFT JOIN ONLY @extschema@.idem_scopes s ON s.scope = k.scope LEFT JOIN ONLY @extschema@.idem_scopes f ON f.scope = @extschema@._idem_family(k.scope)'
$$;

-- The setting of the scope of k in $2, which has the settings of scopes by their names, or that of its family. The workers of Citus have no function of idem's.
CREATE FUNCTION _idem_sweep_setting() RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT 'coalesce($2 ->> k.scope, $2 ->> CASE WHEN strpos(k.scope, ''/'') > 1 THEN split_part(k.scope, ''/'', 1) END)'
$$;

-- Changes up to so many rows that are due, where the rows are on workers of Citus: finds them on all shards, and takes those that nobody is changing,
-- shard by shard. `condition` says which are due, with $2: settings, $3: time.
CREATE FUNCTION _idem_sweep_shards(swept regclass, change text, condition text, rows integer, settings jsonb, at timestamptz, OUT due_rows integer, OUT changed integer)
LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    due     text[];
    shard   text[];
    taken   text[];
    owners  text[];
    touched integer;
BEGIN
    EXECUTE format('SELECT coalesce(array_agg(d.key), ''{}'') FROM (SELECT k.key FROM %s k WHERE %s LIMIT $1) d', swept, condition) INTO due USING rows, settings, at;
    due_rows := cardinality(due);
    changed := 0;
    FOR shard IN EXECUTE 'SELECT array_agg(u.key ORDER BY u.key) FROM unnest($1) AS u (key) GROUP BY pg_catalog.get_shard_id_for_distribution_column($2, u.key)'
                 USING due, swept LOOP
        EXECUTE format('WITH locked AS MATERIALIZED (SELECT k.scope, k.key FROM %s k WHERE k.key = ANY ($1) AND %s FOR UPDATE SKIP LOCKED) '
                       'SELECT array_agg(l.scope), array_agg(l.key) FROM locked l', swept, condition) INTO owners, taken USING shard, settings, at;
        IF taken IS NOT NULL THEN
            EXECUTE format('%s WHERE k.key = ANY ($1) AND k.scope = ANY ($4) AND %s', format(change, swept), condition) USING taken, settings, at, owners;
            GET DIAGNOSTICS touched = ROW_COUNT;
            changed := changed + touched;
        END IF;
    END LOOP;
END
$$;

-- _idem_sweep_batch for tables that are on workers.
CREATE FUNCTION _idem_sweep_spread(swept regclass, name text, rows integer, progress jsonb) RETURNS jsonb LANGUAGE plpgsql VOLATILE AS $$
#variable_conflict use_column
DECLARE
    now      CONSTANT timestamptz := clock_timestamp();
    expiries jsonb;
    ttls     jsonb;
    deleted  record;
    redacted record;
    is_complete boolean;
    done     jsonb := coalesce(progress, jsonb_build_object('started_at', now, 'deleted', 0, 'redacted', 0, 'batches', 0));
BEGIN
    SELECT coalesce(jsonb_object_agg(s.scope, s.on_lease_expiry) FILTER (WHERE s.on_lease_expiry IS NOT NULL), '{}'),
           jsonb_object_agg(s.scope, extract(epoch FROM _idem_span(s.response_ttl, 'response_ttl'))) FILTER (WHERE s.response_ttl IS NOT NULL)
      INTO expiries, ttls FROM ONLY idem_scopes s;
    deleted := _idem_sweep_shards(swept, 'DELETE FROM %s k', _idem_sweep_condition(name, _idem_sweep_setting() || ' IS NOT DISTINCT FROM ''manual'''), rows,
                                  expiries, now);
    is_complete := deleted.due_rows < rows OR deleted.changed = 0;
    done := done || jsonb_build_object('deleted', (done ->> 'deleted')::bigint + deleted.changed, 'batches', (done ->> 'batches')::bigint + 1);
    IF name = 'idem_keys' AND ttls IS NOT NULL THEN
        redacted := _idem_sweep_shards(swept, 'UPDATE %s k SET response_omitted = CASE WHEN k.response IS NOT NULL THEN true ELSE k.response_omitted END, '
            'response = NULL, steps = NULL', 'k.state = ''c'' AND (k.response IS NOT NULL OR k.steps IS NOT NULL) AND coalesce(k.completed_at, k.created_at) + '
            || _idem_sweep_setting() || '::float8 * interval ''1 s'' <= $3', rows, ttls, now);
        is_complete := is_complete AND (redacted.due_rows < rows OR redacted.changed = 0);
        done := done || jsonb_build_object('redacted', (done ->> 'redacted')::bigint + redacted.changed);
    END IF;
    INSERT INTO idem_sweeps AS s (swept, slot, pid, started_at, updated_at, finished_at, complete_from, next_block, blocks_total, blocks_done,
                                  rows_deleted, rows_redacted, rows_held, batches)
    SELECT $1, 0, pg_backend_pid(), (done ->> 'started_at')::timestamptz, now, CASE WHEN is_complete THEN now END,
           CASE WHEN is_complete THEN (done ->> 'started_at')::timestamptz END, 0, 0, 0, (done ->> 'deleted')::bigint, (done ->> 'redacted')::bigint, 0,
           (done ->> 'batches')::bigint
    ON CONFLICT (swept, slot) DO UPDATE SET pid = excluded.pid, started_at = excluded.started_at, updated_at = excluded.updated_at,
        finished_at = excluded.finished_at, complete_from = coalesce(excluded.complete_from, s.complete_from), rows_deleted = excluded.rows_deleted,
        rows_redacted = excluded.rows_redacted, batches = excluded.batches;
    RETURN done || jsonb_build_object('is_complete', is_complete, 'held', 0, 'blocks', 0, 'blocks_done', 0);
END
$$;

-- Sweeps from a block on: at most so many rows, and for about 50 milliseconds. `progress` has what was done so far; the result is what it is now.
-- A pass goes from the block where the last one was interrupted to the end, and then from the first block to that one.
CREATE FUNCTION _idem_sweep_batch(name text, rows integer, progress jsonb) RETURNS jsonb LANGUAGE plpgsql VOLATILE SECURITY DEFINER AS $$
DECLARE
    chunk    CONSTANT bigint := 32; -- blocks that are read at a time
    relation CONSTANT regclass := to_regclass('@extschema@.' || quote_ident(name));
    until    CONSTANT timestamptz := clock_timestamp() + interval '50 ms';
    now      timestamptz := clock_timestamp();
    done     jsonb := progress;
    blocks   bigint := pg_relation_size(relation) / current_setting('block_size')::integer;
    at       bigint;
    next     bigint;
    stop     bigint;
    has_response boolean := false;
    due      tid[];
    sizes    bigint[];
    expired  boolean[];
    taken    tid[];
    size     bigint;
    first    integer;
    last     integer;
    removed  integer;
    deleted  bigint := 0;
    redacted bigint := 0;
    held     bigint := 0;
    visited  bigint := 0;
    is_full  boolean := false;
    is_complete boolean := false;
BEGIN
    IF name <> ALL ('{idem_keys,idem_tokens,idem_locks,idem_rates,idem_counters}') THEN
        PERFORM _idem_invalid(format('"%s" is no table that is swept', name));
    END IF;
    PERFORM _idem_require_writable('idem_sweep()');
    PERFORM set_config('synchronous_commit', 'off', true);
    IF _idem_is_distributed() THEN
        RETURN _idem_sweep_spread(relation, name, rows, progress);
    END IF;
    IF done IS NULL THEN
        SELECT jsonb_build_object('slot', 0, 'started_at', now, 'blocks', blocks, 'start', n.block, 'at', n.block, 'has_wrapped', false,
                                  'blocks_done', 0, 'deleted', 0, 'redacted', 0, 'held', 0, 'batches', 0)
          INTO done
          FROM (SELECT coalesce((SELECT s.next_block FROM ONLY idem_sweeps s WHERE s.swept = relation AND s.slot = 0 AND s.next_block < blocks), 0) AS block) n;
    END IF;
    -- The slot is this sweep's until the transaction ends.
    WHILE NOT pg_try_advisory_xact_lock(hashtext('idem_sweep') # relation::oid::integer, (done ->> 'slot')::integer) LOOP
        done := done || jsonb_build_object('slot', (done ->> 'slot')::integer + 1);
    END LOOP;
    IF name = 'idem_keys' THEN
        has_response := EXISTS (SELECT FROM ONLY idem_scopes s WHERE s.response_ttl IS NOT NULL);
    END IF;
    at := done ->> 'at';
    stop := least(blocks, CASE WHEN (done ->> 'has_wrapped')::boolean THEN (done ->> 'start')::bigint ELSE (done ->> 'blocks')::bigint END);
    WHILE at < stop AND NOT is_full LOOP
        EXECUTE format('SELECT array_agg(d.ctid), array_agg(d.size), array_agg(d.is_expired) FROM (SELECT k.ctid, %s AS size, %s AS is_expired FROM ONLY %s k '
                       '%s WHERE k.ctid >= $1 AND k.ctid < $2 AND (%s%s) ORDER BY k.ctid LIMIT $4) d',
                       CASE WHEN name = 'idem_keys' THEN 'coalesce(pg_column_size(k.response), 0) + 100' ELSE '100' END,
                       _idem_sweep_condition(name), relation, _idem_sweep_scopes(),
                       _idem_sweep_condition(name), CASE WHEN has_response THEN ' OR ' || _idem_sweep_response_condition() ELSE '' END)
          INTO due, sizes, expired USING format('(%s,0)', at)::tid, format('(%s,0)', least(at + chunk, stop))::tid, now, rows - deleted - redacted + 1;
        first := 1;
        WHILE first <= coalesce(cardinality(due), 0) AND NOT is_full LOOP
            last := first;
            size := sizes[first];
            WHILE last < cardinality(due) AND last - first < 499 AND last - first + 1 < rows - deleted - redacted AND expired[last + 1] = expired[first]
                  AND size + sizes[last + 1] < 4000000 LOOP
                last := last + 1;
                size := size + sizes[last];
            END LOOP;
            -- FOR UPDATE reads rows that changed since as they are now.
            EXECUTE format('SELECT array_agg(l.ctid) FROM (SELECT k.ctid FROM ONLY %s k %s '
                           'WHERE k.ctid = ANY ($1) AND %s FOR UPDATE OF k SKIP LOCKED) l', relation, _idem_sweep_scopes(),
                           CASE WHEN expired[first] THEN _idem_sweep_condition(name) ELSE _idem_sweep_response_condition() END)
              INTO taken USING due[first:last], NULL::tid, now;
            IF expired[first] THEN
                EXECUTE format('DELETE FROM ONLY %s k WHERE k.ctid = ANY ($1)', relation) USING taken;
                GET DIAGNOSTICS removed = ROW_COUNT;
                deleted := deleted + removed;
            ELSE
                UPDATE ONLY idem_keys k SET response_omitted = CASE WHEN k.response IS NOT NULL THEN true ELSE k.response_omitted END, response = NULL, steps = NULL
                 WHERE k.ctid = ANY (taken);
                GET DIAGNOSTICS removed = ROW_COUNT;
                redacted := redacted + removed;
            END IF;
            held := held + (last - first + 1 - removed);
            first := last + 1;
            is_full := deleted + redacted >= rows OR clock_timestamp() >= until;
        END LOOP;
        next := CASE WHEN first <= coalesce(cardinality(due), 0) THEN (due[first]::text::point)[0]::bigint ELSE least(at + chunk, stop) END;
        visited := visited + next - at;
        at := next;
        is_full := is_full OR clock_timestamp() >= until;
    END LOOP;
    is_complete := at >= stop AND ((done ->> 'has_wrapped')::boolean OR (done ->> 'start')::bigint = 0);
    done := done || jsonb_build_object(
        'at', CASE WHEN at < stop THEN at ELSE 0 END, 'has_wrapped', at >= stop OR (done ->> 'has_wrapped')::boolean, 'is_complete', is_complete,
        'blocks_done', (done ->> 'blocks_done')::bigint + visited, 'deleted', (done ->> 'deleted')::bigint + deleted,
        'redacted', (done ->> 'redacted')::bigint + redacted, 'held', (done ->> 'held')::bigint + held,
        'batches', (done ->> 'batches')::bigint + (deleted + redacted > 0)::integer);
    -- While batches change nothing, the progress is written no more often than once a second.
    IF is_complete OR deleted + redacted > 0 OR coalesce((done ->> 'written_at')::timestamptz < now - interval '1 s', true) THEN
        done := done || jsonb_build_object('written_at', now);
        INSERT INTO idem_sweeps AS s (swept, slot, pid, started_at, updated_at, finished_at, complete_from, next_block, blocks_total, blocks_done,
                                      rows_deleted, rows_redacted, rows_held, batches)
        SELECT relation, (done ->> 'slot')::integer, pg_backend_pid(), (done ->> 'started_at')::timestamptz, t.now, CASE WHEN is_complete THEN t.now END,
               CASE WHEN is_complete THEN (done ->> 'started_at')::timestamptz END, (done ->> 'at')::bigint, (done ->> 'blocks')::bigint,
               (done ->> 'blocks_done')::bigint, (done ->> 'deleted')::bigint, (done ->> 'redacted')::bigint, (done ->> 'held')::bigint,
               (done ->> 'batches')::bigint
          FROM (SELECT clock_timestamp() AS now OFFSET 0) t
        ON CONFLICT (swept, slot) DO UPDATE SET pid = excluded.pid, started_at = excluded.started_at, updated_at = excluded.updated_at,
            finished_at = excluded.finished_at, complete_from = coalesce(excluded.complete_from, s.complete_from), next_block = excluded.next_block,
            blocks_total = excluded.blocks_total, blocks_done = excluded.blocks_done, rows_deleted = excluded.rows_deleted,
            rows_redacted = excluded.rows_redacted, rows_held = excluded.rows_held, batches = excluded.batches;
    END IF;
    RETURN done;
END
$$;

-- Tells the progress every ten seconds, and at the end (told_at: NULL). Returns when it was told.
CREATE FUNCTION _idem_sweep_tell(swept text, progress jsonb, told_at timestamptz) RETURNS timestamptz LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    responses text := CASE WHEN (progress ->> 'redacted')::bigint > 0 THEN format(', %s responses removed', progress ->> 'redacted') ELSE '' END;
BEGIN
    IF told_at IS NULL THEN
        RAISE NOTICE 'swept "%": % rows deleted% in % batches, % in use left alone', swept, progress ->> 'deleted', responses, progress ->> 'batches',
            progress ->> 'held';
    ELSIF told_at < clock_timestamp() - interval '10 s' THEN
        RAISE NOTICE 'sweeping "%": % of % blocks, % rows deleted%', swept, progress ->> 'blocks_done', progress ->> 'blocks', progress ->> 'deleted', responses;
    ELSE
        RETURN told_at;
    END IF;
    RETURN clock_timestamp();
END
$$;

-- A sweep holds its lock for each batch. Between two batches its process is there, and has written its progress lately.
CREATE FUNCTION idem_sweep_status LANGUAGE sql SECURITY DEFINER AS $$
    SELECT c.relname::text,
           CASE WHEN s.finished_at IS NOT NULL THEN 'finished'
                WHEN s.pid <> pg_backend_pid() AND s.updated_at > clock_timestamp() - interval '1 min'
                     AND EXISTS (SELECT FROM pg_stat_activity a WHERE a.pid = s.pid AND coalesce(a.state, 'active') = 'active') THEN 'running'
                ELSE 'interrupted' END,
           s.pid, s.started_at, s.updated_at, s.finished_at, s.blocks_total, s.blocks_done, s.rows_deleted, s.rows_redacted, s.rows_held, s.batches, s.complete_from
      FROM ONLY idem_sweeps s
      JOIN pg_class c ON c.oid = s.swept::oid
     ORDER BY c.relname, s.slot
$$;

CREATE FUNCTION idem_sweep LANGUAGE plpgsql UNPINNED AS $$
DECLARE
    options  pg_catalog.record;
    refusal  pg_catalog.text;
    swept    pg_catalog.text;
    progress pg_catalog.jsonb;
    told_at  pg_catalog.timestamptz;
BEGIN
    BEGIN
        COMMIT;
    EXCEPTION WHEN invalid_transaction_termination THEN
        refusal := SQLERRM;
    END;
    options := @extschema@._idem_sweep_begin(batch, pause, refusal);
    COMMIT;
    SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    FOREACH swept IN ARRAY options.tables LOOP
        progress := NULL;
        told_at := pg_catalog.clock_timestamp();
        LOOP
            progress := @extschema@._idem_sweep_batch(swept, options.rows, progress);
            COMMIT;
            SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
            EXIT WHEN (progress OPERATOR(pg_catalog.->>) 'is_complete')::pg_catalog.bool;
            told_at := @extschema@._idem_sweep_tell(swept, progress, told_at);
            PERFORM pg_catalog.pg_sleep(options.seconds);
        END LOOP;
        PERFORM @extschema@._idem_sweep_tell(swept, progress, NULL);
        COMMIT;
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED;
    END LOOP;
END
$$;
