"""One effect per key on a Citus cluster: what the functions do there, and what clients in competition see while there is trouble. Prints TAP. libpq's
environment names the coordinator.

    cluster.py [GROUP ...]    the groups of tests below, all without one"""

import pathlib
import re
import sys
import threading
import time

import attack
import guards
import psycopg
import tap
from tap import check, connect, hosts_of_workers, row, rows, same, state


def calls():
    """A call with NULL for the key, in shapes of which two have ended coordinators that delegated functions to workers."""
    with connect() as db:
        for name, statement in {
            "key": "SELECT idem_claim(NULL)",
            "key in a VALUES": "SELECT c FROM (VALUES (NULL::text)) v (k), LATERAL (SELECT idem_claim(v.k)) c",
            "key of a begin": "SELECT * FROM idem_begin(NULL)",
            "lock": "SELECT idem_lock(NULL)",
            "hit": "SELECT idem_hit(NULL)",
        }.items():
            check(f"NULL as the {name} is 22004", state(db, statement)[0] == "22004", state(db, statement))
        found = db.execute("SELECT c FROM (VALUES ('one row')) v (k), LATERAL idem_claim(v.k) c").fetchone()
        check("a VALUES of one row with LATERAL", found == (True,), found)
        prepared = [db.execute("SELECT idem_claim(%s)", ("prepared",), prepare=True).fetchone() for _ in range(8)]
        check("a prepared statement, also when its plan is generic", prepared == [(True,)] + [(False,)] * 7, prepared)
        check("PREPARE TRANSACTION is refused", state(db, "BEGIN; SELECT idem_claim('2pc'); PREPARE TRANSACTION 'x'")[0] not in ("ok", None), "")


def colocation():
    with connect() as db:
        db.execute("CREATE TABLE plain (order_key text, id int)")
        db.execute('CREATE TABLE keyed (id int PRIMARY KEY, order_key text COLLATE "C" NOT NULL)')
        for name, arguments, expected in (
            ("of another collation", ("plain", "order_key"), ("42804", 'ALTER TABLE public.plain ALTER COLUMN order_key TYPE text COLLATE "C"')),
            ("of another type", ("plain", "id"), ("42804", 'ALTER TABLE public.plain ALTER COLUMN id TYPE text COLLATE "C"')),
            ("that does not exist", ("plain", "nothing"), ("42703", None)),
            ("that a unique index lacks", ("keyed", "order_key"), ("42P16", "Add the column to each of them, as in PRIMARY KEY (order_key, id), or drop them.")),
            ("NULL", ("keyed", None), ("22004", None)),
        ):
            got = state(db, "SELECT idem_citus_colocate(%s::regclass, %s::name)", *arguments)
            check(f"a key column {name} is {expected[0]}", got == expected, got)
        db.execute('CREATE TABLE bills (order_key text COLLATE "C" NOT NULL, client int NOT NULL)')
        got = [db.execute("SELECT idem_citus_colocate('bills', 'order_key')").fetchone()[0] for _ in range(2)]
        check("a table is colocated once", got == [True, False], got)
        got = [db.execute("SELECT idem_citus_distribute()").fetchone()[0]]
        check("distributing again changes nothing", got == [False], got)
        got = db.execute("SELECT _idem_is_distributed()").fetchone()
        check("an upgrade knows that the tables are distributed", got == (True,), got)


def flows():
    """The row flows on a table that is spread."""
    with connect() as db:
        db.execute('CREATE TABLE item (order_key text COLLATE "C", id int, quantity int NOT NULL, status text NOT NULL DEFAULT \'new\', version bigint NOT NULL DEFAULT 1, PRIMARY KEY (order_key, id))')
        db.execute("SELECT idem_citus_colocate('item', 'order_key')")
        key = """'{"order_key": "o-1", "id": 7}'"""
        for statement, expected in {
            """SELECT outcome FROM unique_insert('item', '{"order_key": "o-1", "id": 7, "quantity": 5}')""": "inserted",
            """SELECT outcome FROM unique_insert('item', '{"order_key": "o-1", "id": 7, "quantity": 6}')""": "duplicate",
            f"""SELECT outcome FROM conditional_update('item', {key}, '{{"quantity": 5}}', '{{"quantity": 4}}')""": "updated",
            f"""SELECT outcome FROM conditional_update('item', {key}, '{{"quantity": 5}}', '{{"quantity": 3}}')""": "conflict",
            f"""SELECT outcome FROM conditional_adjust('item', {key}, 'quantity', -4, 0)""": "adjusted",
            f"""SELECT outcome FROM conditional_adjust('item', {key}, 'quantity', -1, 0)""": "out_of_range",
            f"""SELECT outcome FROM pessimistic_lock('item', {key})""": "locked",
            f"""SELECT row_data ->> 'quantity' FROM pessimistic_lock('item', {key})""": "0",
            f"""SELECT count(*) FROM pessimistic_lock_many('item', ARRAY[{key}]::jsonb[])""": "1",
            """SELECT outcome FROM guarded_insert('item', '{"order_key": "o-2", "id": 1, "quantity": 1}', '{order_key}')""": "inserted",
            """SELECT outcome FROM guarded_insert('item', '{"order_key": "o-2", "id": 2, "quantity": 1}', '{order_key}')""": "duplicate",
        }.items():
            try:
                with db.transaction():
                    got = str(db.execute(statement).fetchone()[0])
            except psycopg.Error as error:
                got = f"{error.sqlstate} {error}"
            check(f"{statement.split('(')[0].split()[-1]} is {expected}", got.split()[0] == expected, got)


def sweep():
    """Responses that are kept for a shorter time than their keys."""
    with connect() as db:
        db.execute("SELECT idem_scope_set('short', response_ttl => '1 ms')")
        for key in range(40):
            with db.transaction():
                db.execute("SELECT idem_begin(%s, scope => 'short')", (f"swept {key}",))
                db.execute("SELECT idem_complete(%s, '{}', 200, scope => 'short')", (f"swept {key}",))
        time.sleep(0.01)
        db.execute("CALL idem_sweep(7)")
        found = db.execute("SELECT count(*)::int, count(response)::int, count(response_omitted)::int FROM idem_keys WHERE scope = 'short'").fetchone()
        check("a sweep removes responses and keeps their keys", found == (40, 0, 40), found)


def documentation():
    """The page names each function once."""
    page = (pathlib.Path(__file__).resolve().parents[2] / "docs/citus.md").read_text()
    table = re.search(r"^## What works\n(.*?)^## ", page, re.M | re.S)[1]
    named = [name for line in table.splitlines() if line.startswith("| `") for name in re.findall(r"`([a-z_0-9]+)`", line.split("|")[1])]
    with connect() as db:
        there = [name for name, in rows(db, "SELECT DISTINCT proname FROM pg_proc WHERE pronamespace = 'idem'::regnamespace AND proname !~ '^_'")]
    same("docs/citus.md has every function", sorted(set(there) - set(named)), [])
    same("and none that is not there, and none twice", sorted(name for name in named if name not in there or named.count(name) > 1), [])


def workers():
    """Calls on a worker, where the functions are not."""
    for host in hosts_of_workers():
        with connect(host) as db:
            for statement in ("SELECT idem_claim('k')", "SELECT idem.idem_claim('k')", "CALL idem.idem_sweep()"):
                same(f"{statement} on a worker is 42883", state(db, statement)[0], "42883")
            same("a worker sees the rows", row(db, "SELECT count(*) FROM idem.idem_keys WHERE key = 'k'"), (0,))
    with connect() as db:
        db.execute("CREATE TABLE asked (order_key text COLLATE \"C\")")
        db.execute("SELECT idem_citus_colocate('asked', 'order_key')")
        db.execute("INSERT INTO asked VALUES ('k')")
        same("a query that would call it on a worker is 42883", state(db, "SELECT idem_claim(order_key) FROM asked")[0], "42883")
        same("and nothing has happened", row(db, "SELECT count(*) FROM idem_keys WHERE key = 'k'"), (0,))


def wait(statement):
    """How a statement ends while another session holds what it wants: its answer, or the SQLSTATE, and the seconds."""
    with connect() as db:
        since = time.monotonic()
        try:
            answer = row(db, statement)[0]
        except psycopg.Error as error:
            answer = error.sqlstate
        return answer, time.monotonic() - since


def waits():
    """lock_timeout stays on the coordinator; what a call asks for at once is answered at once."""
    with connect() as holder:
        holder.execute("BEGIN")
        holder.execute("SELECT idem_claim('held')")
        holder.execute("SELECT pessimistic_lock('item', '{\"order_key\": \"o-1\", \"id\": 7}')")
        answer, seconds = wait("SELECT idem_try_claim('held')::text")
        check("idem_try_claim answers in_flight while a session of the coordinator holds the key", answer == "in_flight" and seconds < 5, (answer, seconds))
        answer, seconds = wait("SELECT outcome FROM pessimistic_lock('item', '{\"order_key\": \"o-1\", \"id\": 7}', wait => '0')")
        check("pessimistic_lock without a wait is busy at once", answer == "busy" and seconds < 5, (answer, seconds))
        ended = []
        waiter = threading.Thread(target=lambda: ended.append(wait("SELECT outcome FROM pessimistic_lock('item', '{\"order_key\": \"o-1\", \"id\": 7}', wait => '200 ms')")))
        waiter.start()
        waiter.join(1)
        check("with a wait it ends with the holder", waiter.is_alive(), ended)
        holder.execute("ROLLBACK")
        waiter.join()
        same("and has the lock then", ended[0][0], "locked")


def down():
    """One worker is not there."""
    with connect() as db:
        placement = "SELECT nodename FROM citus_shards WHERE table_name = 'idem.idem_keys'::regclass AND shardid = get_shard_id_for_distribution_column('idem.idem_keys', %s::text)"
        keys = {}
        for number in range(200):
            keys.setdefault(row(db, placement, f"d-{number}")[0], []).append(f"d-{number}")
        lost, other = sorted(keys)[:2]
        node = attack.Node(lost)
        node.kill()
        try:
            same("a key of a worker that is down is 08006", state(db, "SELECT idem_claim(%s)", keys[lost][0])[0], "08006")
            same("keys of the others are claimed", row(db, "SELECT idem_claim(%s)", keys[other][0]), (True,))
            same("a batch with a key of it is 08006", state(db, "SELECT idem_claim_many(%s)", [keys[lost][1], keys[other][1]])[0], "08006")
            same("and none of its keys is claimed", row(db, "SELECT idem_claim(%s)", keys[other][1]), (True,))
            same("a change of a table that is copied to every node fails", state(db, "SELECT idem_scope_set('down', ttl => '1 day')")[0], "08006")
        finally:
            node.start()
        deadline = time.monotonic() + 30
        while (seen := state(db, "SELECT idem_claim_many(%s)", [keys[lost][1], keys[other][2]])[0]) != "ok" and time.monotonic() < deadline:
            time.sleep(0.1)
        same("when it is back, all goes on", seen, "ok")


GROUPS = {
    "calls": calls,
    "colocation": colocation,
    "rows": flows,
    "waits": waits,
    "sweep": sweep,
    "documentation": documentation,
    "workers": workers,
    "down": down,
    "guards": guards.test,
    "attack": attack.test,
}
for group in sys.argv[1:] or GROUPS:
    GROUPS[group]()
print(f"1..{tap.count}")
raise SystemExit(tap.failures > 0)
