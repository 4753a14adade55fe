-- idem_machine_dot, idem_machine_mermaid.
\ir ../include/helpers.psql
SELECT plan(10);
DELETE FROM idem_machines WHERE starts_with(name, 'draw:');
SELECT idem_machine_define('draw:m', '{"initial": ["b", "a"], "transitions": {"b": ["c"], "a": ["c", "a"]}}');
SELECT is(idem_machine_mermaid('draw:m'), 'stateDiagram-v2
    state "b" as s0
    state "a" as s1
    state "c" as s2
    [*] --> s0
    [*] --> s1
    s0 --> s2
    s1 --> s2
    s1 --> s1
    s2 --> [*]
', 'mermaid');
SELECT matches(idem_machine_dot('draw:m'), '^digraph "draw:m" \{\n', 'dot_has_the_name_of_the_machine');
SELECT ok(idem_machine_dot('draw:m') LIKE '%
    s0 [label="b"];
    s1 [label="a"];
    s2 [label="c", peripheries=2];
    start -> s0;
    start -> s1;
    s0 -> s2;
    s1 -> s2;
    s1 -> s1;
}
', 'dot');
SELECT idem_machine_define('draw:odd "name\', '{"initial": ["a\"\\<>{}|&;#\nü"], "states": ["a\"\\<>{}|&;#\nü"]}');
SELECT ok(position('s0 [label="a\"\\<>{}|&amp;;#\nü", peripheries=2];' IN idem_machine_dot('draw:odd "name\')) > 0, 'dot_escapes_names');
SELECT ok(starts_with(idem_machine_dot('draw:odd "name\'), 'digraph "draw:odd \"name\\" {'), 'dot_escapes_the_machine');
SELECT ok(position('state "a#34;#92;#60;#62;#123;#125;#124;#38;#59;#35;<br>ü" as s0' IN idem_machine_mermaid('draw:odd "name\')) > 0, 'mermaid_escapes_names');
SELECT throws_ok($$ SELECT idem_machine_dot('draw:none') $$, '42704', NULL, 'dot_of_an_unknown_machine');
SELECT throws_ok($$ SELECT idem_machine_mermaid('draw:none') $$, '42704', NULL, 'mermaid_of_an_unknown_machine');
SELECT throws_ok($$ SELECT idem_machine_dot(NULL) $$, '22004', NULL, 'dot_of_null');
SELECT throws_ok($$ SELECT idem_machine_mermaid(NULL) $$, '22004', NULL, 'mermaid_of_null');
DELETE FROM idem_machines WHERE starts_with(name, 'draw:');
SELECT * FROM finish();
