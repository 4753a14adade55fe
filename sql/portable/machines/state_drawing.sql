-- Drawings of a machine. Nodes are s0, s1, and so on; a state's name appears as a label only.

-- The states by number, in the order of _idem_states, and their transitions; state_to is NULL for a state that has none.
CREATE FUNCTION _idem_graph(definition jsonb, OUT state_from integer, OUT state text, OUT nth bigint, OUT state_to integer)
RETURNS SETOF record LANGUAGE sql VOLATILE AS $$
    WITH walk AS (SELECT _idem_states(definition) AS states)
    SELECT s.n::integer - 1, s.name, t.n, array_position(w.states, t.name) - 1
      FROM walk w CROSS JOIN unnest(w.states) WITH ORDINALITY AS s (name, n)
           LEFT JOIN jsonb_array_elements_text(definition -> 'transitions' -> s.name) WITH ORDINALITY AS t (name, n) ON true
     ORDER BY s.n, t.n
$$;

-- A double-quoted string of the DOT language. In a label, a backslash starts an escape and an ampersand an HTML entity.
CREATE FUNCTION _idem_dot_string(label text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT '"' || replace(replace(translate(replace(replace(label, '\', '\\'), '"', '\"'), E'\r\t', '  '), '&', '&amp;'), E'\n', '\n') || '"'
$$;

-- Mermaid's quoted strings have no escapes, only numbered entities. Every character that could be syntax becomes an entity.
CREATE FUNCTION _idem_mermaid_string(label text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT '"' || coalesce(string_agg(CASE WHEN c.c = E'\n' THEN '<br>' WHEN c.c ~ '^[A-Za-z0-9 _.-]$' OR ascii(c.c) > 127 THEN c.c
                                           ELSE '#' || ascii(c.c) || ';' END, '' ORDER BY c.n), '') || '"'
      FROM regexp_split_to_table(label, '') WITH ORDINALITY AS c (c, n)
$$;

CREATE FUNCTION idem_machine_dot LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    PERFORM _idem_check_machine($1);
    RETURN (
        SELECT format(E'digraph %s {\n', _idem_dot_string($1))
            || E'    rankdir=LR;\n'
               '    node [shape=box, style="rounded,filled", fillcolor="#eef3fa", color="#44546a", fontname="Helvetica"];\n'
               '    edge [color="#44546a"];\n'
               '    start [shape=point, width=0.12, fillcolor="#44546a"];\n'
            || string_agg(format(E'    s%s [label=%s%s];\n', g.state_from, _idem_dot_string(g.state), CASE WHEN g.state_to IS NULL THEN ', peripheries=2' END), ''
                          ORDER BY g.state_from) FILTER (WHERE coalesce(g.nth, 1) = 1)
            || string_agg(format(E'    start -> s%s;\n', g.state_from), '' ORDER BY g.state_from)
               FILTER (WHERE coalesce(g.nth, 1) = 1 AND d.definition -> 'initial' ? g.state)
            || coalesce(string_agg(format(E'    s%s -> s%s;\n', g.state_from, g.state_to), '' ORDER BY g.state_from, g.nth) FILTER (WHERE g.nth IS NOT NULL), '')
            || E'}\n'
          FROM (SELECT _idem_definition($1)) AS d (definition), _idem_graph(d.definition) AS g);
END
$$;

CREATE FUNCTION idem_machine_mermaid LANGUAGE plpgsql SECURITY DEFINER AS $$
BEGIN
    PERFORM _idem_check_machine($1);
    RETURN (
        SELECT E'stateDiagram-v2\n'
            || string_agg(format(E'    state %s as s%s\n', _idem_mermaid_string(g.state), g.state_from), '' ORDER BY g.state_from)
               FILTER (WHERE coalesce(g.nth, 1) = 1)
            || string_agg(format(E'    [*] --> s%s\n', g.state_from), '' ORDER BY g.state_from)
               FILTER (WHERE coalesce(g.nth, 1) = 1 AND d.definition -> 'initial' ? g.state)
            || string_agg(format(E'    s%s --> %s\n', g.state_from, coalesce('s' || g.state_to, '[*]')), '' ORDER BY g.state_from, g.nth)
          FROM (SELECT _idem_definition($1)) AS d (definition), _idem_graph(d.definition) AS g);
END
$$;
