# 64 sessions race for three locks: they wait or do not, work, renew, free, come too late, roll back, and die at any point. Of
# no lock are there ever two fences at a time under which work goes on, and fences grow in the order of the work.

use strict;
use warnings;

use IdemCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = start_server('lock_race', conf => "log_statement = none\nautovacuum = off\n");
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE taken (name text, fence bigint, who int, at timestamptz);
CREATE TABLE work (name text, fence bigint, since timestamptz, until timestamptz);
CREATE TABLE stale (name text, fence bigint);

-- The moment is one at which the lock is had.
CREATE FUNCTION take(name text, ttl int, wait interval, who int) RETURNS bigint LANGUAGE plpgsql AS $$
DECLARE
    fence bigint := idem_lock(name, ttl * interval '1 ms', CASE WHEN who % 4 = 0 THEN 'session ' || who END, wait);
BEGIN
    INSERT INTO taken SELECT name, fence, who, clock_timestamp() WHERE fence IS NOT NULL;
    RETURN coalesce(fence, 0);
END $$;

-- From `since` to `until` the assertion holds, and longer, namely until the transaction ends.
CREATE FUNCTION work_under(name text, fence bigint) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    since timestamptz;
BEGIN
    PERFORM idem_assert_fence(name, fence);
    since := clock_timestamp();
    PERFORM pg_sleep(random() * 0.006);
    INSERT INTO work VALUES (name, fence, since, clock_timestamp());
EXCEPTION WHEN SQLSTATE 'ID001' THEN
    INSERT INTO stale VALUES (name, fence);
END $$;

CREATE FUNCTION die() RETURNS boolean LANGUAGE sql AS 'SELECT pg_terminate_backend(pg_backend_pid())';
SQL

# Who dies does not come back, so that the last ones have more room.
$node->pgbench(
    '--no-vacuum --client=64 --jobs=2 --transactions=40 --random-seed=rand', 2, [qr{aborted|processed}], [qr{terminating connection}],
    'sessions raced, and some died',
    {
        '015_lock_race' => q{
            \set name random(1, 3)
            \set ttl random(1, 20)
            \set wait random(0, 2)
            \set pause random(0, 10)
            \set what random(1, 10)
            \set dies random(1, 300)
            BEGIN;
            SELECT take('lock ' || :name, :ttl, CASE :wait WHEN 0 THEN '0' WHEN 1 THEN '30 ms' ELSE '1 min' END::interval, :client_id) AS fence \gset
            \if :dies = 1
                SELECT die();
            \endif
            COMMIT;
            \if :fence > 0
                \sleep :pause ms
                BEGIN;
                SELECT work_under('lock ' || :name, :fence);
                \if :dies = 2
                    SELECT die();
                \endif
                COMMIT;
                \if :what <= 4
                    SELECT idem_lock_renew('lock ' || :name, :fence, :ttl * interval '1 ms');
                    \sleep :pause ms
                    BEGIN;
                    SELECT work_under('lock ' || :name, :fence);
                    COMMIT;
                \endif
                \if :dies = 3
                    SELECT die();
                \endif
                \if :what % 3 = 0
                    BEGIN;
                    SELECT idem_unlock('lock ' || :name, :fence);
                    \if :dies <= 30
                        ROLLBACK;
                    \else
                        COMMIT;
                    \endif
                \endif
            \endif } });

sub counted { return $node->safe_psql('postgres', "SELECT count(*) FROM $_[0]") }

cmp_ok(counted('work'), '>', 300, 'there was work');
cmp_ok(counted('stale'), '>', 10, 'some came too late for it');
is( counted(
        'work a JOIN work b ON a.name = b.name AND a.fence < b.fence AND tstzrange(a.since, a.until) && tstzrange(b.since, b.until)'),
    '0', 'never under two fences of a lock at a time');
is(counted('(SELECT fence, lag(fence) OVER (PARTITION BY name ORDER BY since) AS before FROM work) w WHERE fence < before'),
    '0', 'fences grow in the order of the work');
is(counted('(SELECT fence, lag(fence) OVER (PARTITION BY name ORDER BY at) AS before FROM taken) t WHERE fence < before'),
    '0', 'and in the order in which locks were taken');
is(counted('(SELECT fence FROM taken GROUP BY fence HAVING count(DISTINCT (name, who)) > 1) t'), '0', 'no fence was for two');
$node->poll_query_until('postgres', q{SELECT count(*) = 0 FROM pg_locks WHERE locktype = 'advisory'})
  or die 'somebody is left in the queue';
is($node->safe_psql('postgres', q{SELECT count(idem_lock('lock ' || n, '1 h', wait => '1 min')) FROM generate_series(1, 3) AS n}),
    '3', 'every lock can be had afterwards');
check_indexes($node, 'idem_locks', 'the indexes agree with the table');

$node->stop;
done_testing();
