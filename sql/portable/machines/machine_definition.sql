-- A machine's definition: its form, and its states.

-- A name in a message. A long one is cut.
CREATE FUNCTION _idem_quoted_state(state text) RETURNS text LANGUAGE plpgsql IMMUTABLE AS $$
DECLARE
    shown text := left(state, 80);
BEGIN
    WHILE octet_length(shown) > 80 LOOP
        shown := left(shown, -1);
    END LOOP;
    RETURN '"' || shown || CASE WHEN shown = state THEN '"' ELSE '..."' END;
END
$$;

CREATE FUNCTION _idem_first_duplicate(names text[]) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT d.name FROM (SELECT u.name, u.n, row_number() OVER (PARTITION BY u.name ORDER BY u.n) AS nth FROM unnest(names) WITH ORDINALITY AS u (name, n)) d
     WHERE d.nth = 2 ORDER BY d.n LIMIT 1
$$;

CREATE FUNCTION _idem_refuse_definition(subject text, requirement text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    PERFORM _idem_invalid(format('%s must be %s', subject, requirement),
        hint => 'A definition looks like {"initial": ["a"], "transitions": {"a": ["b", "c"]}}.');
END
$$;

CREATE FUNCTION _idem_check_state_list(list jsonb, subject text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    IF jsonb_typeof(list) <> 'array' THEN
        PERFORM _idem_refuse_definition(subject, 'an array of states');
    ELSIF EXISTS (SELECT FROM jsonb_array_elements(list) AS e (element) WHERE jsonb_typeof(e.element) <> 'string') THEN
        PERFORM _idem_refuse_definition('each state in ' || subject, 'a string');
    END IF;
END
$$;

CREATE FUNCTION _idem_check_definition(definition jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    member record;
    source record;
BEGIN
    IF jsonb_typeof(definition) <> 'object' THEN
        PERFORM _idem_refuse_definition('definition', 'a JSON object');
    END IF;
    FOR member IN SELECT e.key, e.value FROM jsonb_each(definition) AS e LOOP
        IF member.key IN ('initial', 'states') THEN
            PERFORM _idem_check_state_list(member.value, '"' || member.key || '"');
        ELSIF member.key <> 'transitions' THEN
            PERFORM _idem_invalid(format('definition has an unknown member "%s"', member.key),
                hint => 'Its members are "initial", "transitions" and, if you like, "states".');
        ELSIF jsonb_typeof(member.value) <> 'object' THEN
            PERFORM _idem_refuse_definition('"transitions"', 'an object');
        ELSE
            FOR source IN SELECT e.key, e.value FROM jsonb_each(member.value) AS e LOOP
                PERFORM _idem_check_state_list(source.value, format('"transitions" of "%s"', source.key));
            END LOOP;
        END IF;
    END LOOP;
END
$$;

-- The states of a definition, breadth first from the initial ones. 22023 when the definition is wrong. REQUIRES: its form was checked.
CREATE FUNCTION _idem_states(definition jsonb) RETURNS text[] LANGUAGE plpgsql STRICT AS $$
DECLARE
    initial CONSTANT text[] := ARRAY(SELECT jsonb_array_elements_text(definition -> 'initial'));
    sources CONSTANT text[] := ARRAY(SELECT jsonb_object_keys(definition -> 'transitions'));
    listed  CONSTANT text[] := ARRAY(SELECT jsonb_array_elements_text(definition -> 'states'));
    targets text[];
    named   text[];
    culprit text;
    source  text;
    walk    text[] := initial;
    i       integer := 1;
BEGIN
    targets := ARRAY(SELECT t.name FROM unnest(sources) WITH ORDINALITY AS s (name, n),
                            jsonb_array_elements_text(definition -> 'transitions' -> s.name) WITH ORDINALITY AS t (name, n) ORDER BY s.n, t.n);
    named := initial || sources || targets || listed;
    IF '' = ANY (named) THEN
        PERFORM _idem_invalid('state must not be empty');
    ELSIF initial = '{}' THEN
        PERFORM _idem_invalid('machine has no initial state');
    END IF;
    culprit := _idem_first_duplicate(initial);
    IF culprit IS NOT NULL THEN
        PERFORM _idem_invalid(format('initial state %s is listed twice', _idem_quoted_state(culprit)));
    END IF;
    SELECT u.name INTO culprit FROM unnest(initial) WITH ORDINALITY AS u (name, n) WHERE u.name <> ALL (sources || targets) ORDER BY u.n LIMIT 1;
    IF culprit IS NOT NULL AND definition -> 'states' IS NULL THEN
        PERFORM _idem_invalid(format('unknown initial state %s: neither "transitions" nor "states" has it', _idem_quoted_state(culprit)));
    END IF;
    FOREACH source IN ARRAY sources LOOP
        culprit := _idem_first_duplicate(ARRAY(SELECT jsonb_array_elements_text(definition -> 'transitions' -> source)));
        IF culprit IS NOT NULL THEN
            PERFORM _idem_invalid(format('transition from %s to %s is listed twice', _idem_quoted_state(source), _idem_quoted_state(culprit)));
        END IF;
    END LOOP;
    culprit := _idem_first_duplicate(listed);
    IF culprit IS NOT NULL THEN
        PERFORM _idem_invalid(format('state %s is listed twice in "states"', _idem_quoted_state(culprit)));
    END IF;
    SELECT u.name INTO culprit FROM unnest(named) WITH ORDINALITY AS u (name, n) WHERE u.name <> ALL (listed) ORDER BY u.n LIMIT 1;
    IF culprit IS NOT NULL AND definition -> 'states' IS NOT NULL THEN
        PERFORM _idem_invalid(format('state %s is not in "states"', _idem_quoted_state(culprit)));
    END IF;
    WHILE i <= cardinality(walk) LOOP
        walk := walk || ARRAY(SELECT t.name FROM jsonb_array_elements_text(definition -> 'transitions' -> walk[i]) WITH ORDINALITY AS t (name, n)
                               WHERE t.name <> ALL (walk) ORDER BY t.n);
        i := i + 1;
    END LOOP;
    SELECT u.name INTO culprit FROM unnest(named) WITH ORDINALITY AS u (name, n) WHERE u.name <> ALL (walk) ORDER BY u.n LIMIT 1;
    IF culprit IS NOT NULL THEN
        PERFORM _idem_invalid(format('state %s cannot be reached from an initial state', _idem_quoted_state(culprit)));
    END IF;
    RETURN walk;
END
$$;
