-- A function in PL/pgSQL or SQL has no arguments of just any type: cast the parts to text.
OMIT idem_key("any");

CREATE FUNCTION idem_key LANGUAGE plpgsql AS $$
BEGIN
    IF parts IS NULL OR EXISTS (SELECT FROM unnest(parts) AS p (part) WHERE p.part IS NULL) THEN
        PERFORM _idem_null('key part');
    ELSIF cardinality(parts) = 0 THEN
        PERFORM _idem_invalid('a key needs at least one part');
    END IF;
    RETURN (SELECT string_agg(regexp_replace(p.part, E'([:\\\\])', E'\\\\\\1', 'g'), ':' ORDER BY p.place) FROM unnest(parts) WITH ORDINALITY AS p (part, place));
END
$$;

-- A string of the canonical form.
CREATE FUNCTION _idem_quoted(value text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    quoted text := replace(replace(value, '\', '\\'), '"', '\"');
BEGIN
    IF quoted ~ '[\x01-\x1f]' THEN
        FOR code IN 1..31 LOOP
            quoted := replace(quoted, chr(code), '\u00' || lpad(to_hex(code), 2, '0'));
        END LOOP;
    END IF;
    RETURN '"' || quoted || '"';
END
$$;

-- The canonical form of a JSON value (extension/src/core/canonical_json.hpp).
CREATE FUNCTION _idem_canonical(value jsonb) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
BEGIN
    CASE jsonb_typeof(value)
    WHEN 'object' THEN
        RETURN (SELECT '{' || coalesce(string_agg(_idem_quoted(m.key) || ':' || _idem_canonical(m.value), ',' ORDER BY octet_length(m.key), m.key COLLATE "C"), '') || '}'
                  FROM jsonb_each(value) m);
    WHEN 'array' THEN
        RETURN (SELECT '[' || coalesce(string_agg(_idem_canonical(e.value), ',' ORDER BY e.place), '') || ']'
                  FROM jsonb_array_elements(value) WITH ORDINALITY AS e (value, place));
    WHEN 'string' THEN
        RETURN _idem_quoted(value #>> '{}');
    WHEN 'number' THEN
        RETURN trim_scale((value #>> '{}')::numeric)::text;
    ELSE
        RETURN value::text;
    END CASE;
END
$$;

CREATE FUNCTION idem_fingerprint LANGUAGE sql AS $$ SELECT '\x01'::bytea || sha256(convert_to(_idem_canonical($1), 'UTF8')) $$;
CREATE FUNCTION idem_fingerprint_text LANGUAGE sql AS $$ SELECT '\x01'::bytea || sha256(convert_to($1, 'UTF8')) $$;
CREATE FUNCTION idem_fingerprint_bytes LANGUAGE sql AS $$ SELECT '\x01'::bytea || sha256($1) $$;
