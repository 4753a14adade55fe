"""One effect per key on a Citus cluster: what a call with odd arguments does to it, and clients in competition while shards move and nodes are killed.
Prints TAP. libpq's environment names the coordinator; a node's host is the directory of its socket, beside its data.

SECONDS_OF_ATTACK: how long each attack lasts (20). SEED."""

import os
import pathlib
import random
import signal
import subprocess
import threading
import time

import psycopg

SECONDS = float(os.environ.get("SECONDS_OF_ATTACK", "20"))
SEED = int(os.environ.get("SEED", str(random.randrange(1000000))))
CLIENTS = 12
KEYS_A_SECOND = 40  # new ones; each is in competition for a few moments

tests = failed = 0


def check(name, passed, seen=""):
    global tests, failed
    tests += 1
    failed += not passed
    print(f"{'' if passed else 'not '}ok {tests} - {name}" + ("" if passed else f"\n# {seen}"), flush=True)


def connect(host=None):
    db = psycopg.connect("connect_timeout=10", host=host or os.environ["PGHOST"], autocommit=True, prepare_threshold=None)
    db.execute("SET search_path = public, idem")
    return db


def state(db, statement, *arguments):
    """The SQLSTATE of a statement, "ok" without one, and the hint."""
    try:
        db.execute(statement, arguments or None)
        return "ok", None
    except psycopg.Error as error:
        return error.sqlstate, error.diag.message_hint


# --- Calls ----------------------------------------------------------------------------------------------------------------


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
        db.execute('CREATE TABLE orders (order_key text COLLATE "C" NOT NULL, client int NOT NULL)')
        got = [db.execute("SELECT idem_citus_colocate('orders', 'order_key')").fetchone()[0] for _ in range(2)]
        check("a table is colocated once", got == [True, False], got)
        got = [db.execute("SELECT idem_citus_distribute()").fetchone()[0]]
        check("distributing again changes nothing", got == [False], got)
        got = db.execute("SELECT _idem_is_distributed()").fetchone()
        check("an upgrade knows that the tables are distributed", got == (True,), got)
        db.execute("CREATE TABLE entries (account int NOT NULL, order_key text NOT NULL)")
        db.execute("SELECT create_distributed_table('entries', 'account', colocate_with => 'none')")


def rows():
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


# --- Attacks --------------------------------------------------------------------------------------------------------------


class Node:
    """A server of scripts/cluster.sh."""

    def __init__(self, host):
        self.host = host
        self.data = pathlib.Path(host) / "data"

    def processes(self):
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if os.readlink(process / "cwd") == str(self.data):
                    yield int(process.name)
            except OSError:
                pass

    def kill(self):
        while processes := list(self.processes()):
            for process in processes:
                try:
                    os.kill(process, signal.SIGKILL)
                except OSError:
                    pass
            time.sleep(0.01)
        # Their process may not have been waited for, and then counts as running.
        for lock in (self.data / "postmaster.pid", pathlib.Path(self.host) / ".s.PGSQL.5432.lock"):
            lock.unlink(missing_ok=True)

    def start(self):
        directory = subprocess.run([os.environ["PG_CONFIG"], "--bindir"], check=True, capture_output=True, text=True).stdout.strip()
        user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"] if os.getuid() == 0 else []
        subprocess.run(
            [*user, f"{directory}/pg_ctl", "start", "--silent", "--wait", "--pgdata", self.data, "--log", f"{self.host}/server.log"], check=True, cwd="/", stdout=subprocess.DEVNULL
        )


class Attack:
    """Clients that claim few keys, with an order on the key's worker and an entry on another one; `trouble` is called meanwhile, again and again."""

    def __init__(self, name, trouble):
        self.name = name
        self.trouble = trouble
        self.until = time.monotonic() + SECONDS
        self.committed = set()  # keys whose claim was acknowledged
        self.done = set()  # keys that somebody was told are done
        self.errors = {}
        self.troubles = 0
        self.lock = threading.Lock()

    def client(self, number):
        choose = random.Random(f"{SEED} {self.name} {number}")
        db = None
        while time.monotonic() < self.until:
            key = f"{self.name} {int(time.monotonic() * KEYS_A_SECOND) + choose.randrange(8)}"
            try:
                db = db or connect()
                keeps = choose.random() < 0.8
                with db.transaction(force_rollback=not keeps):
                    claimed = db.execute("SELECT idem_claim(%s)", (key,)).fetchone()[0]
                    if claimed:
                        db.execute("INSERT INTO orders VALUES (%s, %s)", (key, number))
                        db.execute("INSERT INTO entries VALUES (%s, %s)", (choose.randrange(1000), key))
                with self.lock:
                    if not claimed:
                        self.done.add(key)
                    elif keeps:
                        self.committed.add(key)
            except psycopg.Error as error:
                with self.lock:
                    self.errors[error.sqlstate] = self.errors.get(error.sqlstate, 0) + 1
                if db is not None and db.closed:
                    db = None
                if db is None:
                    time.sleep(0.05)

    def run(self):
        clients = [threading.Thread(target=self.client, args=(number,)) for number in range(CLIENTS)]
        for thread in clients:
            thread.start()
        choose = random.Random(f"{SEED} {self.name}")
        while time.monotonic() < self.until:
            self.troubles += self.trouble(choose)
        for thread in clients:
            thread.join()
        self.judge()

    def judge(self):
        with connect() as db:
            deadline = time.monotonic() + 60
            while time.monotonic() < deadline:
                try:
                    db.execute("SELECT recover_prepared_transactions()")
                    break
                except psycopg.Error:
                    time.sleep(0.2)
            orders = dict(db.execute("SELECT order_key, count(*)::int FROM orders WHERE order_key LIKE %s GROUP BY 1", (f"{self.name} %",)).fetchall())
            entries = dict(db.execute("SELECT order_key, count(*)::int FROM entries WHERE order_key LIKE %s GROUP BY 1", (f"{self.name} %",)).fetchall())
            claimed = {key for key, in db.execute("SELECT key FROM idem_keys WHERE key LIKE %s AND state = 'c'", (f"{self.name} %",)).fetchall()}
        twice = {key: count for key, count in orders.items() if count > 1}
        lost = (self.committed | self.done) - set(orders)
        print(f"# {self.name}: {len(orders)} orders, {len(self.committed)} acknowledged, {self.troubles} troubles, errors {self.errors}, seed {SEED}")
        check(f"{self.name}: there was trouble, and work", self.troubles > 0 and len(orders) > 0, (self.troubles, len(orders)))
        check(f"{self.name}: no key has two orders", not twice, twice)
        check(f"{self.name}: nothing that was acknowledged is lost", not lost, sorted(lost)[:10])
        check(f"{self.name}: order, entry and key are there or not, all three", orders == entries and set(orders) == claimed, (len(orders), len(entries), len(claimed)))


def quiet(choose):
    time.sleep(0.5)
    return 1


def move_shard(choose):
    """With what is colocated, from one worker to another."""
    with connect() as db:
        nodes = db.execute("SELECT nodename, nodeport FROM pg_dist_node WHERE shouldhaveshards ORDER BY nodeid").fetchall()
        shards = db.execute("SELECT s.shardid, s.nodename, s.nodeport FROM citus_shards s WHERE s.table_name = 'idem.idem_keys'::regclass ORDER BY 1").fetchall()
        shard, *source = choose.choice(shards)
        target = choose.choice([node for node in nodes if list(node) != source])
        try:
            db.execute("SELECT citus_move_shard_placement(%s, %s, %s, %s, %s, %s::citus.shard_transfer_mode)", (shard, *source, *target, choose.choice(["force_logical", "block_writes"])))
            return 1
        except psycopg.Error as error:
            print(f"# a shard was not moved: {error}")
            return 0


def kill(node_of):
    def trouble(choose):
        time.sleep(choose.uniform(0.5, 2))
        node = node_of(choose)
        node.kill()
        time.sleep(choose.uniform(0, 0.5))
        node.start()
        return 1

    return trouble


def terminate(choose):
    """The connections of the coordinator to a worker, at the worker: as a network that breaks."""
    time.sleep(choose.uniform(0.05, 0.4))
    with connect() as db:
        node = choose.choice(db.execute("SELECT nodename FROM pg_dist_node WHERE shouldhaveshards").fetchall())[0]
    with connect(node) as db:
        ended = db.execute("SELECT count(pg_terminate_backend(pid))::int FROM pg_stat_activity WHERE application_name LIKE 'citus_internal%%' AND random() < 0.3").fetchone()
    return ended[0]


calls()
colocation()
rows()
sweep()
with connect() as db:
    workers = [Node(host) for host, in db.execute("SELECT nodename FROM pg_dist_node WHERE shouldhaveshards ORDER BY nodeid").fetchall()]
coordinator = Node(os.environ["PGHOST"])
for name, trouble in {
    "quiet": quiet,
    "shards move": move_shard,
    "connections break": terminate,
    "a worker is killed": kill(lambda choose: choose.choice(workers)),
    "the coordinator is killed": kill(lambda choose: coordinator),
}.items():
    Attack(name, trouble).run()
print(f"1..{tests}")
raise SystemExit(failed > 0)
