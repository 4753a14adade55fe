"""The wheel installs the portable edition: its functions, its command, Django's migrations, Alembic."""

import json
import os
import subprocess

import psycopg
from tap import check, same

DJANGO = '''
import django, sys
from django.conf import settings
settings.configure(INSTALLED_APPS=["shop"], DATABASES={"default": {"ENGINE": "django.db.backends.postgresql", "NAME": sys.argv[1]}})
django.setup()
from django.core.management import call_command
call_command("migrate", "shop", sys.argv[2], verbosity=0)
call_command("makemigrations", "--check", "--dry-run", verbosity=0)
'''
MIGRATION = '''
from django.db import migrations
from idem_postgres.django.migrations import Install

class Migration(migrations.Migration):
    operations = [Install(schema="by django")]
'''
ALEMBIC = '''
import sys
from alembic.migration import MigrationContext
from alembic.operations import Operations
from idem_postgres import install, status, uninstall
from sqlalchemy import create_engine

with create_engine("postgresql+psycopg2://", connect_args={"dbname": sys.argv[1]}).begin() as connection, Operations.context(MigrationContext.configure(connection)) as op:
    install(op.get_bind().connection, schema="by alembic", commit=False)
    assert status(op.get_bind().connection, schema="by alembic").needs is None
    if sys.argv[2] == "rollback":
        raise SystemExit
'''
FUNCTIONS = '''
import json, sys, threading
import psycopg, psycopg2
from idem_postgres import NotInstalled, install, status, uninstall, verify

def error(function, *args, **options):
    try:
        function(*args, **options)
    except Exception as e:
        return f"{type(e).__name__}: {e}".splitlines()[0]

def pod(found):
    with psycopg.connect() as connection:
        found.append(install(connection, schema="pods").needs)

found = []
pods = [threading.Thread(target=pod, args=(found,)) for _ in range(4)]
for each in pods: each.start()
for each in pods: each.join()
print(json.dumps(found))
for connect in (psycopg.connect, psycopg2.connect):
    for autocommit in (False, True):
        connection = connect("")
        connection.autocommit = autocommit
        name = f'{connect.__module__} "{autocommit}" %'
        print(json.dumps([error(verify, connection, schema="x"), error(install, connection, schema="occupied"), error(install, connection, schema=name)]))
        same = install(connection, schema="one"), status(connection, schema="one")
        cursor = connection.cursor()
        cursor.execute("SELECT one.idem_claim('k'), current_setting('idem_portable.schema')")
        print(json.dumps([same[0] == same[1], cursor.fetchone()]))
        uninstall(connection, schema="one")
        print(status(connection, schema="one").needs)
        connection.close()
with psycopg.connect(autocommit=True) as connection:
    install(connection, schema="old")
    version = """CREATE OR REPLACE FUNCTION old.idem_version(OUT edition text, OUT version text, OUT server text) LANGUAGE sql AS $$ SELECT 'portable', '%s', '' $$"""
    connection.execute(version % "0.9.12")
    print(error(verify, connection, schema="old"))
    install(connection, schema="old")
    connection.execute(version % "1.10.0")
    print(error(install, connection, schema="old"))
    print(error(install, connection) or status(connection).edition)
'''


SQUATTED = '''
import psycopg
from idem_postgres import install, status, verify

with psycopg.connect(autocommit=True) as connection:
    try:
        install(connection, schema="squatted")
    except psycopg.Error as e:
        print(e.sqlstate)
    print(status(connection, schema="squatted").version)
    verify(connection, schema="squatted")
'''

TRAPPED = '''
import psycopg
from idem_postgres import install, status, uninstall

with psycopg.connect(autocommit=True, options="-c search_path=traps,pg_catalog") as connection:
    needs = install(connection, schema="trapped").needs
    uninstall(connection, schema="trapped")
    print(needs, status(connection, schema="trapped").needs)
'''


def installs(work, environment):
    python, database = f"{work}/venv/bin/python", os.environ["PGDATABASE"]

    def run(*words):
        done = subprocess.run([python, *words], cwd=f"{work}/project", env=environment, capture_output=True, text=True)
        return done.returncode, done.stdout.strip(), done.stderr.strip()

    with psycopg.connect(autocommit=True) as db:
        db.execute("DROP SCHEMA IF EXISTS occupied CASCADE; CREATE SCHEMA occupied; CREATE TABLE occupied.mine (n int)")

        code, out, err = run("-c", FUNCTIONS)
        same("install: functions", (code, err), (0, ""))
        lines = out.splitlines()
        same("install: pods that start at once queue", lines[:1], ["[null, null, null, null]"])
        for number, case in enumerate(("psycopg", "psycopg, autocommit", "psycopg2", "psycopg2, autocommit")):
            failed, claimed, left = lines[1 + 3 * number:4 + 3 * number]
            missing, occupied, unsupported = json.loads(failed)
            same(f"install: {case}: missing", missing, 'NotInstalled: idem is not installed in schema "x"; run: python3 -m idem_postgres install')
            check(f"install: {case}: a schema of somebody else's", 'schema "occupied" has objects that are not idem\'s' in occupied, occupied)
            check(f"install: {case}: a name that is not supported", "is not supported" in unsupported, unsupported)
            same(f"install: {case}: installed, and the setting does not stay", (json.loads(claimed), left), ([True, [True, ""]], "install"))
        same("install: an older installation", lines[13], 'NotInstalled: schema "old" has idem 0.9.12, which is older than this package (1.0.0); run: python3 -m idem_postgres upgrade')
        same("install: a newer installation", lines[14], 'NotInstalled: schema "old" has idem 1.10.0, which is newer than this package (1.0.0)')
        check("install: nothing where idem is", lines[15] == "c" or "must be owner of schema idem" in lines[15], lines[15])

        with open(f"{os.path.dirname(__file__)}/../squatter.sql") as file:
            db.execute(file.read())
        try:
            code, out, err = run("-c", SQUATTED)
            same("install: in another role's schema", (code, err, out.splitlines()), (0, "", ["42501", "9.0.0"]))
            same("install: none of its code runs", db.execute("SELECT * FROM squatted.callers").fetchall(), [])
            db.execute("ALTER SCHEMA squatted OWNER TO CURRENT_USER")
            same("install: another role's function", run("-c", SQUATTED), (0, "55000\n9.0.0", ""))
            same("install: does not run", db.execute("SELECT * FROM squatted.callers").fetchall(), [])
        finally:
            db.execute("DROP SCHEMA squatted CASCADE; DROP ROLE squatter")

        with open(f"{os.path.dirname(__file__)}/../traps.sql") as file:
            db.execute("CREATE SCHEMA traps; " + file.read().replace("public.", "traps."))
        same("install: a search_path with look-alikes of the server's functions", run("-c", TRAPPED), (0, "None install", ""))
        db.execute("SET client_min_messages = warning; DROP SCHEMA traps CASCADE")

        def command(*words):
            return run("-m", "idem_postgres", *words, "--schema", "by command")

        same("install: status before", command("status"), (1, 'schema "by command": idem is not installed; this package: 1.0.0; run: python3 -m idem_postgres install', ""))
        same("install: upgrade before", command("upgrade"), (1, "", 'idem_postgres: idem is not installed in schema "by command"; run: python3 -m idem_postgres install'))
        same("install: install", [command("install"), command("upgrade")], [(0, "1.0.0 is installed", "")] * 2)
        same("install: status after", command("status"), (0, 'schema "by command": idem 1.0.0, edition portable; this package: 1.0.0', ""))
        same("install: uninstall", command("uninstall"), (0, "idem is gone", ""))
        check("install: sql", run("-m", "idem_postgres", "sql")[1].startswith("-- idem 1.0.0, the portable edition"))
        same("install: no command", run("-m", "idem_postgres", "installs")[0], 2)

        os.makedirs(f"{work}/project/shop/migrations")
        for name, text in (("shop/__init__.py", ""), ("shop/migrations/__init__.py", ""), ("shop/migrations/0001_idem.py", MIGRATION)):
            with open(f"{work}/project/{name}", "w") as file:
                file.write(text)
        count = "SELECT count(*)::int FROM pg_proc WHERE proname = 'idem_claim' AND pronamespace::regnamespace::text = %s"
        for target, expected in (("0001", 1), ("0001", 1), ("zero", 0), ("0001", 1)):
            same(f"install: Django's migrate to {target}", run("-c", DJANGO, database, target), (0, "", ""))
            same("install: and what is there", db.execute(count, ('"by django"',)).fetchone(), (expected,))
        for end, expected in (("rollback", 0), ("commit", 1)):
            same(f"install: Alembic, {end}", run("-c", ALEMBIC, database, end), (0, "", ""))
            same("install: and what is there after it", db.execute(count, ('"by alembic"',)).fetchone(), (expected,))
