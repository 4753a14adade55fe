# The background worker by a clock that is set back: sweeping goes on.

use strict;
use warnings;

use IdemCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $library = clock_library() or plan(skip_all => 'there is no C compiler');
my $hour = 3600;
my $node = PostgreSQL::Test::Cluster->new('worker_clock');
$node->init;
$node->append_conf('postgresql.conf', <<'CONF');
shared_preload_libraries = 'idem'
idem.databases = 'postgres'
idem.sweep_interval = 200ms
autovacuum = off
CONF
start_by_clock($node, $library, 10 * $hour);
$node->safe_psql('postgres', 'CREATE EXTENSION idem');

sub expire { $node->safe_psql('postgres', qq{SELECT idem_claim('$_[0]', '1 ms'), pg_sleep(0.005)}) }

sub is_swept
{
    my ($name) = @_;
    ok($node->poll_query_until('postgres', 'SELECT count(*) = 0 FROM idem_keys'), $name);
}

expire('a');
is_swept('sweeps');
set_clock($node, 8 * $hour);
expire('b');
is_swept('goes on when the clock is set back');
is(sqlstate($node, 'CALL idem_sweep()'), '00000', 'so does idem_sweep');
$node->psql('postgres', 'CALL idem_sweep()', stderr => \my $notices);
unlike($notices, qr/nothing is swept before/, 'which waits for no start');

# A pause ends after as long as it is to last.
$node->safe_psql('postgres', q{SELECT count(*) FROM idem_claim_many(ARRAY(SELECT 'c' || n FROM generate_series(1, 100) n), '1 h')});
$node->safe_psql('postgres', q{ALTER SYSTEM SET idem.databases = ''});
$node->reload;
$node->safe_psql('postgres', q{UPDATE idem_keys SET expires_at = '2000-01-01'});
my $sweeper = $node->background_psql('postgres');
$sweeper->query_until(qr/under way/, "\\echo under way\nCALL idem_sweep(1, '200 ms');\n\\echo swept\n");
$node->poll_query_until('postgres', q{SELECT bool_or(rows_deleted > 1) FROM idem_sweep_progress}) or die 'no sweep';
set_clock($node, 4 * $hour);
is_swept('a pause is no longer when the clock is set back meanwhile');
$sweeper->quit;

# A delay after the start, too.
$node->safe_psql('postgres', q{ALTER SYSTEM SET idem.databases = 'postgres'});
$node->safe_psql('postgres', q{ALTER SYSTEM SET idem.sweep_start_delay = '2 s'});
$node->stop;
start_by_clock($node, $library, 4 * $hour);
set_clock($node, 0);
expire('d');
is_swept('a delay after the start is no longer when the clock is set back meanwhile');

$node->stop;
done_testing();
