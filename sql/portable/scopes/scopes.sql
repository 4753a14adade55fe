-- What every function asks first: arguments, settings, the scope's policy and the right to use it.

CREATE FUNCTION _idem_null(argument text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    RAISE null_value_not_allowed USING MESSAGE = argument || ' must not be null';
END
$$;

CREATE FUNCTION _idem_invalid(message text, detail text DEFAULT NULL, hint text DEFAULT NULL) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF hint IS NOT NULL AND detail IS NOT NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = message, DETAIL = detail, HINT = hint;
    ELSIF hint IS NOT NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = message, HINT = hint;
    ELSIF detail IS NOT NULL THEN
        RAISE invalid_parameter_value USING MESSAGE = message, DETAIL = detail;
    ELSE
        RAISE invalid_parameter_value USING MESSAGE = message;
    END IF;
END
$$;

-- A name of an argument: 22004; 22023 empty, or over so many bytes. `called` is what messages call it, `noun` what their details do.
CREATE FUNCTION _idem_check_name(given text, argument text, called text, noun text, most integer, hint text DEFAULT NULL)
RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF given IS NULL THEN
        PERFORM _idem_null(argument);
    ELSIF given = '' THEN
        PERFORM _idem_invalid(called || ' must not be empty');
    ELSIF octet_length(given) > most THEN
        PERFORM _idem_invalid(called || ' is too long', format('The %s has %s bytes; the most is %s.', noun, octet_length(given), most), hint);
    END IF;
END
$$;

CREATE FUNCTION _idem_check_scope_size(scope text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF octet_length(scope) > 255 THEN
        PERFORM _idem_invalid('scope is too long', format('The scope has %s bytes; the most is %s.', octet_length(scope), 255));
    END IF;
END
$$;

-- A key: 22004, 22023. `name` is what messages call it.
CREATE FUNCTION _idem_check_key(key text, name text DEFAULT 'key') RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF key IS NULL OR octet_length(key) NOT BETWEEN 1 AND 1024 THEN
        PERFORM _idem_check_name(key, name, name, name, 1024,
            format('Use a hash of it, such as encode(sha256(convert_to(%s, ''UTF8'')), ''hex'').', name));
    END IF;
END
$$;

CREATE FUNCTION _idem_check_owner(owner text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF owner = '' THEN
        PERFORM _idem_invalid('owner must not be empty', hint => 'Leave it out, or give a name that no other caller gives.');
    END IF;
END
$$;

CREATE FUNCTION _idem_check_fingerprint(fingerprint bytea) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF octet_length(fingerprint) NOT BETWEEN 1 AND 255 THEN
        PERFORM _idem_invalid(format('fingerprint has %s bytes', octet_length(fingerprint)), format('It must have from 1 to %s.', 255),
            'Use idem_fingerprint, idem_fingerprint_text or idem_fingerprint_bytes.');
    END IF;
END
$$;

-- 25006 in a read-only transaction, as the statements behind it would raise it, but whatever they find.
CREATE FUNCTION _idem_require_writable(function text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('transaction_read_only')::boolean THEN
        RAISE read_only_sql_transaction USING MESSAGE = format('cannot execute %s in a read-only transaction', function);
    END IF;
END
$$;

-- 0A000 where rows that others have committed meanwhile cannot be seen.
CREATE FUNCTION _idem_require_fresh_snapshots(function text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF current_setting('transaction_isolation') IN ('repeatable read', 'serializable') THEN
        RAISE feature_not_supported USING
            MESSAGE = format('%s cannot look at rows in a transaction with isolation level %s', function, upper(current_setting('transaction_isolation'))),
            DETAIL = 'It would not see rows that were committed after the transaction''s snapshot.', HINT = 'Use READ COMMITTED.';
    END IF;
END
$$;

-- A span of time as hours, minutes and seconds: a day has 24 hours, a month 30 days. 22023: infinite or out of range.
CREATE FUNCTION _idem_span(span interval, name text) RETURNS interval LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    days    numeric;
    seconds numeric;
BEGIN
    IF NOT isfinite(span) THEN
        PERFORM _idem_invalid(name || ' must be finite');
    END IF;
    days := (extract(year FROM span) * 12 + extract(month FROM span))::numeric * 30 + extract(day FROM span)::numeric;
    IF days = 0 AND extract(hour FROM span) < 1e6 THEN
        RETURN span;
    END IF;
    seconds := days * 86400 + extract(hour FROM span)::numeric * 3600 + extract(minute FROM span)::numeric * 60 + extract(second FROM span)::numeric;
    IF abs(seconds) > 9223372036854 THEN
        PERFORM _idem_invalid(name || ' is out of range');
    END IF;
    RETURN trunc(seconds / 86400)::bigint * interval '24 hours' + make_interval(secs => (seconds % 86400)::float8);
END
$$;

CREATE FUNCTION _idem_positive_span(span interval, name text) RETURNS interval LANGUAGE plpgsql STABLE AS $$
DECLARE
    spent interval := _idem_span(span, name);
BEGIN
    IF spent <= interval '0' THEN
        PERFORM _idem_invalid(name || ' must be positive', hint => 'Give a span of time such as ''30 s'' or ''1 day''.');
    END IF;
    RETURN spent;
END
$$;

-- When a span from `at` on ends; a null span never does. 22023: beyond the greatest timestamp.
CREATE FUNCTION _idem_deadline(at timestamptz, span interval, name text) RETURNS timestamptz LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    IF span IS NULL THEN
        RETURN 'infinity';
    END IF;
    IF extract(epoch FROM span) >= 9224318016000 - extract(epoch FROM at) THEN
        PERFORM _idem_invalid(name || ' is out of range');
    END IF;
    RETURN at + span;
END
$$;

-- The same for arguments that are variables: the planner puts it into the statement, and calls nothing for an ordinary span.
CREATE FUNCTION _idem_until(at timestamptz, span interval, name text) RETURNS timestamptz LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN span < interval '1000000 days' THEN at + span ELSE _idem_deadline(at, span, name) END
$$;

-- Whether what began at a time may have waited for a lock since: without a wait, a statement takes a tenth of this.
CREATE FUNCTION _idem_has_waited(since timestamptz) RETURNS boolean LANGUAGE sql VOLATILE AS $$
    SELECT clock_timestamp() > since + interval '5 ms'
$$;

-- Settings are those of the C edition, as text; here any session may set them.
CREATE FUNCTION _idem_setting(name text, fallback text) RETURNS text LANGUAGE sql STABLE AS $$
    SELECT coalesce(nullif(current_setting('idem.' || name, true), ''), fallback)
$$;

-- A setting that is a span of time, and is set: `unit` is that of a number alone.
CREATE FUNCTION _idem_span_setting(name text, unit text) RETURNS interval LANGUAGE plpgsql STABLE AS $$
DECLARE
    setting CONSTANT text := 'idem.' || name;
    value   CONSTANT text := current_setting(setting);
    span    interval;
BEGIN
    BEGIN
        span := CASE WHEN value ~ '^[0-9]+$' THEN value || ' ' || unit ELSE value END::interval;
    EXCEPTION WHEN data_exception THEN
        PERFORM _idem_invalid(format('invalid value for setting "%s": "%s"', setting, value));
    END;
    RETURN _idem_span(span, setting);
END
$$;

CREATE FUNCTION _idem_positive_setting(name text, unit text) RETURNS interval LANGUAGE plpgsql STABLE AS $$
BEGIN
    RETURN _idem_positive_span(_idem_span_setting(name, unit), 'idem.' || name);
END
$$;

CREATE FUNCTION _idem_default_lease() RETURNS interval LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN current_setting('idem.default_lease', true) <> '' THEN _idem_positive_setting('default_lease', 'ms') ELSE interval '30 s' END
$$;

-- The length of a lease: positive, and not over idem.max_lease.
CREATE FUNCTION _idem_lease(span interval, name text) RETURNS interval LANGUAGE plpgsql STABLE AS $$
DECLARE
    lease interval := _idem_positive_span(span, name);
    most  interval := CASE WHEN current_setting('idem.max_lease', true) <> '' THEN _idem_positive_setting('max_lease', 's') ELSE interval '24 hours' END;
BEGIN
    IF extract(epoch FROM lease) > extract(epoch FROM most) THEN
        PERFORM _idem_invalid(name || ' is longer than idem.max_lease', format('It is %s; idem.max_lease is %s.', span, _idem_setting('max_lease', '1d')),
            'A number without a unit is seconds: ''30000'' is over eight hours. Say ''30 s'' or ''500 ms'', or raise idem.max_lease.');
    END IF;
    RETURN lease;
END
$$;

-- Until when a call may wait, by its argument `wait`; NULL: not at all.
CREATE FUNCTION _idem_wait_until(wait interval) RETURNS timestamptz LANGUAGE plpgsql STABLE AS $$
DECLARE
    span interval := _idem_span(coalesce(wait, '0'), 'wait');
BEGIN
    IF span < interval '0' THEN
        PERFORM _idem_invalid('wait must not be negative', hint => 'Use ''0'' not to wait.');
    END IF;
    RETURN CASE WHEN span > interval '0' THEN _idem_deadline(clock_timestamp(), span, 'wait') END;
END
$$;

-- The caller: a function that runs with its owner's rights cannot ask current_user.
CREATE FUNCTION _idem_caller() RETURNS name LANGUAGE sql STABLE AS $$
    SELECT coalesce(nullif(current_setting('role'), 'none'), session_user)::name
$$;

CREATE FUNCTION _idem_may_use(owner oid) RETURNS boolean LANGUAGE sql STABLE AS $$
    SELECT coalesce(owner, 0) = 0 OR pg_has_role(_idem_caller(), owner, 'USAGE')
$$;

CREATE FUNCTION _idem_scope_denied(scope text, owner oid) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF owner <> 0 AND NOT EXISTS (SELECT FROM pg_roles WHERE oid = owner) THEN
        RAISE insufficient_privilege USING MESSAGE = format('permission denied for scope "%s"', scope),
            DETAIL = format('The scope''s owner, the role with OID %s, was dropped.', owner),
            HINT = format('A superuser can give the scope a new owner: SELECT idem_scope_set(%L, owner => ''...'').', scope);
    END IF;
    RAISE insufficient_privilege USING MESSAGE = format('permission denied for scope "%s"', scope),
        DETAIL = 'Only roles that have the privileges of the scope''s owner may use it.';
END
$$;

-- The family of a scope: of a/b, a. NULL: it has none. A setting that a scope's row does not have is that of its family's row.
CREATE FUNCTION _idem_family(scope text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE WHEN strpos(scope COLLATE "C", '/') > 1 THEN split_part(scope COLLATE "C", '/', 1) END
$$;

-- The owner of a scope.
CREATE FUNCTION _idem_scope_owner(wanted text) RETURNS oid LANGUAGE sql STABLE AS $$
    SELECT coalesce((SELECT s.owner FROM ONLY idem_scopes s WHERE s.scope = wanted COLLATE "C"),
                    (SELECT f.owner FROM ONLY idem_scopes f WHERE f.scope = _idem_family(wanted) COLLATE "C"))::oid
$$;

-- Locks the scope's row, for a change. False: there is none. 42501: the caller may not use it. Here, not in the change: where idem_scopes is a reference
-- table of Citus, a role has another OID on each node.
CREATE FUNCTION _idem_lock_scope(wanted text) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    PERFORM FROM ONLY idem_scopes s WHERE s.scope = wanted COLLATE "C" FOR UPDATE;
    IF FOUND AND NOT _idem_may_use(_idem_scope_owner(wanted)) THEN
        PERFORM _idem_scope_denied(wanted, _idem_scope_owner(wanted));
    END IF;
    RETURN FOUND;
END
$$;

-- 40001 if the transaction's snapshot does not show the scope's row as it is.
CREATE FUNCTION _idem_require_current_scope(wanted text) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF current_setting('transaction_isolation') NOT IN ('repeatable read', 'serializable') THEN
        RETURN;
    END IF;
    PERFORM FROM ONLY idem_scopes s WHERE s.scope = wanted COLLATE "C" FOR SHARE;
    IF NOT FOUND THEN
        BEGIN
            INSERT INTO idem_scopes (scope) VALUES (wanted) ON CONFLICT (scope) DO NOTHING;
            RAISE EXCEPTION USING ERRCODE = 'ID000';
        EXCEPTION WHEN SQLSTATE 'ID000' THEN -- undoes the row
        END;
    END IF;
END
$$;

-- As _idem_lock_scope, and 40001 if the transaction's snapshot cannot show the row.
CREATE FUNCTION _idem_lock_known_scope(wanted text) RETURNS boolean LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF _idem_lock_scope(wanted) THEN
        RETURN true;
    END IF;
    PERFORM _idem_require_current_scope(wanted);
    RETURN false;
END
$$;

-- Locks the scope's row, which is made where there is none, for a change.
CREATE FUNCTION _idem_enter_scope(wanted text) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    WHILE NOT _idem_lock_scope(wanted) LOOP
        INSERT INTO idem_scopes (scope) VALUES (wanted) ON CONFLICT (scope) DO NOTHING;
    END LOOP;
END
$$;

-- How long keys of a scope are kept, by its row; NULL never expires.
CREATE FUNCTION _idem_scope_ttl(keep_forever boolean, ttl interval) RETURNS interval LANGUAGE plpgsql STABLE INNER AS $$
BEGIN
    RETURN CASE WHEN keep_forever THEN NULL
                WHEN ttl IS NOT NULL THEN _idem_span(ttl, 'ttl')
                WHEN current_setting('idem.default_ttl', true) <> '' THEN _idem_positive_setting('default_ttl', 's')
                ELSE interval '24 hours' END;
END
$$;

-- How large a response may be, by its scope's row.
CREATE FUNCTION _idem_scope_max_response_size(max_response_size integer) RETURNS integer LANGUAGE plpgsql STABLE INNER AS $$
BEGIN
    RETURN CASE WHEN max_response_size IS NOT NULL THEN max_response_size
                WHEN current_setting('idem.max_response_size', true) <> '' THEN pg_size_bytes(current_setting('idem.max_response_size', true))
                ELSE 1048576 END;
END
$$;

-- The same and whether the caller may use the scope, for the planner to put into a statement. No row: the caller may not, or one statement is not enough. `given`:
-- NULL is ''. What a statement might call costs it more than what it does call, so that the common case comes with few functions.
CREATE FUNCTION _idem_scope_of(given text) RETURNS TABLE (scope text, ttl interval, keep_forever boolean, max_response_size integer) LANGUAGE sql STABLE AS $$
    SELECT w.scope,
           CASE WHEN coalesce(s.scope, f.scope) IS NULL AND current_setting('idem.default_ttl', true) IS NULL THEN interval '24 hours'
                ELSE _idem_scope_ttl(coalesce(s.keep_forever, f.keep_forever), coalesce(s.ttl, f.ttl)) END,
           coalesce(s.keep_forever, f.keep_forever, false),
           CASE WHEN coalesce(s.max_response_size, f.max_response_size) IS NULL AND current_setting('idem.max_response_size', true) IS NULL THEN 1048576
                ELSE _idem_scope_max_response_size(coalesce(s.max_response_size, f.max_response_size)) END
      FROM (SELECT coalesce(given, '') AS scope) w LEFT JOIN ONLY idem_scopes s ON s.scope = w.scope COLLATE "C"
           LEFT JOIN ONLY idem_scopes f ON f.scope = _idem_family(w.scope) COLLATE "C"
     WHERE CASE WHEN coalesce(s.scope, f.scope) IS NULL THEN octet_length(w.scope) <= 255 AND current_setting('idem.require_registered_scope', true) IS NULL
                ELSE octet_length(w.scope) <= 255 AND _idem_may_use_scope(coalesce(s.owner, f.owner)) END
$$;

-- _idem_may_use, which the planner cannot put into a statement: most scopes have no row, and the statement is to be cheap to set up for them.
CREATE FUNCTION _idem_may_use_scope(owner oid) RETURNS boolean LANGUAGE plpgsql STABLE INNER AS $$
BEGIN
    RETURN _idem_may_use(owner);
END
$$;

-- The scope and what holds there. `scope`: NULL is ''. ttl: NULL never expires. is_registered: there is a row, of the scope or of its family. 42501: the caller
-- may not use it.
CREATE FUNCTION _idem_policy(INOUT scope text, OUT ttl interval, OUT keep_forever boolean, OUT lease interval, OUT is_manual boolean,
                             OUT max_response_size integer, OUT is_registered boolean)
LANGUAGE plpgsql STABLE INNER AS $$
#variable_conflict use_column
DECLARE
    holder    oid;
    is_known  boolean;
    is_usable boolean;
BEGIN
    -- One statement is cheaper than several expressions. PL/pgSQL prepares every expression again in each transaction.
    SELECT w.scope, coalesce(s.keep_forever, f.keep_forever, false), _idem_scope_ttl(coalesce(s.keep_forever, f.keep_forever), coalesce(s.ttl, f.ttl)),
           CASE WHEN coalesce(s.lease, f.lease) IS NOT NULL THEN _idem_span(coalesce(s.lease, f.lease), 'lease') ELSE _idem_default_lease() END,
           coalesce(s.on_lease_expiry, f.on_lease_expiry) IS NOT DISTINCT FROM 'manual',
           _idem_scope_max_response_size(coalesce(s.max_response_size, f.max_response_size)),
           coalesce(s.owner, f.owner), coalesce(s.scope, f.scope) IS NOT NULL,
           coalesce(s.scope, f.scope) IS NOT NULL OR NOT _idem_setting('require_registered_scope', 'off')::boolean,
           _idem_may_use(coalesce(s.owner, f.owner)) AND octet_length(w.scope) <= 255
      INTO scope, keep_forever, ttl, lease, is_manual, max_response_size, holder, is_registered, is_known, is_usable
      FROM (SELECT coalesce(_idem_policy.scope, '') AS scope) w LEFT JOIN ONLY idem_scopes s ON s.scope = w.scope COLLATE "C"
           LEFT JOIN ONLY idem_scopes f ON f.scope = _idem_family(w.scope) COLLATE "C";
    IF is_known AND is_usable THEN
        RETURN;
    END IF;
    PERFORM _idem_check_scope_size(_idem_policy.scope);
    IF NOT is_known THEN
        RAISE undefined_object USING MESSAGE = format('scope "%s" is not registered', _idem_policy.scope),
            HINT = 'Register it with idem_scope_set, or turn idem.require_registered_scope off.';
    END IF;
    PERFORM _idem_scope_denied(_idem_policy.scope, holder);
END
$$;

-- The retention: without end, else what the call says, else what the scope says.
CREATE FUNCTION _idem_retention(policy_ttl interval, keep_forever boolean, given interval) RETURNS interval LANGUAGE sql STABLE AS $$
    SELECT CASE WHEN given IS NULL THEN policy_ttl
                WHEN _idem_positive_span(given, 'ttl') IS NOT NULL AND NOT keep_forever THEN _idem_positive_span(given, 'ttl') END
$$;

-- The scope that an operator changes: 22004, 22023, 42501.
CREATE FUNCTION _idem_check_scope(scope text) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
BEGIN
    IF scope IS NULL THEN
        PERFORM _idem_null('scope');
    END IF;
    PERFORM _idem_check_scope_size(scope);
    IF NOT _idem_may_use(_idem_scope_owner(scope)) THEN
        PERFORM _idem_scope_denied(scope, _idem_scope_owner(scope));
    END IF;
END
$$;

-- A call that changes a scope calls this before it writes. Waits for changes of the scope and of its family, and prevents others until the transaction ends:
-- the owner, which may be the family's, is that of the moment of the change. Changes of two scopes of a family do not wait for each other.
CREATE FUNCTION _idem_begin_scope_change(wanted text, function text) RETURNS void LANGUAGE plpgsql VOLATILE AS $$
DECLARE
    family CONSTANT text := _idem_family(wanted);
BEGIN
    PERFORM _idem_require_writable(function);
    IF family IS NOT NULL THEN
        PERFORM pg_advisory_xact_lock_shared(_idem_hash(family, '', 8108));
        PERFORM _idem_require_current_scope(family);
    END IF;
    PERFORM pg_advisory_xact_lock(_idem_hash(wanted, '', 8108));
    PERFORM _idem_check_scope(wanted);
END
$$;

CREATE FUNCTION idem_scope_set LANGUAGE plpgsql SECURITY DEFINER AS $$
#variable_conflict use_column
BEGIN
    PERFORM _idem_check_scope($1);
    PERFORM _idem_deadline(clock_timestamp(), _idem_positive_span($2, 'ttl'), 'ttl') WHERE $2 IS NOT NULL;
    PERFORM _idem_deadline(clock_timestamp(), _idem_lease($4, 'lease'), 'lease') WHERE $4 IS NOT NULL;
    PERFORM _idem_positive_span($9, 'response_ttl') WHERE $9 IS NOT NULL;
    IF $5 NOT IN ('takeover', 'manual') THEN
        PERFORM _idem_invalid(format('unknown policy "%s" for on_lease_expiry', $5), hint => 'Use ''takeover'' or ''manual''.');
    END IF;
    IF $6 < 0 THEN
        PERFORM _idem_invalid('max_response_size must not be negative');
    END IF;
    IF $7::oid <> 0 AND NOT EXISTS (SELECT FROM pg_roles r WHERE r.oid = $7) THEN
        RAISE undefined_object USING MESSAGE = format('invalid role OID: %s', $7::oid);
    END IF;
    IF $8 IS NOT NULL THEN
        PERFORM _idem_not_supported('rings');
    END IF;
    PERFORM _idem_begin_scope_change($1, 'idem_scope_set()');
    PERFORM _idem_enter_scope($1);
    UPDATE ONLY idem_scopes AS c SET ttl = coalesce($2, c.ttl), keep_forever = coalesce($3, c.keep_forever), lease = coalesce($4, c.lease),
        on_lease_expiry = coalesce($5, c.on_lease_expiry), max_response_size = coalesce($6, c.max_response_size), owner = coalesce($7, c.owner),
        response_ttl = coalesce($9, c.response_ttl)
     WHERE c.scope = $1 COLLATE "C";
END
$$;

CREATE FUNCTION idem_scope_reset LANGUAGE plpgsql SECURITY DEFINER AS $$
#variable_conflict use_column
DECLARE
    setting  text;
    known    CONSTANT text[] := ARRAY(SELECT a.attname::text FROM pg_attribute a
                                       WHERE a.attrelid = 'idem_scopes'::regclass AND a.attnum > 1 AND NOT a.attisdropped ORDER BY a.attnum);
BEGIN
    IF $1 IS NULL THEN
        PERFORM _idem_null('scope');
    ELSIF $2 IS NULL THEN
        PERFORM _idem_null('settings');
    ELSIF EXISTS (SELECT FROM unnest($2) AS s (name) WHERE s.name IS NULL) THEN
        PERFORM _idem_null('a name in settings');
    END IF;
    PERFORM _idem_check_scope($1);
    FOREACH setting IN ARRAY $2 LOOP
        IF setting <> ALL (known || 'ring'::text) THEN
            PERFORM _idem_invalid(format('a scope has no setting "%s"', setting), hint => format('The settings are %s, ring.', array_to_string(known, ', ')));
        END IF;
    END LOOP;
    PERFORM _idem_begin_scope_change($1, 'idem_scope_reset()');
    IF NOT _idem_lock_known_scope($1) THEN
        RETURN false;
    END IF;
    EXECUTE 'UPDATE ONLY @extschema@.idem_scopes AS c SET '
        || coalesce((SELECT string_agg(format('%I = NULL', k.name), ', ') FROM unnest(known) AS k (name) WHERE k.name = ANY ($2)), 'scope = c.scope')
        || ' WHERE c.scope = $1 COLLATE "C"' USING $1;
    RETURN true;
END
$$;

CREATE FUNCTION idem_scope_drop LANGUAGE plpgsql SECURITY DEFINER AS $$
#variable_conflict use_column
BEGIN
    PERFORM _idem_check_scope($1);
    PERFORM _idem_begin_scope_change($1, 'idem_scope_drop()');
    IF NOT _idem_lock_known_scope($1) THEN
        RETURN false;
    END IF;
    DELETE FROM ONLY idem_scopes AS c WHERE c.scope = $1 COLLATE "C";
    RETURN true;
END
$$;

CREATE FUNCTION idem_scope_rings LANGUAGE sql AS $$ SELECT NULL::text, NULL::text, NULL::interval WHERE false $$;

CREATE FUNCTION idem_scope_sizes LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    RETURN QUERY
    SELECT k.scope, k.keys, k.bytes
      FROM (SELECT i.scope, count(*) AS keys, sum(pg_column_size(i.*)) AS bytes FROM ONLY idem_keys i GROUP BY i.scope) k
     WHERE _idem_may_use(_idem_scope_owner(k.scope))
     ORDER BY k.scope;
END
$$;
