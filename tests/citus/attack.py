"""Clients in competition while shards move, nodes are killed, and connections break or are silent. What they saw is judged as in the chaos tests.

SECONDS_OF_ATTACK: how long each attack lasts (20). SEED. ATTACKS: a regular expression, those whose name has it. JUDGE: idem-chaos-check. HISTORIES: the
directory that keeps what was seen."""

import json
import os
import pathlib
import random
import re
import signal
import subprocess
import threading
import time

import psycopg
from history import RETENTION, History
from tap import check, connect, hosts_of_workers, row, rows

SECONDS = float(os.environ.get("SECONDS_OF_ATTACK", "20"))
SEED = int(os.environ.get("SEED", str(random.randrange(1000000))))
CLIENTS = 12
KEYS_A_SECOND = 40  # new ones; each is in competition for a few moments
PARCELS = 8
MACHINE = {"created": ["paid", "cancelled"], "paid": ["shipped", "refunded"], "shipped": ["returned"], "returned": ["shipped", "refunded"], "refunded": ["paid"], "cancelled": ["created"]}


class Node:
    """A server of scripts/cluster.sh; its host is the directory of its socket, beside its data."""

    def __init__(self, host):
        self.host = host
        self.data = pathlib.Path(host) / "data"

    def signal(self, number):
        """To all its processes, and how many these are."""
        sent = 0
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if os.readlink(process / "cwd") == str(self.data):
                    os.kill(int(process.name), number)
                    sent += 1
            except OSError:
                pass
        return sent

    def kill(self):
        while self.signal(signal.SIGKILL):
            time.sleep(0.01)
        # Their process may not have been waited for, and then counts as running.
        for lock in (self.data / "postmaster.pid", pathlib.Path(self.host) / ".s.PGSQL.5432.lock"):
            lock.unlink(missing_ok=True)

    def start(self, options=""):
        directory = subprocess.run([os.environ["PG_CONFIG"], "--bindir"], check=True, capture_output=True, text=True).stdout.strip()
        user = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups"] if os.getuid() == 0 else []
        subprocess.run(
            [*user, f"{directory}/pg_ctl", "start", "--silent", "--wait", "--pgdata", self.data, "--log", f"{self.host}/server.log", "--options", options], check=True, cwd="/", stdout=subprocess.DEVNULL
        )


class Attack:
    """Clients claim few keys, with an order on the key's worker and an entry on another one, and move few parcels through their states; `trouble` is called
    meanwhile, again and again."""

    def __init__(self, name, trouble):
        self.name = name
        self.trouble = trouble
        self.history = History(SEED, [("", "created")] + [(before, after) for before, states in MACHINE.items() for after in states])
        self.parcels = [f"parcel of {name} {number}" for number in range(PARCELS)]
        self.committed = set()  # keys whose claim was acknowledged
        self.done = set()  # keys that somebody was told are done
        self.errors = {}
        self.troubles = 0
        self.lock = threading.Lock()

    def claim(self, db, choose, seen):
        key = f"{self.name} {int(time.monotonic() * KEYS_A_SECOND) + choose.randrange(8)}"
        claimed = seen.call(db, "claim", key, "SELECT idem_claim(%s)", (key,), lambda found: "ft"[found[0]], retention=RETENTION)[0]
        if claimed:
            db.execute("INSERT INTO orders VALUES (%s, %s)", (key, seen.number))
            db.execute("INSERT INTO entries VALUES (%s, %s)", (choose.randrange(1000), key))
            seen.effect(key)
        return (self.committed if claimed else self.done), key

    def move(self, db, choose, seen):
        """From the state that was read, which may be another one by now, also with the row locked: a lock that was taken while its shard moved can be on the
        placement that is left."""
        key, target = choose.choice(self.parcels), choose.choice(list(MACHINE))
        is_locked = choose.random() < 0.5
        before = row(db, f"SELECT state FROM parcels WHERE order_key = %s{' FOR UPDATE' if is_locked else ''}", key)[0]
        found = seen.call(db, "transition", key, "SELECT outcome, state FROM idem_transition('parcels', jsonb_build_object('order_key', %s::text), %s, %s)",
                          (key, before, target), to=target)
        if found[0] == "moved":
            db.execute("INSERT INTO moves VALUES (%s, %s, %s)", (key, before, target))
            if choose.random() < 0.5:
                db.execute("INSERT INTO entries VALUES (%s, %s)", (choose.randrange(1000), key))
        return set(), key

    def transaction(self, db, number, choose):
        """A COMMIT whose answer is an error may have happened."""
        seen = self.history.transaction(number)
        try:
            db.execute("BEGIN")
            told, key = (self.claim if choose.random() < 0.7 else self.move)(db, choose, seen)
            if choose.random() < 0.2:
                db.execute("ROLLBACK")
                seen.end("aborted")
                return
            seen.fate = "unknown"
            db.execute("COMMIT")
            seen.end("committed")
            with self.lock:
                told.add(key)
        except psycopg.Error as error:
            if not db.closed and seen.fate == "aborted":
                db.execute("ROLLBACK")
                seen.end("aborted")
            elif not db.closed:
                seen.end("unknown")
            raise error

    def client(self, number):
        choose = random.Random(f"{SEED} {self.name} {number}")
        db = None
        while time.monotonic() < self.until:
            try:
                db = db or connect()
                self.transaction(db, number, choose)
            except psycopg.Error as error:
                with self.lock:
                    self.errors[error.sqlstate] = self.errors.get(error.sqlstate, 0) + 1
                if db is not None and db.closed:
                    db = None
                if db is None:
                    time.sleep(0.05)

    def run(self):
        with connect() as db:
            for parcel in self.parcels:
                db.execute("INSERT INTO parcels VALUES (%s, 'created')", (parcel,))
        self.until = time.monotonic() + SECONDS
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
            self.recover(db)
            effects = rows(db, "SELECT order_key, transaction FROM orders WHERE order_key LIKE %s", f"{self.name} %")
            entries = [key for key, in rows(db, "SELECT order_key FROM entries WHERE order_key LIKE %s", f"{self.name} %")]
            claimed = {key for key, in rows(db, "SELECT key FROM idem_keys WHERE key LIKE %s AND state = 'c'", f"{self.name} %")}
            moves = rows(db, "SELECT order_key, from_state, to_state FROM moves WHERE order_key = ANY (%s)", self.parcels)
            states = rows(db, "SELECT order_key, state FROM parcels WHERE order_key = ANY (%s)", self.parcels)
        orders = [key for key, _ in effects]
        twice = {key for key in orders if orders.count(key) > 1}
        lost = (self.committed | self.done) - set(orders)
        print(f"# {self.name}: {len(orders)} orders, {len(self.committed)} acknowledged, {len(moves)} moves, {self.troubles} troubles, errors {self.errors}, seed {SEED}")
        check(f"{self.name}: there was trouble, and work", self.troubles > 0 and orders and moves, (self.troubles, len(orders), len(moves)))
        check(f"{self.name}: no key has two orders", not twice, twice)
        check(f"{self.name}: nothing that was acknowledged is lost", not lost, sorted(lost)[:10])
        check(f"{self.name}: order, entry and key are there or not, all three", sorted(orders) == sorted(entries) and set(orders) == claimed, (len(orders), len(entries), len(claimed)))
        file = pathlib.Path(os.environ["HISTORIES"]) / f"{self.name.replace(' ', '-')}.history"
        self.history.write(file, effects, moves, states)
        verdict = subprocess.run([os.environ["JUDGE"], file], capture_output=True, text=True)
        print("# " + verdict.stdout.split("\n")[0])
        check(f"{self.name}: the judge of the chaos tests finds no violation", verdict.returncode == 0, (verdict.stdout + verdict.stderr).replace("\n", "\n# "))

    @staticmethod
    def recover(db):
        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            try:
                db.execute("SELECT recover_prepared_transactions()")
                return
            except psycopg.Error:
                time.sleep(0.2)


# --- Troubles -------------------------------------------------------------------------------------------------------------
# Each returns how much there was.


def quiet(choose):
    time.sleep(0.5)
    return 1


def move_shard(choose):
    """With what is colocated, from one worker to another."""
    with connect() as db:
        nodes = rows(db, "SELECT nodename, nodeport FROM pg_dist_node WHERE shouldhaveshards ORDER BY nodeid")
        shards = rows(db, "SELECT s.shardid, s.nodename, s.nodeport FROM citus_shards s WHERE s.table_name = 'idem.idem_keys'::regclass ORDER BY 1")
        shard, *source = choose.choice(shards)
        target = choose.choice([node for node in nodes if list(node) != source])
        try:
            db.execute("SELECT citus_move_shard_placement(%s, %s, %s, %s, %s, %s::citus.shard_transfer_mode)", (shard, *source, *target, choose.choice(["force_logical", "block_writes"])))
            return 1
        except psycopg.Error as error:
            print(f"# a shard was not moved: {error}")
            return 0


def terminate(choose):
    """The connections of the coordinator to a worker, at the worker: as a network that breaks."""
    time.sleep(choose.uniform(0.05, 0.4))
    with connect(choose.choice(hosts_of_workers())) as db:
        return row(db, "SELECT count(pg_terminate_backend(pid))::int FROM pg_stat_activity WHERE application_name LIKE 'citus_internal%%' AND random() < 0.3")[0]


def kill(nodes):
    def trouble(choose):
        time.sleep(choose.uniform(0.5, 2))
        node = choose.choice(nodes)
        node.kill()
        time.sleep(choose.uniform(0, 0.5))
        node.start()
        return 1

    return trouble


def pause(nodes):
    """Connections stay, and nothing comes: as a network that is silent."""
    def trouble(choose):
        time.sleep(choose.uniform(0.2, 1))
        node = choose.choice(nodes)
        node.signal(signal.SIGSTOP)
        time.sleep(choose.uniform(0.5, 3))
        node.signal(signal.SIGCONT)
        return 1

    return trouble


def kill_between(coordinator, workers):
    """The coordinator, when workers have prepared transactions and wait. Every other time these are committed: the coordinator waits for a standby that does
    not exist before it says so. Else it is stopped at any moment until that is so. Returns how many were left, none unless there were some of both kinds."""
    counts = {True: 0, False: 0}

    def prepared():
        found = set()
        for worker in workers:
            with connect(worker.host) as db:
                found |= {gid for gid, in rows(db, "SELECT gid FROM pg_prepared_xacts")}
        return found

    def trouble(choose):
        is_held = counts[True] <= counts[False]
        if is_held:
            with connect() as db:
                db.execute("ALTER SYSTEM SET synchronous_standby_names = 'nobody'")
                db.execute("SELECT pg_reload_conf()")
        left = set()
        deadline = time.monotonic() + 10
        while not left and time.monotonic() < deadline:
            time.sleep(choose.uniform(0.01, 0.1))
            coordinator.signal(signal.SIGSTOP)
            time.sleep(0.02)  # what was sent before arrives
            left = prepared()
            if not left:
                coordinator.signal(signal.SIGCONT)
        coordinator.kill()
        (coordinator.data / "postgresql.auto.conf").write_text("")
        coordinator.start("-c citus.recover_2pc_interval=-1")
        with connect() as db:
            committed = left & {gid for gid, in rows(db, "SELECT gid FROM pg_dist_transaction")}
            recovered = row(db, "SELECT recover_prepared_transactions()")[0]
        print(f"# prepared on workers when the coordinator was killed: {len(left)}, of these committed: {len(committed)}; recovered {recovered}")
        counts[True] += len(committed)
        counts[False] += len(left) - len(committed)
        time.sleep(choose.uniform(0.5, 1.5))
        return len(left) if all(counts.values()) else 0

    return trouble


def test():
    workers = [Node(host) for host in hosts_of_workers()]
    coordinator = Node(os.environ["PGHOST"])
    with connect() as db:
        db.execute('CREATE TABLE orders (order_key text COLLATE "C" NOT NULL, transaction bigint NOT NULL)')
        db.execute('CREATE TABLE parcels (order_key text COLLATE "C" PRIMARY KEY, state text NOT NULL)')
        db.execute('CREATE TABLE moves (order_key text COLLATE "C" NOT NULL, from_state text NOT NULL, to_state text NOT NULL)')
        for table in ("orders", "parcels", "moves"):
            db.execute("SELECT idem_citus_colocate(%s::regclass, 'order_key')", (table,))
        db.execute("CREATE TABLE entries (account int NOT NULL, order_key text NOT NULL)")
        db.execute("SELECT create_distributed_table('entries', 'account', colocate_with => 'none')")
        db.execute("SELECT idem_machine_define('parcels', %s)", (json.dumps({"initial": ["created"], "transitions": MACHINE}),))
        db.execute("SELECT idem_machine_attach('parcels', 'state', 'parcels')")
    troubles = {
        "quiet": quiet,
        "shards move": move_shard,
        "connections break": terminate,
        "a node is silent": pause([coordinator, *workers]),
        "a worker is killed": kill(workers),
        "the coordinator is killed": kill([coordinator]),
        "the coordinator is killed between PREPARE and COMMIT PREPARED": kill_between(coordinator, workers),
    }
    for name, trouble in troubles.items():
        if re.search(os.environ.get("ATTACKS", ""), name):
            Attack(name, trouble).run()
