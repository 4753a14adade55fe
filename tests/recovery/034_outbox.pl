# Publishers and relays at full speed. Relays come too late, give back, acknowledge a part, roll back, and die; the server is
# stopped without notice on the way. Every message is acknowledged once, and no message of a key is given out before all earlier
# ones of that key are done with. At last, what a dump makes of messages that are out.

use strict;
use warnings;

use IdemCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = start_server('outbox', conf => "log_statement = none\nidem.outbox_max_attempts = 1000000\n");
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE keys (key text PRIMARY KEY, n int NOT NULL DEFAULT 0) WITH (fillfactor = 20);
INSERT INTO keys SELECT 'key ' || i FROM generate_series(1, 12) i;
CREATE TABLE published (id bigint PRIMARY KEY, key text, n int);
CREATE TABLE given (id bigint, fence bigint, attempt int);
CREATE TABLE acked (id bigint, fence bigint);
CREATE TABLE nacked (id bigint, fence bigint);

-- The row of the key is locked before the id is drawn: so the order of ids is that of n.
CREATE FUNCTION publish(k int, how_many int) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    number int;
BEGIN
    FOR i IN 1 .. how_many LOOP
        UPDATE keys SET n = n + 1 WHERE key = 'key ' || k RETURNING n INTO number;
        INSERT INTO published VALUES (idem_publish('t', to_jsonb(number), 'key ' || k), 'key ' || k, number);
    END LOOP;
    INSERT INTO published VALUES (idem_publish('t', '0'), NULL, 0);
END $$;

CREATE FUNCTION take(most int, lease interval) RETURNS bigint LANGUAGE sql AS $$
    WITH taken AS (INSERT INTO given SELECT id, fence, attempt FROM idem_outbox_take('t', most, lease) RETURNING fence)
    SELECT coalesce(max(fence), 0) FROM taken
$$;

-- One by one, to know which.
CREATE FUNCTION settle(batch bigint, part float8, nack_part float8) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    message bigint;
BEGIN
    FOR message IN SELECT id FROM given WHERE fence = batch AND random() < part ORDER BY random() LOOP
        IF random() < nack_part THEN
            INSERT INTO nacked SELECT message, batch WHERE idem_outbox_nack(ARRAY[message], batch, random() * interval '5 ms') = 1;
        ELSE
            INSERT INTO acked SELECT message, batch WHERE idem_outbox_ack(ARRAY[message], batch) = 1;
        END IF;
    END LOOP;
END $$;
CREATE FUNCTION die() RETURNS boolean LANGUAGE sql AS 'SELECT pg_terminate_backend(pg_backend_pid())';
SQL

my $scripts = PostgreSQL::Test::Utils::tempdir();
append_to_file("$scripts/publish.sql", <<'SQL');
\set key random(1, 12)
\set how_many random(1, 3)
\set end random(1, 20)
BEGIN;
SELECT publish(:key, :how_many);
\if :end = 1
    ROLLBACK;
\else
    COMMIT;
\endif
SQL
append_to_file("$scripts/relay.sql", <<'SQL');
\set most random(1, 30)
\set lease random(1, 12)
\set level random(1, 3)
\set end random(1, 20)
\set dies random(1, 2000)
\set pause random(0, 4)
\set part random(5, 12)
\if :level = 1
    BEGIN ISOLATION LEVEL REPEATABLE READ;
\else
    BEGIN;
\endif
SELECT take(:most, :lease * interval '1 ms') AS fence \gset
\if :dies = 1
    SELECT die();
\endif
\if :end = 1
    ROLLBACK;
\else
    COMMIT;
    \if :fence > 0
        \sleep :pause ms
        BEGIN;
        SELECT settle(:fence, :part / 10.0, 0.2);
        \if :dies = 2
            SELECT die();
        \endif
        \if :end = 2
            ROLLBACK;
        \else
            COMMIT;
        \endif
    \endif
\endif
SQL

my @load = ('pgbench', '--no-vacuum', '--client=12', '--jobs=2', '--random-seed=rand', '--max-tries=1', "--file=$scripts/publish.sql\@3",
    "--file=$scripts/relay.sql\@5", $node->connstr('postgres'));

sub count_of { return $node->safe_psql('postgres', "SELECT count(*) FROM $_[0]") }

# --- The storm --------------------------------------------------------------------------------------------------------------

my ($stdout, $stderr) = ('', '');
my $round = IPC::Run::start([ @load, '--time=120' ], '<', \undef, '>', \$stdout, '2>', \$stderr);
ok($node->poll_query_until('postgres', 'SELECT count(*) > 200 FROM acked'), 'messages come through');
$node->stop('immediate');
$round->finish;
$node->start;

$round = IPC::Run::start([ @load, '--time=8' ], '<', \undef, '>', \$stdout, '2>', \$stderr);
$round->finish;
unlike($stderr, qr/ERROR|PANIC|FATAL(?!:  (terminating connection|the database system is))/, 'no call ended in an error');
diag($stderr) if $stderr =~ /ERROR|PANIC/;

# --- What is left -----------------------------------------------------------------------------------------------------------

$node->safe_psql('postgres', <<'SQL');
DO $$
BEGIN
    WHILE EXISTS (SELECT FROM idem_outbox) LOOP
        PERFORM settle(take(400, '1 hour'), 2, 0);
        COMMIT;
    END LOOP;
END $$
SQL
note(join ', ', map { count_of($_) . " $_" } qw(published given acked nacked));
is($node->safe_psql('postgres', 'SELECT count(*), count(DISTINCT id) FROM acked'), count_of('published') . '|' . count_of('published'),
    'every message was acknowledged, and none twice');
is(count_of('acked a WHERE NOT EXISTS (SELECT FROM published p WHERE p.id = a.id)'), '0', 'none that was not published');
is(count_of('given g WHERE NOT EXISTS (SELECT FROM published p WHERE p.id = g.id)'), '0', 'nor given out');
is(count_of('idem_outbox_leases'), '0', 'no lease is left');
is(count_of('idem_outbox_parked'), '0', 'nothing was parked');
is(count_of('(SELECT FROM acked JOIN nacked USING (id, fence)) both_of_them'), '0', 'nothing was given back and acknowledged by one relay');
is(count_of('(SELECT FROM given GROUP BY id, attempt HAVING count(*) > 1) twice'), '0', 'each attempt was given out once');
is( count_of(q{(SELECT key, n, min(g.fence) AS first, lag(max(g.fence)) OVER (PARTITION BY key ORDER BY n) AS last_of_before
                  FROM published JOIN given g USING (id) WHERE key IS NOT NULL GROUP BY key, n) o WHERE first <= last_of_before}),
    '0', 'no message of a key was given out before the one before it was done with');
is( count_of(q{(SELECT max(g.fence) > (SELECT min(fence) FROM acked a WHERE a.id = g.id) AS late FROM given g GROUP BY id) o WHERE late}),
    '0', 'nor any after it was acknowledged');
check_indexes($node, $_, "indexes of $_") foreach qw(idem_outbox idem_outbox_leases);

# --- Dump and restore -------------------------------------------------------------------------------------------------------

$node->safe_psql('postgres', <<'SQL');
SET idem.outbox_max_attempts = 1;
SELECT idem_publish('dump', '"parked"', 'a');
SELECT idem_outbox_nack(array_agg(id), max(fence)) FROM idem_outbox_take('dump');
SELECT idem_publish('dump', '"out"', 'a'), idem_publish('dump', '"waiting"', 'a');
CREATE TABLE out AS SELECT id, fence FROM idem_outbox_take('dump', lease => '1 hour');
SQL
$node->safe_psql('postgres', 'CREATE DATABASE restored');
my $dump = $node->basedir . '/outbox.sql';
$node->command_ok([ 'pg_dump', '-d', $node->connstr('postgres'), '-f', $dump ], 'pg_dump');
$node->command_ok([ 'psql', '-X', '-q', '-v', 'ON_ERROR_STOP=1', '-d', $node->connstr('restored'), '-f', $dump ], 'restored');
is($node->safe_psql('restored', 'SELECT sum(idem_outbox_ack(ARRAY[id], fence)) FROM out'), '0', 'leases are not dumped');
is($node->safe_psql('restored', q{SELECT payload, attempt, fence > (SELECT fence FROM out) FROM idem_outbox_take('dump')}), '"out"|1|t',
    'what was out is given out again');
is($node->safe_psql('restored', q{SELECT payload, attempts FROM idem_dead_letters}), '"parked"|1', 'dead letters are there');

$node->stop;
done_testing();
