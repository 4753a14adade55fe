#!/usr/bin/python3
"""
Makes the portable edition from the SQL of the C edition: portable.py --install | --uninstall | --tle VERSION FILE...

The files are those of sql/ in the order of the installation. Their statements are taken as they are, except for what the file below sql/portable says:
`CREATE FUNCTION name LANGUAGE ...`, without arguments, is the body of a function; `CREATE VIEW` is another definition (@shared@ in it: the C edition's);
`OMIT name` leaves an object out, with all that belongs to it. Other statements there are the portable edition's own, and come before the file's functions.
Every name of an object gets the schema, and every function is pinned to a search_path without it. Words before a function's body change that:

    UNPINNED   it has the caller's search_path. Helpers in SQL (`_idem_...`), which only pinned functions call, do without this word, and PINNED pins them.
    INNER      it is not pinned, which saves microseconds a call. Only functions with the owner's rights call it, and nobody else may.
    ENTRY      it checks first whose schema it calls functions in, as those with the owner's rights do.
    BOUND      it keeps BEGIN ATOMIC, and so calls the same functions after ALTER SCHEMA RENAME.

`PART name AS $$ ... $$` is text that bodies name as @name@, or @name: text | text@ with texts for @1@ and @2@ in it. `WHEN condition ... ELSE ...` in a body is two ways of one call: checked_by_oid says how.
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


def read(file):
    """The text of a file; of one that is not there, nothing."""
    if not os.path.exists(file):
        return ''
    with open(file, encoding='utf-8') as source:
        return source.read()


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


PARTS = {}


class Edition:
    """The statements of the portable edition, in order."""

    def __init__(self, files):
        self.omitted, self.bodies, self.views, self.parts, self.inner = set(), {}, {}, [], []
        self.dumped = ['idem_outbox_leases', 'idem_ids']
        for file in files:
            own = file.replace('sql/', 'sql/portable/', 1)
            if not os.path.exists(file) and not os.path.exists(own):
                raise SystemExit(f'portable.py: there is neither {file} nor {own}')
            helpers = self.read_own(own)
            shared = [(statement, False) for statement in statements(read(file))]
            first = next((place for place, (statement, _) in enumerate(shared) if is_function(statement)), len(shared))
            self.parts.append(shared[:first] + helpers + shared[first:])

    def read_own(self, file):
        helpers = []
        for statement in statements(read(file)):
            part = re.match(r'PART ([a-z_]+) AS \$\$(.*)\$\$\Z', statement, re.S)
            if part:
                PARTS[part[1]] = part[2].strip()
            elif statement.startswith('OMIT '):
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
        """Whether its head has the name of an object that is omitted, or the signature of a function."""
        if is_function(statement):
            function = Function(statement)
            head = f'{function.name} {function.name}({function.types})'
        else:
            head = re.split(r"\sIS\s+'", statement)[0]
        return any(re.search(rf'(?<!\w){re.escape(name)}(?!\w)', head) for name in self.omitted)

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
                    yield from map(without_extension, self.translated(statement, is_own))

    def translated(self, statement, is_own):
        if is_function(statement):
            function = Function(statement)
            body = self.bodies.get(function.name)
            if body is not None and not is_own:
                attributes = function.attributes() if function.is_in_c() else re.match(r'(RETURNS .*?)LANGUAGE', function.rest, re.S)[1].strip()
                yield 'function', define(function, f'{attributes} {body.rest}')
            elif function.is_in_c():
                raise SystemExit(f'portable.py: {function.name}({function.types}) has no body in sql/portable')
            else:
                yield 'function', define(function, function.rest)
        elif statement.startswith('CREATE VIEW '):
            shared = re.sub(r'\ACREATE VIEW [a-z_0-9]+ AS\s+', '', statement)
            view = self.views.get(statement.split()[2], statement).replace('@shared@', shared)
            yield 'view', view.replace('CREATE VIEW', 'CREATE OR REPLACE VIEW', 1)
        elif statement.startswith('COMMENT ON '):
            yield 'comment', statement
        elif statement in ('SELECT _idem_citus_note()', 'SELECT idem_set_privileges()') or statement.startswith('DO '): # for what each installation makes anew
            yield 'function', statement
        else:
            yield 'once', statement
            if is_own and statement.startswith('CREATE TYPE '):
                yield 'once', f"COMMENT ON TYPE {statement.split()[2]} IS '{INTERNAL}'"


# The server reads a CHECK from its text for each INSERT, and keeps what a domain checks.
CHECKED = r"""(?:"char"(\s+NOT NULL) |, )CHECK \(state IN \('p', 'c', 'r', 'd'\)\)"""


# How the C edition finds its schema, which may be renamed. It cannot call a function for that, as the function is in that schema.
HOME = "(SELECT extnamespace::regnamespace FROM pg_extension WHERE extname = 'idem')"


def without_extension(made):
    """A statement of Edition.lines: the portable edition is no extension."""
    kind, statement = made
    statement = statement.replace(HOME, "'@extschema@'::regnamespace")
    if statement.startswith('CREATE TABLE '):
        statement = re.sub(CHECKED, lambda found: f'_idem_state{found[1]}' if found[1] else '', statement)
    if "extname = 'idem'" in statement:
        raise SystemExit(f"portable.py: only {HOME} can be translated: {statement.split('(')[0]}")
    return kind, statement


LITERALS = re.compile(r"""--[^\n]*|"[^"]*"|\b[Ee]'(?:[^'\\]|\\.|'')*'(?:\s*\n\s*'(?:[^'\\]|\\.|'')*')*|(?P<plain>'(?:[^']|'')*'(?:\s*\n\s*'(?:[^']|'')*')*)""")


def with_escapes(body):
    """A body whose literals mean the same whatever standard_conforming_strings is."""
    return LITERALS.sub(lambda found: 'E' + found[0].replace('\\', '\\\\') if found['plain'] and '\\' in found['plain'] else found[0], body)


DISTRIBUTED = '_idem_is_distributed'
PINNED = 'SET search_path = pg_catalog, pg_temp'


# After ALTER SCHEMA RENAME, a call looks its names up in a schema that a stranger may have given the old name, with the rights of idem's owner. So it looks
# first who owns the schema of that name. Under REPEATABLE READ a query shows the catalog as it was. Names are looked up in it as it is, and so is this one,
# after the session has read what others changed: to lock a relation that it has not locked yet makes it read that. 2831 is an index of TOAST, on which no
# statement keeps a lock of this mode. The catalog's table has its schema: in a trigger's function, a transition table would hide it.
READ_MESSAGES = 'pg_catalog.pg_indexes_size(2831) IS NOT NULL'
HOME_CHECK = f"""BEGIN
IF {READ_MESSAGES} THEN
END IF;
PERFORM FROM pg_catalog.pg_namespace n WHERE n.nspname = '@named@' AND n.oid = pg_catalog.to_regnamespace('@extschema@') AND pg_get_userbyid(n.nspowner) = current_user;
IF NOT FOUND THEN
RAISE object_not_in_prerequisite_state USING MESSAGE = 'the schema of idem was renamed or has another owner',
HINT = 'After a renaming, run idem--portable.sql with the new name in idem.schema.';
END IF;"""


# What the owner and superusers alone may call. With the owner's rights, for the check: a superuser's call is one, too.
OWNERS = ('idem_members', 'idem_set_privileges', 'idem_unintended_privileges', 'idem_grant', 'idem_revoke', 'idem_citus_distribute')


# Those that change rights. What a restore makes, everybody may call until it has come to the revocations, which it makes last.
OWNERS_CHECK = """IF NOT pg_has_role(_idem_caller(), current_user, 'USAGE') THEN
RAISE insufficient_privilege USING MESSAGE = 'permission denied for function {name}', DETAIL = 'It is for the owner of idem.';
END IF;
"""


def checked(rest, name):
    """
    A function with the owner's rights, or with ENTRY, that checks first whether the schema which its names are in is its own. Nothing is looked up by a
    name in it before: a block's statements are prepared one by one.
    """
    head, tag, body = re.match(r'(.*?)\s+AS (\$[a-z]*\$)(.*)\Z', rest, re.S).groups()
    body = body.removesuffix(tag).strip()
    if 'LANGUAGE sql' in head:
        head, body = head.replace('LANGUAGE sql', 'LANGUAGE plpgsql'), f'#variable_conflict use_column\nBEGIN\nRETURN QUERY {body.removesuffix(";")};\nEND'
    ways = WAYS.fullmatch(body)
    if ways:
        return checked_by_oid(head, tag, ways)
    options = re.match(r'(?:#[a-z_ ]+\n)*', body)[0]
    owners = OWNERS_CHECK.replace('{name}', name) if name in OWNERS and name not in ('idem_members', 'idem_unintended_privileges') else ''
    return f'{head} AS {tag}\n{options}@home@\n{owners}{body[len(options):]};\nEND\n{tag}'


WAYS = re.compile(r'(?P<options>(?:#[a-z_ ]+\n)*)WHEN (?P<condition>.*?)\n(?P<quick>(?:<<quick>>\n)?(?:DECLARE|BEGIN)\n.*\nEND)\nELSE\n(?P<other>.*)', re.S)
IDEM_NAME = re.compile(r'\b_?idem_[a-z_]+\b')


def checked_by_oid(head, tag, ways):
    """
    A function with two ways. WHEN the condition holds, and the schema and all of idem's that the first block names are those that the installation made, by
    their OIDs, nobody needs to be asked who owns the schema. Else, as in a database that was restored, the ELSE part runs after the question. The condition
    and the block name relations and types of idem, and no function but one: what they name has no code of its own.
    """
    names = list(dict.fromkeys(IDEM_NAME.findall(re.sub(r'--[^\n]*', '', ways['quick']))))
    known = ' AND '.join(f"'{name}()'::regprocedure = '@oid:{name}()@'::oid" if name == DISTRIBUTED else f"'{name}'::regtype = '@oid:{name}@'::oid" for name in names)
    return (f"{head} AS {tag}\n{ways['options']}BEGIN\nIF {ways['condition']} AND {READ_MESSAGES} AND pg_catalog.to_regnamespace('@extschema@') IS NOT NULL THEN\n"
            f"IF {known} THEN\n{ways['quick']};\nEND IF;\nEND IF;\n@home@\n{ways['other']}\nEND;\nEND\n{tag}")


def with_parts(body):
    """A body with its parts, and the parts of these."""
    def part(found):
        text = PARTS.get(found[1], found[0])
        for place, argument in enumerate((found[2] or '').split(' | '), 1):
            text = text.replace(f'@{place}@', argument)
        return text
    while True:
        before, body = body, re.sub(r'@([a-z_]+)(?:: ([^@]*))?@', part, body)
        if body == before:
            return body


def define(function, rest):
    """A function with a body that every supported server takes."""
    rest = with_parts(rest)
    is_bound = ' BOUND' in rest # to what it calls: it calls the same after ALTER SCHEMA RENAME
    atomic = re.search(r'BEGIN ATOMIC(.*)\nEND$', rest + '\n', re.S) or re.search(r'BEGIN ATOMIC(.*?)\s*(?:\nEND)?\Z', rest, re.S)
    if atomic and not is_bound:
        rest = rest[:atomic.start()] + 'AS $$' + atomic[1].rstrip() + '\n$$'
    rest = re.sub(r'\s*SET search_path = pg_catalog, pg_temp', '', rest)
    is_pinned = ' UNPINNED' not in rest and not function.is_inner() and (
        ' PINNED' in rest or not function.name.startswith('_') or 'SECURITY DEFINER' in rest or 'LANGUAGE plpgsql' in rest)
    if function.name in OWNERS:
        rest = re.sub(r'\s+AS \$', ' SECURITY DEFINER AS $', rest, count=1)
    if ' ENTRY' in rest or 'SECURITY DEFINER' in rest and not is_bound:
        rest = checked(rest, function.name)
    rest = re.sub(r' ((UN)?PINNED|INNER|ENTRY|BOUND)\b', '', rest)
    if is_pinned:
        rest = re.sub(r'\b(AS \$|BEGIN ATOMIC)', rf'{PINNED} \1', rest, count=1)
    attributes, dollar, body = rest.partition(' AS $')
    return f'CREATE OR REPLACE {function.kind} {function.name}({function.arguments}) {attributes}{dollar}{with_escapes(body)}'


MADE = re.compile(rf'CREATE (?:OR REPLACE )?(?P<kind>FUNCTION|PROCEDURE|TABLE|VIEW|TYPE|SEQUENCE|DOMAIN) {NAME}')


def made_by(edition):
    """What the script makes, as (kind, name as DROP takes it), in order."""
    for _, statement in edition.lines():
        made = MADE.match(statement)
        if made and made['kind'] in ('FUNCTION', 'PROCEDURE'):
            yield made['kind'], f"{made['name']}({types_of(statement[made.end() + 1:balanced(statement, made.end()) - 1])})"
        elif made:
            yield made['kind'], made['name']


TOKENS = re.compile(r"""(?P<comment>--[^\n]*)|(?P<quoted>"[^"]*")|(?P<literal>\b[Ee]'(?:[^'\\]|\\.|'')*'|'(?:[^']|'')*')|"""
                    r"""(?P<dollar>\$(?P<tag>[a-z_]*)\$.*?\$(?P=tag)\$)|(?P<space>\s+)|(?P<word>[A-Za-z_][A-Za-z_0-9]*)|(?P<other>.)""", re.S)


class Names:
    """The objects of the edition. Every use of their names gets the schema: nothing is found by a search_path."""

    def __init__(self, edition):
        self.routines, self.others = set(), set()
        for kind, name in made_by(edition):
            (self.routines if kind in ('FUNCTION', 'PROCEDURE') else self.others).add(name.split('(')[0])

    def is_name(self, text, before, after):
        """before, after: what stands around it."""
        return before == 'COMMENT ON INDEX ' or not before.endswith('.') and (text in self.others or text in self.routines and after.startswith('('))

    def is_named_by(self, literal, before, after):
        """Whether the literal is the name of an object."""
        name = re.fullmatch(r"'([a-z_0-9]+)(?:\([a-z_0-9, ]*\))?'", literal)
        return name and name[1] in self.routines | self.others and (
            re.match(r'::(pg_catalog\.)?reg', after) or re.search(r'\b(to_reg[a-z]+|nextval|setval|currval)\($', before))

    def qualified(self, code, depth=0):
        """Code with the schema before each of the names, and without comments and indentation. Bodies of functions are code, too."""
        out, declarations = '', Declarations()
        for token in TOKENS.finditer(code):
            text, after = token[0], code[token.end():token.end() + 20]
            if token['comment']:
                continue
            elif token['space']:
                text = '\n' if '\n' in text else ' '
                out = out.rstrip(' \n') if text == '\n' else out
            elif token['dollar'] and depth == 0 and out.endswith(('AS ', 'DO ')):
                tag = f"${token['tag']}$"
                text = tag + self.qualified(text.removeprefix(tag).removesuffix(tag), 1) + tag
            elif token['word'] and self.is_name(text, out, after) or token['literal'] and self.is_named_by(text, out, after):
                text = re.sub(r"^('?)", r'\1@extschema@.', text)
                declarations.qualified(token, out, '.')
            else:
                text = declarations.qualified(token, out, after)
            out += text
        return out


# Words of a type that the grammar knows, and of a declaration that has no type.
GRAMMAR = set('int integer smallint bigint boolean bit char character varchar dec decimal numeric real float double interval time timestamp constant cursor no '
              'scroll alias'.split())


class Declarations:
    """
    The DECLARE sections of a body in plpgsql. Every type there gets its schema: plpgsql looks types up when it compiles a body, which anybody lets it do under
    his own search_path, by the language's validator, and the session's next call takes what was compiled.
    """

    def __init__(self):
        self.expected = None # name, type or rest, in a section

    def qualified(self, token, before, after):
        text, expected = token[0], self.expected
        if text == 'DECLARE' or expected and text == ';':
            self.expected = 'name'
        elif expected and text == 'BEGIN':
            self.expected = None
        elif expected == 'rest' and token['quoted'] and re.search(r'\bCOLLATE $', before):
            return f'pg_catalog.{text}'
        elif (token['word'] or token['quoted']) and expected == 'name':
            self.expected = 'type'
        elif (token['word'] or token['quoted']) and expected == 'type' and text != 'CONSTANT':
            self.expected = 'rest'
            if text.lower() not in GRAMMAR and after[0] not in '.%@':
                return f'pg_catalog.{text}'
        return text


# The names of its objects: the schema has no others.
OWNED = '^(_?idem|optimistic|pessimistic|conditional|unique|guarded)_'


def filled(text, version, edition):
    """The text with what the build knows in it."""
    relations = [name for kind, name in made_by(edition) if kind in ('TABLE', 'VIEW', 'SEQUENCE')]
    known = {'relations': relations, 'dumped': edition.dumped, 'inner': edition.inner}
    for name, members in known.items():
        text = text.replace(f"'@{name}@'", "'{" + ','.join(dict.fromkeys(members)) + "}'")
    return text.replace('@owned@', OWNED).replace('@version@', version)


def read_script(name):
    """A script that the statements are put into, without its comments but those at its head."""
    head, do, body = read(f'sql/portable/{name}').partition('DO $')
    return head + do + '\n'.join(line.strip() for line in body.split('\n') if not line.strip().startswith('--'))


def install(version, edition):
    names, out = Names(edition), []
    for kind, statement in edition.lines():
        if kind != 'dumped': # by pg_dump, as every table that is in no extension
            out.append(('--once\n' if kind == 'once' else '') + names.qualified(statement))
    parts = {'@statements@': '\n;;\n'.join(out), '@start@': names.qualified(HOME_CHECK)}
    script = read_script('install.sql')
    for mark, part in parts.items():
        script = script.replace(mark, part.replace('@extschema@.', '@.').replace(PINNED, '@path@'))
    return filled(script, version, edition)


TLE = r"""-- idem {version}, the portable edition, for pg_tle. Made by the build; do not edit.
--
--     psql -f idem--portable-tle.sql            by a role that has pgtle_admin
--     psql -c 'CREATE SCHEMA idem' -c 'CREATE EXTENSION idem SCHEMA idem'
\set ON_ERROR_STOP on
SELECT pgtle.install_extension('idem', '{version}', 'Makes work take effect exactly once', $_idem_tle_$
{script}$_idem_tle_$);
"""

SCRIPT = r"""SET LOCAL search_path = pg_catalog, pg_temp;
SET LOCAL check_function_bodies = off;
SELECT set_config('idem_portable.installed_before', '', true);
{body}"""


def extension(version, edition):
    """The script of an extension, as pg_tle and dbdev take it."""
    names, body = Names(edition), ''
    for kind, statement in edition.lines():
        body += names.qualified(re.sub(r"(pg_extension_config_dump\(')", r'\1@extschema@.', statement)) + ';\n'
    body = re.sub('@oid:[a-z_()]+@', '0', body) # which the script of an extension cannot know
    return filled(SCRIPT.replace('{body}', body.replace('@home@', names.qualified(HOME_CHECK))).replace("'@named@'", "btrim('@extschema@', '\"')"), version, edition)


def tle(version, edition):
    return TLE.replace('{version}', version).replace('{script}', extension(version, edition))


def uninstall(version, edition):
    names = Names(edition)
    drops = [names.qualified(f'{kind} IF EXISTS {name}') for kind, name in made_by(edition)]
    return read_script('uninstall.sql').replace('@version@', version).replace('@drops@', '\n'.join(reversed(drops)))


def main():
    make = {'--install': install, '--uninstall': uninstall, '--tle': tle, '--extension': extension}[sys.argv[1]]
    print(make(sys.argv[2], Edition(sys.argv[3:])), end='')


main()
