-- What senders put into headers and body, what they sign, and what names a delivery: extension/src/core/webhook.hpp.

-- An empty name: the sender has no such field. separator: between the signatures in their field. is_hex: they are in hexadecimal digits, else base64.
CREATE FUNCTION _idem_webhook_formats(OUT name text, OUT id_field text, OUT id_member text, OUT time_field text, OUT signature_field text,
                                      OUT prefix text, OUT separator text, OUT is_hex boolean, OUT is_timed boolean)
RETURNS SETOF record LANGUAGE sql IMMUTABLE ROWS 5 AS $$
    VALUES ('standard', 'webhook-id', '', 'webhook-timestamp', 'webhook-signature', 'v1,', ' ', false, true),
           ('stripe', '', 'id', '', 'stripe-signature', 'v1=', ',', true, true),
           ('github', 'x-github-delivery', '', '', 'x-hub-signature-256', 'sha256=', ',', true, false),
           ('slack', '', 'event_id', 'x-slack-request-timestamp', 'x-slack-signature', 'v0=', ',', true, true),
           ('shopify', 'x-shopify-webhook-id', '', '', 'x-shopify-hmac-sha256', '', ',', false, false)
$$;

-- The values of a header field, whatever the case of its name, joined by commas; '': there is none. Only strings are values.
CREATE FUNCTION _idem_webhook_field(headers jsonb, wanted text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT coalesce(string_agg(v.value, ', ' ORDER BY v.place, v.item), '')
      FROM (SELECT e.value #>> '{}' AS value, h.place, e.item, bool_or(e.value <> '""') OVER (ORDER BY h.place, e.item) AS has_begun
              FROM jsonb_each(headers) WITH ORDINALITY AS h (name, value, place),
                   jsonb_array_elements(CASE jsonb_typeof(h.value) WHEN 'array' THEN h.value ELSE jsonb_build_array(h.value) END)
                       WITH ORDINALITY AS e (value, item)
             WHERE lower(h.name COLLATE "C") = wanted AND wanted <> '' AND jsonb_typeof(e.value) = 'string') v
     WHERE v.has_begun
$$;

-- The items of a list. Commas around them come from fields that were joined.
CREATE FUNCTION _idem_webhook_items(list text, separator text) RETURNS SETOF text LANGUAGE sql IMMUTABLE AS $$
    SELECT btrim(i.item, E' \t,') FROM unnest(string_to_array(list, separator)) AS i (item)
$$;

-- Whether the MAC is among the signatures: each is compared in constant time.
CREATE FUNCTION _idem_webhook_has_signature(list text, separator text, prefix text, is_hex boolean, mac bytea) RETURNS boolean LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(bool_or(_idem_same_mac(CASE WHEN is_hex THEN decode(s.digits, 'hex') ELSE decode(left(s.digits, 43) || '=', 'base64') END, mac)), false)
      FROM (SELECT substr(i.item, length(prefix) + 1) AS digits FROM _idem_webhook_items(list, separator) AS i (item)
             WHERE left(i.item, length(prefix)) = prefix) s
     WHERE s.digits COLLATE "C" ~ CASE WHEN is_hex THEN '^[0-9A-Fa-f]{64}$' ELSE '^[A-Za-z0-9+/]{43}=?$' END
$$;

-- The string of a member of the object in a body; '': there is none, or it has an escape, is not printable ASCII or has over 255 bytes.
CREATE FUNCTION _idem_webhook_body_id(body bytea, member text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    id text COLLATE "C";
BEGIN
    IF member = '' THEN
        RETURN '';
    END IF;
    BEGIN
        id := convert_from(body, 'UTF8')::json -> member;
    EXCEPTION WHEN invalid_text_representation OR character_not_in_repertoire OR untranslatable_character OR statement_too_complex THEN
        id := _idem_webhook_walk(body, member);
    END;
    RETURN CASE WHEN id ~ E'^"[ !#-\\[\\]-~]{0,255}"$' THEN substr(id, 2, length(id) - 2) ELSE '' END;
END
$$;

-- The member of an object that is nested too deep for the stack, or that the server's encoding cannot hold. Reads bytes as ASCII, all others escaped.
CREATE FUNCTION _idem_webhook_walk(body bytea, member text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    WITH token AS (
        SELECT m.part[1] AS part, m.place
          FROM regexp_matches(encode(body, 'escape') COLLATE "C",
                   E'"(?:[^"\\\\]|\\\\[0-7]{3}|\\\\\\\\(?:[^\\\\]|\\\\\\\\|\\\\[0-7]{3}))*"|[]{}:,[]|[^]{}:,"[ \\t\\r\\n]+', 'g')
                   WITH ORDINALITY AS m (part, place)),
    walk AS (
        SELECT t.part, t.place, lead(t.part) OVER w AS colon, lead(t.part, 2) OVER w AS value,
               sum(CASE WHEN t.part IN ('{', '[') THEN 1 WHEN t.part IN ('}', ']') THEN -1 ELSE 0 END) OVER w AS depth, lag(t.part) OVER w AS before
          FROM token t WINDOW w AS (ORDER BY t.place))
    SELECT w.value FROM walk w
     WHERE w.part = '"' || member || '"' AND w.depth = 1 AND w.before IN ('{', ',') AND w.colon = ':'
       AND (SELECT bool_and((o.depth < 1) = (o.place = (SELECT max(t.place) FROM token t))) AND bool_or(o.place = 1 AND o.part = '{') FROM walk o)
     ORDER BY w.place DESC LIMIT 1
$$;

CREATE FUNCTION idem_webhook_receive LANGUAGE plpgsql SECURITY DEFINER AS $$
#variable_conflict use_column
DECLARE
    sender      text COLLATE "C" := $1;
    policy      record;
    now         timestamptz;
    formats     CONSTANT text[] := ARRAY(SELECT f.name FROM _idem_webhook_formats() f);
    form        record;
    stored      record;
    id          text COLLATE "C";
    signed_time text COLLATE "C";
    signatures  text COLLATE "C";
    before      text;
    signed_at   timestamptz;
    span        interval;
    tolerance   interval;    -- the greatest of the secrets that signed the request; NULL: none has
    fresh_from  timestamptz; -- when it is fresh by one of them
    fresh_until timestamptz;
    retention   interval;
    name        text COLLATE "C";
    claimed     _idem_claimed;
    answer      idem_webhook_answer;
BEGIN
    IF sender IS NULL THEN
        PERFORM _idem_null('source');
    ELSIF $2 IS NULL THEN
        PERFORM _idem_null('headers');
    ELSIF jsonb_typeof($2) <> 'object' THEN
        PERFORM _idem_invalid('headers must be a JSON object', hint => 'Pass {"name": "value" or ["value", ...]}.');
    ELSIF $3 IS NULL THEN
        PERFORM _idem_null('body');
    END IF;
    policy := _idem_policy('webhook');
    now := clock_timestamp();
    -- A request may be signed by several secrets of its source, which may read another id and allow another tolerance. The newest names it, so that
    -- each copy has the same id; it is fresh as long as it is by any, and is retained for as long.
    FOR stored IN SELECT s.source, s.format, s.secret, s.tolerance, s.format <> ALL (formats) OR octet_length(s.secret) > 64 AS is_damaged
                    FROM ONLY idem_webhook_sources s
                   WHERE s.source = sender AND s.expires_at > now OR s.format <> ALL (formats) OR octet_length(s.secret) > 64
                   ORDER BY s.format <> ALL (formats) OR octet_length(s.secret) > 64 DESC, s.source, s.created_at DESC, s.expires_at DESC LOOP
        IF stored.is_damaged THEN
            RAISE data_corrupted USING MESSAGE = format('a secret of webhook source "%s" is damaged', stored.source),
                HINT = 'Drop it with idem_webhook_source_drop, and set it again.';
        END IF;
        SELECT f.* INTO form FROM _idem_webhook_formats() f WHERE f.name = stored.format;
        signatures := _idem_webhook_field($2, form.signature_field);
        id := btrim(_idem_webhook_field($2, form.id_field), E' \t\r\n');
        CONTINUE WHEN signatures = '' OR octet_length(id) > 255 OR id !~ '^[ -~]*$' OR form.name = 'standard' AND id = '';
        signed_time := '';
        IF form.name = 'stripe' THEN -- of two times, neither is taken
            signed_time := (SELECT CASE WHEN count(*) = 1 THEN min(substr(i.item, 3)) ELSE '' END
                       FROM _idem_webhook_items(signatures, ',') AS i (item) WHERE left(i.item, 2) = 't=');
        ELSIF form.is_timed THEN
            signed_time := btrim(_idem_webhook_field($2, form.time_field), E' \t\r\n');
        END IF;
        CONTINUE WHEN form.is_timed AND signed_time !~ '^[0-9]{1,11}$';
        before := CASE form.name WHEN 'standard' THEN id || '.' || signed_time || '.' WHEN 'stripe' THEN signed_time || '.'
                                   WHEN 'slack' THEN 'v0:' || signed_time || ':' ELSE '' END;
        CONTINUE WHEN NOT _idem_webhook_has_signature(signatures, form.separator, form.prefix, form.is_hex,
                                                      _idem_hmac(stored.secret, convert_to(before, 'UTF8') || $3));
        IF answer.message_id IS NULL THEN
            answer.message_id := coalesce(nullif(id, ''), nullif(_idem_webhook_body_id($3, form.id_member), ''), encode(sha256($3), 'hex'));
        END IF;
        span := _idem_span(stored.tolerance, 'tolerance');
        signed_at := CASE WHEN span <> interval '0' THEN timestamptz '1970-01-01 00:00:00+00' + signed_time::float8 * interval '1 s' END;
        tolerance := greatest(tolerance, span);
        fresh_from := least(fresh_from, coalesce(signed_at - span, '-infinity'));
        fresh_until := greatest(fresh_until, coalesce(signed_at + span, 'infinity'));
    END LOOP;
    IF tolerance IS NULL THEN
        answer.outcome := 'invalid';
        RETURN answer;
    ELSIF now NOT BETWEEN fresh_from AND fresh_until THEN
        answer.outcome := 'stale';
        RETURN answer;
    END IF;
    -- The id is retained at least for as long as a copy of this request is fresh.
    name := _idem_request_name(sender, answer.message_id);
    retention := _idem_retention(policy.ttl, policy.keep_forever, NULL);
    claimed := _idem_claim('idem_webhook_receive()', policy.scope, name, NULL, NULL,
        CASE WHEN retention IS NOT NULL THEN greatest(retention, 2 * tolerance + interval '1 s') END, NULL, policy.is_manual, true, NULL);
    IF claimed.outcome IN ('in_doubt', 'in_flight') THEN
        PERFORM _idem_raise_if_held(claimed, name);
    ELSIF claimed.outcome NOT IN ('acquired', 'taken_over') THEN
        answer.outcome := 'duplicate';
    ELSIF clock_timestamp() BETWEEN fresh_from AND fresh_until THEN
        answer.outcome := 'accepted';
    ELSE
        -- It has waited for another claim of the id, which is expired or rolled back, for too long. It gives the id back.
        DELETE FROM ONLY idem_keys k WHERE k.scope = policy.scope AND k.key = name;
        answer.outcome := 'stale';
    END IF;
    RETURN answer;
END
$$;

-- What base64 stands for, padded or not, whatever the bits that are left over; NULL: it is no base64.
CREATE FUNCTION _idem_webhook_base64(given bytea) RETURNS bytea LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    digits text COLLATE "C" := encode(given, 'escape');
BEGIN
    IF digits !~ '^([A-Za-z0-9+/]{4})*([A-Za-z0-9+/]{2}(==)?|[A-Za-z0-9+/]{3}=?)?$' THEN
        RETURN NULL;
    END IF;
    digits := rtrim(digits, '=');
    RETURN decode(digits || repeat('=', (4 - length(digits) % 4) % 4), 'base64');
END
$$;

CREATE FUNCTION idem_webhook_source_set LANGUAGE plpgsql SECURITY DEFINER AS $$
#variable_conflict use_column
DECLARE
    formats   CONSTANT text[] := ARRAY(SELECT f.name FROM _idem_webhook_formats() f);
    sender    text COLLATE "C" := $1;
    form      record;
    span      interval := '0';
    bytes     bytea := $3;
    kept      interval;
    now       timestamptz;
    old_until timestamptz;
BEGIN
    PERFORM _idem_check_secret_name(sender, 'source');
    IF $2 IS NULL THEN
        PERFORM _idem_null('format');
    END IF;
    SELECT f.name, f.is_timed INTO form FROM _idem_webhook_formats() f WHERE f.name = $2 COLLATE "C";
    IF NOT FOUND THEN
        PERFORM _idem_invalid(format('unknown webhook format "%s"', $2), hint => 'The formats are: standard, stripe, github, slack, shopify.');
    ELSIF form.is_timed THEN
        span := _idem_tolerance($5);
    ELSIF $5 IS NOT NULL THEN
        PERFORM _idem_invalid('webhooks of this format have no time of signing', hint => 'Leave tolerance out.');
    END IF;
    IF bytes IS NULL THEN
        PERFORM _idem_null('secret');
    ELSIF form.name = 'standard' AND substr(bytes, 1, 6) = 'whsec_'::bytea THEN
        bytes := _idem_webhook_base64(substr(bytes, 7));
        IF bytes IS NULL THEN
            PERFORM _idem_invalid('secret is not in base64 after its prefix "whsec_"');
        END IF;
    ELSIF form.name = 'standard' THEN
        bytes := coalesce(_idem_webhook_base64(bytes), bytes);
    END IF;
    bytes := _idem_stored_secret(bytes, 8);
    kept := _idem_keep_old($4);
    PERFORM _idem_require_writable('idem_webhook_source_set()');
    PERFORM _idem_require_fresh_snapshots('idem_webhook_source_set()');
    LOCK TABLE ONLY idem_webhook_sources IN SHARE ROW EXCLUSIVE MODE;
    now := clock_timestamp();
    old_until := _idem_deadline(now, kept, 'keep_old');
    DELETE FROM ONLY idem_webhook_sources s
     WHERE s.source = sender
       AND (old_until <= now OR s.expires_at <= now OR octet_length(s.secret) > 64 OR s.format <> ALL (formats)
            OR s.secret = bytes AND s.format = form.name AND s.tolerance = span);
    UPDATE ONLY idem_webhook_sources s SET expires_at = old_until WHERE s.source = sender AND s.expires_at > old_until;
    INSERT INTO idem_webhook_sources (source, created_at, expires_at, format, tolerance, secret) VALUES (sender, now, 'infinity', form.name, span, bytes);
END
$$;

CREATE FUNCTION idem_webhook_source_drop LANGUAGE plpgsql SECURITY DEFINER AS $$
#variable_conflict use_column
DECLARE
    sender text COLLATE "C" := $1;
BEGIN
    PERFORM _idem_check_secret_name(sender, 'source');
    PERFORM _idem_require_writable('idem_webhook_source_drop()');
    PERFORM _idem_require_fresh_snapshots('idem_webhook_source_drop()');
    LOCK TABLE ONLY idem_webhook_sources IN SHARE ROW EXCLUSIVE MODE;
    DELETE FROM ONLY idem_webhook_sources s WHERE s.source = sender;
    RETURN FOUND;
END
$$;
