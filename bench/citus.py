"""What a call costs on a Citus cluster: processor time of all processes of each node, and commands that the coordinator sends to workers. Prints a table for
Markdown. libpq's environment names the coordinator; a node's host is the directory of its socket, beside its data.

    citus.py CALLS NAME=DATABASE...    the databases, with idem in each; NAME is a column of the table"""

import itertools
import os
import pathlib
import sys
import time

import psycopg

TICK = 1000 / os.sysconf("SC_CLK_TCK")  # ms
ROUNDS = 3  # of which the cheapest counts: other programs on the machine make a call dearer
MACHINE = '{"initial": ["a"], "transitions": {"a": ["b"], "b": ["a"]}}'
BATCH = 100


def processor_time(host):
    """In ms, of a server's processes and of those that have ended."""
    data, spent = pathlib.Path(host) / "data", 0
    postmaster = (data / "postmaster.pid").read_text().split("\n")[0]
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            if os.readlink(process / "cwd") == str(data):
                spent += int((process / "schedstat").read_text().split()[0]) / 1e6
                if process.name == postmaster:
                    spent += sum(map(int, (process / "stat").read_text().rpartition(")")[2].split()[13:15])) * TICK
        except OSError:
            pass
    return spent


class Database:
    def __init__(self, name):
        self.keys = itertools.count(1)
        self.db = psycopg.connect(dbname=name, autocommit=True, prepare_threshold=None)
        self.db.execute("SET search_path = public, idem")
        self.db.execute('CREATE TABLE orders (order_key text COLLATE "C" PRIMARY KEY, item text, state text NOT NULL DEFAULT \'a\')')
        self.hosts = [os.environ["PGHOST"]]
        if self.db.execute("SELECT to_regclass('pg_dist_node')").fetchone()[0]:
            self.db.execute("SELECT idem_citus_colocate('orders', 'order_key')")
            self.hosts += [host for host, in self.db.execute("SELECT nodename FROM pg_dist_node WHERE shouldhaveshards").fetchall()]
        self.db.execute("SELECT idem_machine_define('bench', %s)", (MACHINE,))
        self.db.execute("SET client_min_messages = error; SELECT idem_machine_attach('orders', 'state', 'bench'); RESET client_min_messages")
        self.db.execute("SELECT idem_claim('known')")
        self.db.execute("INSERT INTO orders VALUES ('known', 'lamp')")

    def key(self):
        return f"key-{next(self.keys)}"

    def transaction(self, *calls):
        self.db.execute("BEGIN")
        for statement, *arguments in calls:
            self.db.execute(statement, arguments)
        self.db.execute("COMMIT")

    def by_hand(self):
        self.db.execute("INSERT INTO orders VALUES (%s, 'lamp') ON CONFLICT DO NOTHING", (self.key(),))

    def fresh(self):
        self.db.execute("SELECT idem_claim(%s)", (self.key(),))

    def duplicate(self):
        self.db.execute("SELECT idem_claim('known')")

    def order(self):
        key = self.key()
        self.transaction(("SELECT idem_claim(%s)", key), ("INSERT INTO orders VALUES (%s, 'lamp')", key))

    def request(self):
        key = self.key()
        self.transaction(("SELECT * FROM idem_begin(%s, fingerprint => '\\x01')", key), ("INSERT INTO orders VALUES (%s, 'lamp')", key),
                         ("SELECT idem_complete(%s, '{\"id\": 1}', 201)", key))

    def batch(self):
        self.db.execute("SELECT count(*) FROM idem_claim_many(%s)", ([self.key() for _ in range(BATCH)],))

    def batch_on_kept_connections(self):
        self.db.execute("SET citus.max_cached_conns_per_worker = 8")
        self.batch()

    def move(self):
        self.db.execute("SELECT idem_transition('orders', '{\"order_key\": \"known\"}', NULL, %s)", ("ba"[next(self.keys) % 2],))

    def commands(self, call):
        """How many one call sends, the last of three."""
        seen = []
        self.db.add_notice_handler(lambda notice: seen.append(notice.message_primary.startswith("issuing")))
        self.db.execute("SET citus.log_remote_commands = on")
        for _ in range(3):
            seen.clear()
            call()
            sent = sum(seen)
        self.db.execute("SET citus.log_remote_commands = off")
        return sent

    def measure(self, call, calls):
        """Processor time of one call in ms, of the coordinator and of the workers; and commands."""
        for _ in range(20):
            call()
        cheapest = min((self.round(call, calls // ROUNDS) for _ in range(ROUNDS)), key=sum)
        return *cheapest, self.commands(call) if len(self.hosts) > 1 else 0

    def round(self, call, calls):
        """Without what the nodes spend when nothing is called."""
        idle = [processor_time(host) for host in self.hosts]
        since = time.monotonic()
        time.sleep(1)
        rested = [processor_time(host) for host in self.hosts]
        idle = [(after - before) / (time.monotonic() - since) for before, after in zip(idle, rested)]
        since = time.monotonic()
        for _ in range(calls):
            call()
        elapsed = time.monotonic() - since
        spent = [(processor_time(host) - before - rest * elapsed) / calls for host, before, rest in zip(self.hosts, rested, idle)]
        return spent[0], sum(spent[1:])


CASES = {
    "an order alone, by hand": Database.by_hand,
    "a duplicate": Database.duplicate,
    "a fresh claim": Database.fresh,
    "a claim and an order": Database.order,
    "begin, an order, complete": Database.request,
    f"`idem_claim_many` of {BATCH} keys, for each key": Database.batch,
    "the same, `citus.max_cached_conns_per_worker = 8`": Database.batch_on_kept_connections,
    "`idem_transition`": Database.move,
}


def main():
    calls = int(sys.argv[1])
    columns = [argument.partition("=")[::2] for argument in sys.argv[2:]]
    databases = [Database(database) for _, database in columns]
    print("| |", " | ".join(name for name, _ in columns), "| commands |")
    print("|---" * (len(columns) + 2) + "|")
    for case, call in CASES.items():
        cells, sent = [], []
        for database in databases:
            size = BATCH if call in (Database.batch, Database.batch_on_kept_connections) else 1
            here, away, commands = database.measure(lambda: call(database), max(calls // size, 30))
            cells.append(f"{1000 * here / size:.0f}" + (f" + {1000 * away / size:.0f}" if len(database.hosts) > 1 else ""))
            sent.append(commands)
            database.db.execute("RESET citus.max_cached_conns_per_worker")
        print("|", " | ".join([case, *cells, str(sent[-1])]), "|", flush=True)


main()
