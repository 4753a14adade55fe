"""State machines and versions of distributed tables, where no trigger guards them: what idem_transition and optimistic_update do, and what is recorded."""

import os
import subprocess
import threading

from tap import check, connect, error, row, rows, same, state

MACHINE = """{"initial": ["created"], "transitions": {"created": ["paid", "cancelled"], "paid": ["shipped"], "it's \\"ü\\"": ["paid"], "cancelled": ["it's \\"ü\\""]}}"""


def warnings_of(db, statement):
    """The warnings of a statement."""
    seen = []
    db.add_notice_handler(lambda notice: seen.append(notice.message_primary))
    db.execute(statement)
    return seen


def transition(db, key, from_state, to_state, table="parcel"):
    return row(db, "SELECT outcome, state FROM idem_transition(%s::regclass, jsonb_build_object('order_key', %s::text), %s, %s)", table, key, from_state, to_state)


def guards_of(db, table):
    return rows(db, "SELECT kind, column_name, machine, is_enabled, is_valid FROM idem_guards WHERE target = to_regclass(%s) ORDER BY 1, 2", table)


def commands_to_workers(db, statement):
    """What a statement, in a transaction of its own, sends to workers: how many commands, and the nodes."""
    seen = []
    handler = lambda notice: notice.message_primary.startswith("issuing") and seen.append((notice.message_primary, notice.message_detail))
    db.add_notice_handler(handler)
    db.execute("SET citus.log_remote_commands = on")
    with db.transaction():
        db.execute(statement)
    db.execute("SET citus.log_remote_commands = off")
    db.remove_notice_handler(handler)
    return [command.removeprefix("issuing ") for command, _ in seen], {node for _, node in seen}


def machines():
    with connect() as db:
        db.execute('CREATE TABLE parcel (order_key text COLLATE "C" PRIMARY KEY, state text, note text)')
        db.execute("SELECT idem_citus_colocate('parcel', 'order_key')")
        db.execute("SELECT idem_machine_define('parcel', %s)", (MACHINE,))
        same("a table without a machine is 55000", state(db, "SELECT idem_transition('parcel', '{\"order_key\": \"p\"}', NULL, 'paid')")[0], "55000")
        db.execute("INSERT INTO parcel SELECT 'p-' || i, 'created' FROM generate_series(1, 9) i")
        same("a log of a distributed table is 0A000", state(db, "SELECT idem_machine_attach('parcel', 'state', 'parcel', log => true)"),
             ("0A000", "Attach the state machine without a log, and insert what idem_transition returns into a table of yours, in the same transaction."))
        same("the distribution column is 0A000", state(db, "SELECT idem_machine_attach('parcel', 'order_key', 'parcel', validate => false)")[0], "0A000")
        same("a machine that is not there is 42704", state(db, "SELECT idem_machine_attach('parcel', 'state', 'no such')")[0], "42704")
        same("nothing of these is recorded", guards_of(db, "parcel"), [])
        same("an attachment warns of what it cannot do", warnings_of(db, "SELECT idem_machine_attach('parcel', 'state', 'parcel')"),
             ['state machine "parcel" guards table "parcel" in idem_transition alone'])
        same("idem_guards shows it as one that does not fire", guards_of(db, "parcel"), [("state", "state", "parcel", False, True)])
        same("a second attachment is 42710", state(db, "SELECT idem_machine_attach('parcel', 'state', 'parcel')")[0], "42710")

        for name, arguments, expected in (
            ("moved", ("p-1", "created", "paid"), ("moved", "paid")),
            ("already", ("p-1", "created", "paid"), ("already", "paid")),
            ("conflict", ("p-1", "created", "cancelled"), ("conflict", "paid")),
            ("not_allowed", ("p-1", None, "created"), ("not_allowed", "paid")),
            ("not_allowed, for what is no state", ("p-1", None, "no such"), ("not_allowed", "paid")),
            ("not_found", ("p-0", "created", "paid"), ("not_found", None)),
            ("moved, from any state", ("p-1", None, "shipped"), ("moved", "shipped")),
            ("moved, to a state with quotes in it", ("p-2", None, "cancelled"), ("moved", "cancelled")),
            ("moved, into it", ("p-2", "cancelled", "it's \"ü\""), ("moved", "it's \"ü\"")),
            ("moved, out of it", ("p-2", "it's \"ü\"", "paid"), ("moved", "paid")),
        ):
            same(f"idem_transition: {name}", transition(db, *arguments), expected)
        same("the rows are as they were told", rows(db, "SELECT order_key, state FROM parcel WHERE order_key IN ('p-1', 'p-2') ORDER BY 1"), [("p-1", "shipped"), ("p-2", "paid")])
        same("a key without the distribution column is 42P10", state(db, "SELECT idem_transition('parcel', '{\"note\": \"x\"}', NULL, 'paid')")[0], "42P10")
        with db.transaction(force_rollback=True):
            transition(db, "p-3", None, "paid")
        same("what is rolled back has not happened", row(db, "SELECT state FROM parcel WHERE order_key = 'p-3'"), ("created",))
        db.execute("UPDATE parcel SET state = 'lost' WHERE order_key = 'p-9'")
        same("an UPDATE by hand is not stopped", transition(db, "p-9", None, "paid"), ("not_allowed", "lost"))
        db.execute("UPDATE parcel SET state = NULL WHERE order_key = 'p-9'")
        same("a row without a state", transition(db, "p-9", None, "paid"), ("not_allowed", None))
        db.execute("DELETE FROM parcel WHERE order_key = 'p-9'")

        commands, nodes = commands_to_workers(db, "SELECT idem_claim('p-4'); SELECT idem_transition('parcel', '{\"order_key\": \"p-4\"}', 'created', 'paid')")
        check("a claim and a move of its row are on one worker, and commit there without PREPARE",
              len(nodes) == 1 and commands.count("COMMIT") == 1 and not any("PREPARE" in command for command in commands), (nodes, commands))


def machine_changes():
    """Definitions, and attachments to rows that are there."""
    with connect() as db:
        smaller = '{"initial": ["created"], "transitions": {"created": ["paid"]}}'
        raised = error(db, "SELECT idem_machine_define('parcel', %s)", smaller)
        same("a definition without a state that rows have is 23514", raised and (raised.sqlstate, raised.diag.message_detail), ("23514", 'Column "state" holds: "shipped".'))
        same("and has not happened", transition(db, "p-5", "created", "cancelled"), ("moved", "cancelled"))
        same("a machine that is attached is not dropped", state(db, "SELECT idem_machine_drop('parcel')"), ("2BP01", "Detach it first with idem_machine_detach."))
        with connect() as other, other.transaction(force_rollback=True):
            other.execute("SELECT idem_transition('parcel', '{\"order_key\": \"p-6\"}', 'created', 'paid')")
            db.execute("SET lock_timeout = '300ms'")
            same("a definition waits for moves that are not committed", state(db, "SELECT idem_machine_define('parcel', %s)", MACHINE)[0], "55P03")
            db.execute("RESET lock_timeout")
        same("a definition that has all states", state(db, "SELECT idem_machine_define('parcel', %s)", MACHINE.replace('"shipped"]', '"shipped", "returned"]'))[0], "ok")
        same("is the one that counts from then on", (transition(db, "p-6", "created", "paid"), transition(db, "p-6", None, "returned")), (("moved", "paid"), ("moved", "returned")))

        db.execute("ALTER TABLE parcel RENAME COLUMN state TO condition")
        same("a column that was renamed is 42703", state(db, "SELECT idem_transition('parcel', '{\"order_key\": \"p-7\"}', NULL, 'paid')")[0], "42703")
        same("and is detached by its old name", state(db, "SELECT idem_machine_detach('parcel', 'state')")[0], "ok")
        db.execute("ALTER TABLE parcel RENAME COLUMN condition TO state")
        same("nothing is attached after that", (guards_of(db, "parcel"), state(db, "SELECT idem_machine_detach('parcel', 'state')")[0],
             state(db, "SELECT idem_transition('parcel', '{\"order_key\": \"p-7\"}', NULL, 'paid')")[0]), ([], "42704", "55000"))

        db.execute("UPDATE parcel SET state = 'payed' WHERE order_key = 'p-7'")
        same("rows in other states are 23514", state(db, "SELECT idem_machine_attach('parcel', 'state', 'parcel')")[0], "23514")
        same("and nothing is attached", guards_of(db, "parcel"), [])
        db.execute("SELECT idem_machine_attach('parcel', 'state', 'parcel', validate => false)")
        same("unless nobody looks", guards_of(db, "parcel"), [("state", "state", "parcel", False, False)])
        same("validation looks", state(db, "SELECT idem_machine_validate('parcel', 'state')")[0], "23514")
        db.execute("UPDATE parcel SET state = 'paid' WHERE order_key = 'p-7'")
        db.execute("SELECT idem_machine_validate('parcel', 'state')")
        same("and records what it saw", guards_of(db, "parcel"), [("state", "state", "parcel", False, True)])
        db.execute("SELECT idem_machine_validate('parcel', 'state')")

        db.execute("SELECT idem_machine_attach('parcel', 'note', 'parcel', validate => false)")
        same("two machines of one table are 42702 for idem_transition", state(db, "SELECT idem_transition('parcel', '{\"order_key\": \"p-7\"}', NULL, 'paid')")[0], "42702")
        db.execute("SELECT idem_machine_detach('parcel', 'note')")
        same("until one is detached", transition(db, "p-7", "paid", "shipped"), ("moved", "shipped"))
        dump = subprocess.run(["pg_dump", "--data-only", "--table", "idem._idem_citus_guards"], check=True, capture_output=True, text=True).stdout
        check("a dump has the attachment, by the table's name", "public.parcel\tstate\tparcel\tt" in dump, dump)


def columns():
    """State columns of other types, and tables of other kinds."""
    with connect() as db:
        db.execute("CREATE TYPE phase AS ENUM ('created', 'paid', 'cancelled', 'shipped', 'returned', 'it''s \"ü\"')")
        db.execute("CREATE DOMAIN phase_of_parcel AS phase CHECK (value <> 'returned')")
        for name, declared in (("varchar", "varchar(40)"), ("an enum", "phase"), ("a domain", "phase_of_parcel")):
            table = f"of {name}"
            db.execute(f'CREATE TABLE "{table}" (order_key text COLLATE "C" PRIMARY KEY, "the state" {declared} NOT NULL DEFAULT \'created\')')
            db.execute("SELECT idem_citus_colocate(%s::regclass, 'order_key')", (f'"{table}"',))
            db.execute("SELECT idem_machine_attach(%s::regclass, 'the state', 'parcel')", (f'"{table}"',))
            db.execute(f"INSERT INTO \"{table}\" VALUES ('k')")
            got = [transition(db, "k", *states, table=f'"{table}"') for states in (("created", "cancelled"), (None, "it's \"ü\""), ("no such", "paid"), ("it's \"ü\"", "paid"), (None, "created"))]
            same(f"a state column of {name}", got, [("moved", "cancelled"), ("moved", "it's \"ü\""), ("conflict", "it's \"ü\""), ("moved", "paid"), ("not_allowed", "paid")])
        same("an enum without a state of the machine is 22023", state(db, "SELECT idem_machine_define('parcel', %s)", MACHINE.replace('"shipped"]', '"shipped", "returned", "burnt"]'))[0], "22023")
        db.execute("CREATE TABLE country (code text PRIMARY KEY, state text NOT NULL)")
        db.execute("SELECT create_reference_table('country')")
        db.execute("SELECT idem_machine_attach('country', 'state', 'parcel')")
        db.execute("INSERT INTO country VALUES ('ch', 'created')")
        same("a reference table", row(db, "SELECT outcome, state FROM idem_transition('country', '{\"code\": \"ch\"}', 'created', 'paid')"), ("moved", "paid"))
        db.execute("DROP TABLE country")
        db.execute("CREATE TABLE desk (id int PRIMARY KEY, state phase NOT NULL)")
        db.execute("SELECT citus_add_local_table_to_metadata('desk')")
        same("a table that Citus knows and leaves on the coordinator gets a trigger", warnings_of(db, "SELECT idem_machine_attach('desk', 'state', 'parcel')"), [])
        db.execute("INSERT INTO desk VALUES (1, 'created')")
        same("and is moved", row(db, "SELECT outcome, state FROM idem_transition('desk', '{\"id\": 1}', 'created', 'paid')"), ("moved", "paid"))
        same("and nobody else moves it elsewhere", state(db, "UPDATE desk SET state = 'created'")[0], "ID003")
        db.execute("DROP TABLE desk")
        db.execute("SELECT alter_distributed_table('\"of varchar\"', shard_count := 4, cascade_to_colocated := false)")
        same("a table that Citus made anew has no machine", state(db, "SELECT idem_transition('\"of varchar\"', '{\"order_key\": \"k\"}', NULL, 'shipped')")[0], "55000")
        db.execute("SELECT idem_machine_attach('\"of varchar\"', 'the state', 'parcel')")
        same("until it is attached again", transition(db, "k", "paid", "shipped", table='"of varchar"'), ("moved", "shipped"))
        same("a table that was dropped has no guards", row(db, "SELECT count(*)::int FROM idem_guards WHERE machine = 'parcel'"), (4,))


def competition():
    """Sessions that move and change the same rows."""
    with connect() as db, connect() as other:
        db.execute("INSERT INTO parcel VALUES ('race', 'created')")
        with db.transaction():
            first = transition(db, "race", "created", "paid")
            later = []
            thread = threading.Thread(target=lambda: later.append(transition(other, "race", "created", "cancelled")))
            thread.start()
            thread.join(0.3)
            waited = thread.is_alive()
        thread.join()
        same("a move waits for the one before it, and is a conflict then", (first, waited, later), (("moved", "paid"), True, [("conflict", "paid")]))

        db.execute("INSERT INTO parcel VALUES ('old', 'created')")
        with db.transaction(force_rollback=True):
            db.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            row(db, "SELECT state FROM parcel WHERE order_key = 'old'")
            transition(other, "old", "created", "paid")
            same("under REPEATABLE READ, a move of a row that was moved after the snapshot is 40001",
                 state(db, "SELECT idem_transition('parcel', '{\"order_key\": \"old\"}', 'created', 'cancelled')")[0], "40001")

        shard, host = row(db, "SELECT shardid, nodename FROM citus_shards WHERE table_name = 'parcel'::regclass AND shardid = get_shard_id_for_distribution_column('parcel', 'race'::text)")
        with connect(host) as worker:
            worker.execute(f"SET citus.enable_manual_changes_to_shards = on; BEGIN; UPDATE public.parcel_{shard} SET state = 'shipped' WHERE order_key = 'race'; PREPARE TRANSACTION 'committed soon'")
            later = []
            thread = threading.Thread(target=lambda: later.append(transition(other, "race", None, "created")))
            thread.start()
            thread.join(0.3)
            waited = thread.is_alive()
            worker.execute("COMMIT PREPARED 'committed soon'")
        thread.join()
        same("an answer waits for a move that a worker has prepared, which may be acknowledged", (waited, later), (True, [("not_allowed", "shipped")]))

        outcomes = []

        def compete(number):
            with connect() as mine:
                for i in range(20):
                    outcomes.append((i, transition(mine, f"race {i}", "created", ("paid", "cancelled")[number % 2])[0]))

        db.execute("INSERT INTO parcel SELECT 'race ' || i, 'created' FROM generate_series(0, 19) i")
        threads = [threading.Thread(target=compete, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        moved = sorted(i for i, outcome in outcomes if outcome == "moved")
        check("of six sessions one moves each row", moved == list(range(20)) and {outcome for _, outcome in outcomes} == {"moved", "already", "conflict"}, outcomes)


def versions():
    with connect() as db:
        db.execute('CREATE TABLE page (order_key text COLLATE "C" PRIMARY KEY, words text)')
        db.execute("INSERT INTO page VALUES ('a', 'one')")
        db.execute("SELECT optimistic_enable('page')")
        same("a table with a guard is not colocated", state(db, "SELECT idem_citus_colocate('page', 'order_key')"),
             ("55000", "Call idem_machine_detach and optimistic_disable first, idem_machine_attach and optimistic_enable again afterwards."))
        db.execute("SELECT optimistic_disable('page')")
        db.execute("ALTER TABLE page DROP COLUMN version")
        db.execute("SELECT idem_citus_colocate('page', 'order_key')")
        update = "SELECT outcome, version, row_data ->> 'words' FROM optimistic_update('page', '{\"order_key\": \"a\"}', %s, '{\"words\": \"two\"}')"
        same("a table without versions is 55000", state(db, update, 1)[0], "55000")
        same("enabling warns of what it cannot do", warnings_of(db, "SELECT optimistic_enable('page')"), ['versions of table "page" are compared by optimistic_update alone'])
        same("idem_guards shows versions that nothing guards", guards_of(db, "page"), [("version", "version", None, False, True)])
        same("enabling again is a no-op", warnings_of(db, "SELECT optimistic_enable('page')"), [])
        same("another column is 55000", state(db, "SELECT optimistic_enable('page', 'words')")[0], "55000")
        same("optimistic_update: updated", row(db, update, 1), ("updated", 2, "two"))
        same("optimistic_update: conflict", row(db, update, 1), ("conflict", 2, "two"))
        same("optimistic_update: not_found", row(db, update.replace('"a"', '"b"'), 1), ("not_found", None, None))
        same("changes with the version are 22023", state(db, "SELECT optimistic_update('page', '{\"order_key\": \"a\"}', 2, '{\"version\": 9}')")[0], "22023")
        commands, nodes = commands_to_workers(db, update % 2)
        check("an update goes to one worker", len(nodes) == 1 and len(commands) == 3, (nodes, commands))

        same("the row has version", row(db, "SELECT version FROM page"), (3,))
        outcomes = []

        def compete():
            with connect() as mine:
                for version in range(3, 33):
                    while row(mine, "SELECT version FROM page")[0] < version:
                        pass
                    outcomes.append((version, row(mine, update, version)[0]))

        threads = [threading.Thread(target=compete) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        updated = sorted(version for version, outcome in outcomes if outcome == "updated")
        check("of six sessions one changes each version", updated == list(range(3, 33)), outcomes)

        db.execute("ALTER TABLE page ADD COLUMN small smallint NOT NULL DEFAULT 32767")
        db.execute("SELECT optimistic_disable('page')")
        same("disabled, it is 55000", (state(db, update, 33)[0], state(db, "SELECT optimistic_disable('page')")[0], guards_of(db, "page")), ("55000", "55000", []))
        db.execute("SELECT optimistic_enable('page', 'small')")
        same("a version at its maximum is 22003", state(db, update, 32767)[0], "22003")


def privileges():
    with connect() as db:
        db.execute("CREATE ROLE carrier LOGIN")
        db.execute("SELECT idem_grant('carrier')")
        db.execute("GRANT SELECT, UPDATE ON parcel TO carrier")
        db.execute("GRANT USAGE ON SCHEMA public TO carrier")
        db.execute("INSERT INTO parcel VALUES ('by role', 'created')")
        with connect(role="carrier") as carrier:
            same("a role with UPDATE moves rows", transition(carrier, "by role", "created", "paid"), ("moved", "paid"))
            for name, statement in {
                "attach": "SELECT idem_machine_attach('parcel', 'note', 'parcel', validate => false)",
                "detach": "SELECT idem_machine_detach('parcel', 'state')",
                "enable versions": "SELECT optimistic_enable('parcel')",
                "record a guard": "SELECT _idem_citus_guard('parcel', 'note', 'parcel', true)",
                "take a guard away": "SELECT _idem_citus_guard('parcel', 'state', 'parcel', NULL)",
                "write the records": "DELETE FROM _idem_citus_guards",
            }.items():
                same(f"but does not {name}", state(carrier, statement)[0], "42501")
            db.execute("GRANT TRIGGER ON parcel TO carrier")
            same("TRIGGER is enough to attach", state(carrier, "SELECT idem_machine_attach('parcel', 'note', 'parcel', validate => false)")[0], "ok")
            same("and not to detach", state(carrier, "SELECT _idem_citus_guard('parcel', 'note', 'parcel', NULL)")[0], "42501")
            db.execute("SELECT idem_machine_detach('parcel', 'note')")


def test():
    machines()
    machine_changes()
    columns()
    competition()
    versions()
    privileges()
