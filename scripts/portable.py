#!/usr/bin/python3
"""Makes the portable edition from the SQL of the C edition.

    portable.py VERSION FILE...              prints idem--portable.sql: the files are those of sql/, in the order of the installation; those that are below
                                             sql/portable alone are named as if they were there
    portable.py --uninstall VERSION FILE...  prints the script that takes it away
    portable.py --tle VERSION FILE...        prints the script that registers it as an extension with pg_tle
    portable.py --missing VERSION FILE...    prints the functions that have no body yet

Types, tables, views, signatures and comments are those of the files. Bodies are in the files of the same names below sql/portable:

    CREATE FUNCTION idem_claim LANGUAGE plpgsql SECURITY DEFINER AS $$ ... $$;   the body of a function of the C edition
    CREATE FUNCTION _idem_policy(scope text) ...;                                a function that the portable edition alone has
    CREATE VIEW idem_replicated_tables ...;                                      what the view is here; @shared@ in it: what it is in the C edition
    OMIT idem_ring_create;                                                       what it does not have, with its comments and triggers

A file's own statements come before the first function of the file of the same name in sql/. Each function is pinned to the search_path of the
installation, but for those that say UNPINNED, and helpers in SQL (`_idem_...`) without PINNED, which only pinned functions may call. Helpers in PL/pgSQL are pinned, too:
the types of their variables are looked up once in a session, and a caller with a search_path of its own could be the one who does it first. Those that say INNER
are not: functions that run with the owner's rights call them, and nobody else may. A pinned function costs several microseconds more a call.
"""

import os
import re
import sys

NAME = r'(?P<name>[a-z_0-9]+)'
INTERNAL = 'Internal: of the portable edition alone.'


def statements(text):
    """The statements, without the comments before them."""
    start = at = 0
    depth_atomic = False
    pattern = re.compile(r"--[^\n]*|'(?:[^']|'')*'|\"[^\"]*\"|\$([a-z_]*)\$|BEGIN ATOMIC|\nEND;|;", re.S)
    found = []
    while True:
        token = pattern.search(text, at)
        if token is None:
            break
        at = token.end()
        word = token.group()
        if word.startswith('$'):
            at = text.index(word, at) + len(word)
        elif word == 'BEGIN ATOMIC':
            depth_atomic = True
        elif word == ';' and not depth_atomic or word == '\nEND;' and depth_atomic:
            depth_atomic = False
            found.append(text[start:at - 1].strip())
            start = at
    rest = without_comments(text[start:])
    if rest:
        raise SystemExit(f'unfinished statement: {rest[:60]}')
    return [statement for statement in map(without_comments, found) if statement]


def without_comments(statement):
    """Without the comments that stand before the statement."""
    return re.sub(r'\A(?:\s*--[^\n]*\n)*\s*', '', statement + '\n').strip()


def balanced(text, at):
    """The end of what the parenthesis at `at` opens, after its closing one."""
    depth = 0
    for token in re.finditer(r"'(?:[^']|'')*'|\"[^\"]*\"|[()]", text[at:]):
        depth += {'(': 1, ')': -1}.get(token.group(), 0)
        if depth == 0:
            return at + token.end()
    raise SystemExit(f'unbalanced parenthesis: {text[at:at + 60]}')


def types_of(arguments):
    """The types of the input arguments, as COMMENT ON FUNCTION names them."""
    types = []
    for argument in re.findall(r"(?:'(?:[^']|'')*'|\([^()]*\)|[^,'()])+", arguments):
        argument = re.sub(r'\s+DEFAULT\s.*', '', argument.strip(), flags=re.S)
        if argument and not argument.startswith('OUT '):
            types.append(re.sub(r'^(VARIADIC|INOUT) ', '', argument).split(' ', 1)[-1])
    return ', '.join(types)


class Function:
    """CREATE FUNCTION or PROCEDURE, taken apart."""

    def __init__(self, statement):
        head = re.match(rf'CREATE (?P<kind>FUNCTION|PROCEDURE) {NAME}', statement)
        self.kind, self.name = head['kind'], head['name']
        self.arguments = self.types = None
        end = head.end()
        if statement[end] == '(':
            close = balanced(statement, end)
            self.arguments = statement[end + 1:close - 1]
            self.types = types_of(self.arguments)
            end = close
        self.rest = statement[end:].strip()

    def is_in_c(self):
        return re.search(r'\bLANGUAGE c\b', self.rest) is not None

    def is_inner(self):
        return re.search(r'\bINNER\b', self.rest.split(' AS $')[0]) is not None

    def attributes(self):
        """Of a function in C: all but its language and its symbol."""
        return re.sub(r"\s*AS '.*", '', self.rest.replace('LANGUAGE c', '')).strip()


def is_function(statement):
    return re.match(r'CREATE (FUNCTION|PROCEDURE) ', statement) is not None


class Edition:
    """The statements of the portable edition, in order."""

    def __init__(self, files):
        self.omitted, self.bodies, self.views, self.parts, self.dumped = set(), {}, {}, [], ['idem_outbox_leases', 'idem_ids']
        self.inner = []
        for file in files:
            own = file.replace('sql/', 'sql/portable/', 1)
            helpers = self.read_own(own) if os.path.exists(own) else []
            shared = []
            if os.path.exists(file):
                with open(file, encoding='utf-8') as source:
                    shared = [(statement, False) for statement in statements(source.read())]
            first = next((place for place, (statement, _) in enumerate(shared) if is_function(statement)), len(shared))
            self.parts.append(shared[:first] + helpers + shared[first:])

    def read_own(self, file):
        helpers = []
        with open(file, encoding='utf-8') as source:
            own = statements(source.read())
        for statement in own:
            if statement.startswith('OMIT '):
                self.omitted.add(re.sub(r'\s+', ' ', statement.removeprefix('OMIT ')))
            elif is_function(statement) and Function(statement).arguments is None:
                body = Function(statement)
                self.bodies[body.name] = body
            elif statement.startswith('CREATE VIEW '):
                self.views[statement.split()[2]] = statement
            else:
                helpers.append((statement, True))
                if is_function(statement) and Function(statement).is_inner():
                    self.inner.append(Function(statement).name)
        return helpers

    def is_omitted(self, statement):
        if is_function(statement):
            function = Function(statement)
            return bool({function.name, f'{function.name}({function.types})'} & self.omitted)
        named = re.match(rf'(?:CREATE (?:TABLE|VIEW|TYPE|SEQUENCE|ACCESS METHOD|OPERATOR CLASS|TRIGGER)|COMMENT ON [A-Z ]+?|ALTER TABLE|'
                         rf'SELECT pg_catalog.pg_extension_config_dump\(\'|SELECT|INSERT INTO) ?{NAME}', statement)
        name = named['name'] if named else None
        signature = re.match(r'COMMENT ON (?:FUNCTION|PROCEDURE) ([a-z_0-9]+\([^)]*\))', statement)
        target = re.search(r' ON ([a-z_0-9]+)', statement)
        trigger = re.search(r'EXECUTE FUNCTION ([a-z_0-9]+)\(', statement) or re.search(r'ENABLE ALWAYS TRIGGER ([a-z_0-9]+)', statement)
        return (name in self.omitted or bool(signature) and signature[1] in self.omitted
                or bool(trigger) and trigger[1] in self.omitted
                or statement.startswith(('CREATE INDEX', 'CREATE TRIGGER')) and bool(target) and target[1] in self.omitted)

    def lines(self):
        """The statements as (kind, text); kind: function, view, comment or once (what is made by the first installation alone)."""
        for part in self.parts:
            for statement, is_own in part:
                dumped = re.match(rf"SELECT pg_catalog.pg_extension_config_dump\('{NAME}'", statement)
                if self.is_omitted(statement):
                    continue
                elif dumped:
                    self.dumped.append(dumped['name'])
                    yield 'dumped', statement
                else:
                    yield from self.translated(statement, is_own)

    def translated(self, statement, is_own):
        if is_function(statement):
            function = Function(statement)
            body = self.bodies.get(function.name)
            if body is not None and not is_own:
                attributes = function.attributes() if function.is_in_c() else re.match(r'(RETURNS .*?)LANGUAGE', function.rest, re.S)[1].strip()
                yield 'function', define(function, f'{attributes} {body.rest}')
            elif function.is_in_c():
                self.missing(function)
            else:
                yield 'function', define(function, function.rest)
                if is_own and function.name.startswith('_'):
                    yield 'comment', f"COMMENT ON {function.kind} {function.name}({function.types}) IS '{INTERNAL}'"
        elif statement.startswith('CREATE VIEW '):
            shared = re.sub(r'\ACREATE VIEW [a-z_0-9]+ AS\s+', '', statement)
            view = self.views.get(statement.split()[2], statement).replace('@shared@', shared)
            yield 'view', view.replace('CREATE VIEW', 'CREATE OR REPLACE VIEW', 1)
        elif statement.startswith('COMMENT ON '):
            yield 'comment', statement
        elif statement in ('SELECT _idem_citus_note()', 'SELECT idem_set_privileges()'): # for what each installation makes anew
            yield 'function', statement
        else:
            yield 'once', statement
            if is_own and statement.startswith('CREATE TYPE '):
                yield 'once', f"COMMENT ON TYPE {statement.split()[2]} IS '{INTERNAL}'"

    missed = None

    def missing(self, function):
        if self.missed is None:
            raise SystemExit(f'portable.py: {function.name}({function.types}) has no body in sql/portable')
        self.missed.append(f'{function.name}({function.types})')


# How the C edition finds itself in its own catalog, and what the portable edition has instead. Its functions find their schema by their search_path.
FOUND_OTHERWISE = [
    (r"\(SELECT extnamespace FROM pg_extension WHERE extname = 'idem'\)", "(SELECT pronamespace FROM pg_proc WHERE oid = 'idem_version'::regproc)"),
    (r"\(SELECT extnamespace::regnamespace FROM pg_extension WHERE extname = 'idem'\)",
     "(SELECT pronamespace::regnamespace FROM pg_proc WHERE oid = 'idem_version'::regproc)"),
    (r"\(SELECT extversion FROM pg_extension WHERE extname = 'idem'\)", "'@version@'"),
    (r"CASE -- Helpers of the portable edition", r"CASE WHEN proname = ANY ('@inner@'::text[]) THEN 'owner' -- Helpers of the portable edition"),
    (r"WITH members AS \(\s*SELECT d\.classid.*?WHERE e\.extname = 'idem'\)", "WITH members AS (SELECT classid, objid, is_new FROM _idem_objects())"),
]


LITERALS = re.compile(r"""--[^\n]*|"[^"]*"|\b[Ee]'(?:[^'\\]|\\.|'')*'(?:\s*\n\s*'(?:[^'\\]|\\.|'')*')*|(?P<plain>'(?:[^']|'')*'(?:\s*\n\s*'(?:[^']|'')*')*)""")


def with_escapes(body):
    """A body whose literals mean the same whatever standard_conforming_strings is."""
    return LITERALS.sub(lambda found: 'E' + found[0].replace('\\', '\\\\') if found['plain'] and '\\' in found['plain'] else found[0], body)


def define(function, rest):
    """A function with a body that every supported server takes."""
    for pattern, replacement in FOUND_OTHERWISE:
        rest = re.sub(pattern, replacement, rest, flags=re.S)
    atomic = re.search(r'BEGIN ATOMIC(.*)\nEND$', rest + '\n', re.S) or re.search(r'BEGIN ATOMIC(.*?)\s*(?:\nEND)?\Z', rest, re.S)
    if atomic:
        rest = rest[:atomic.start()] + 'AS $$' + atomic[1].rstrip() + '\n$$'
    rest = re.sub(r'\s*SET search_path = pg_catalog, pg_temp', '', rest)
    is_pinned = ' UNPINNED' not in rest and not function.is_inner() and (
        ' PINNED' in rest or not function.name.startswith('_') or 'SECURITY DEFINER' in rest or 'LANGUAGE plpgsql' in rest)
    rest = re.sub(r' ((UN)?PINNED|INNER)', '', rest, count=1)
    if is_pinned:
        rest = re.sub(r'\bAS \$', 'SET search_path FROM CURRENT AS $', rest, count=1)
    attributes, dollar, body = rest.partition(' AS $')
    return f'CREATE OR REPLACE {function.kind} {function.name}({function.arguments}) {attributes}{dollar}{with_escapes(body)}'


HEAD = r'''-- idem {version}, the portable edition: for servers where no C library can be loaded. Made by the build; do not edit.
--
--     psql -v schema=idem -f {usage}
--
-- {effect}
\set ON_ERROR_STOP on
\if :{{?schema}}
\else
    \set schema idem
\endif
BEGIN;
SET LOCAL client_min_messages = warning;
'''

ENTER_SCHEMA = r'''SELECT set_config('search_path', quote_ident(:'schema') || ', pg_temp', true) AS idem_path \gset
'''

PREPARE_INSTALLATION = r'''SET LOCAL check_function_bodies = off;
SELECT format('CREATE SCHEMA %I', :'schema') WHERE to_regnamespace(quote_ident(:'schema')) IS NULL \gexec
''' + ENTER_SCHEMA + r'''SELECT to_regclass(quote_ident(:'schema') || '.idem_keys') IS NULL AS idem_is_new \gset
SELECT set_config('idem_portable.installed_before', coalesce(string_agg(format('%s:%s', o.classid::oid, o.oid), ','), ''), true) AS idem_before
  FROM (SELECT tableoid::regclass AS classid, oid FROM pg_proc WHERE pronamespace = quote_ident(:'schema')::regnamespace
        UNION ALL SELECT tableoid, oid FROM pg_class WHERE relnamespace = quote_ident(:'schema')::regnamespace
        UNION ALL SELECT tableoid, oid FROM pg_type WHERE typnamespace = quote_ident(:'schema')::regnamespace) o \gset
'''


def quoted(statement):
    """A statement that names its own schema."""
    if '@extschema@' not in statement:
        return statement + ';\n'
    return f"SELECT replace($idem_install${statement}$idem_install$, '@extschema@', quote_ident(:'schema')) \\gexec\n"


def install(version, edition):
    head = HEAD.format(version=version, usage='idem--portable.sql        again: brings an older installation up to this version',
                       effect='The schema is made if it is missing. Everything in it belongs to the role that runs this; no superuser is needed.')
    out, is_once = [head, PREPARE_INSTALLATION], False
    for kind, statement in edition.lines():
        if kind == 'dumped': # by pg_dump, as every table that is in no extension
            continue
        if (kind == 'once') != is_once:
            out.append('\\endif\n' if is_once else '\\if :idem_is_new\n')
            is_once = not is_once
        out.append(quoted(statement))
    out.append(('\\endif\n' if is_once else '') + 'COMMIT;\n')
    return filled(''.join(out), version, edition)


def filled(text, version, edition):
    """The text with what the build knows in it."""
    text = text.replace('@version@', version)
    for name, members in objects(edition).items():
        array = '{' + ','.join('"' + member.replace('"', '\\"') + '"' for member in members) + '}'
        text = text.replace(f"'@{name}@'", with_escapes(f"'{array}'"))
    return text


TLE = r'''-- idem {version}, the portable edition, for pg_tle. Made by the build; do not edit.
--
--     psql -f idem--portable-tle.sql            by a role that has pgtle_admin
--     psql -c 'CREATE SCHEMA idem' -c 'CREATE EXTENSION idem SCHEMA idem'
\set ON_ERROR_STOP on
SELECT pgtle.install_extension('idem', '{version}', 'Makes work take effect exactly once', $_idem_tle_$
SET LOCAL search_path = @extschema@, pg_temp;
SET LOCAL check_function_bodies = off;
SELECT set_config('idem_portable.installed_before', '', true);
{body}$_idem_tle_$);
'''


def tle(version, edition):
    body = ''.join(statement + ';\n' for _, statement in edition.lines())
    return filled(TLE.format(version=version, body=body), version, edition)


MADE = re.compile(rf'CREATE (?:OR REPLACE )?(?P<kind>FUNCTION|PROCEDURE|TABLE|VIEW|TYPE|SEQUENCE) {NAME}')


def made_by(edition):
    """What the script makes, as (kind, name as DROP takes it), in order."""
    for _, statement in edition.lines():
        made = MADE.match(statement)
        if made and made['kind'] in ('FUNCTION', 'PROCEDURE'):
            yield made['kind'], f"{made['name']}({types_of(statement[made.end() + 1:balanced(statement, made.end()) - 1])})"
        elif made:
            yield made['kind'], made['name']


def objects(edition):
    """The same by catalog, and what a dump carries."""
    found = {'routines': [], 'relations': [], 'types': []}
    for kind, name in made_by(edition):
        found[{'FUNCTION': 'routines', 'PROCEDURE': 'routines', 'TYPE': 'types'}.get(kind, 'relations')].append(name)
    return found | {'dumped': list(dict.fromkeys(edition.dumped)), 'inner': edition.inner}


def uninstall(version, edition):
    head = HEAD.format(version=version, usage='idem--portable-uninstall.sql',
                       effect='Takes idem and all its keys away. Tables with guards keep it from that: detach them first.')
    drops = [f'DROP {kind} IF EXISTS {name};\n' for kind, name in made_by(edition)]
    return head + ENTER_SCHEMA + ''.join(reversed(drops)) + 'COMMIT;\n'


def main():
    mode = sys.argv.pop(1) if sys.argv[1].startswith('--') else '--install'
    version, files = sys.argv[1], sys.argv[2:]
    edition = Edition(files)
    if mode == '--missing':
        edition.missed = []
    if mode == '--missing':
        list(edition.lines())
        print('\n'.join(edition.missed))
    else:
        print({'--install': install, '--uninstall': uninstall, '--tle': tle}[mode](version, edition), end='')


main()
