# Claims go on while idem's tables are rewritten and their indexes rebuilt: every key that was granted stays granted.
#
# pg_repack copies changes by a row trigger, and idem writes past the executor, so a claim that is committed while pg_repack copies
# the table would be gone after the swap. Claims raise 55000 as long as the trigger is there.

use strict;
use warnings;

use IdemCluster;
use IPC::Run;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = start_server('rewrites', streaming => 1, conf => "fsync = off\nautovacuum = off\n");
my $refused;

# What it answers; what is refused with 55000 is counted.
sub granted
{
    my ($sql) = @_;
    my ($stdout, $stderr);
    $node->psql('postgres', $sql, stdout => \$stdout, stderr => \$stderr, extra_params => [ '-v', 'VERBOSITY=sqlstate' ]);
    die $stderr if $stderr =~ /ERROR/ && $stderr !~ /ERROR:  55000/;
    $refused++ if $stderr =~ /ERROR/;
    return split /\n/, $stdout;
}

# Claims keys until the function says that the rewrite is over. Returns those that were granted.
sub claim_during
{
    my ($round, $is_over) = @_;
    my @granted;
    $refused = 0;
    for my $batch (1 .. 2000)
    {
        my $over = $is_over->();
        push @granted,
            granted("SELECT k FROM (SELECT format('%s-%s-%s', '$round', $batch, i) AS k FROM generate_series(1, 5) i) s WHERE idem_claim(k)");
        last if $over;
    }
    return @granted;
}

sub lost
{
    my @keys = @_;
    my $array = join(',', @keys);
    return $node->safe_psql('postgres', "SELECT count(*) FROM idem_claim_many('{$array}')");
}

sub rewrite
{
    my ($name, @command) = @_;
    my ($out, $err) = ('', '');
    my $run = IPC::Run::start(\@command, '>', \$out, '2>', \$err);
    my @granted = claim_during($name, sub { $run->pump_nb if $run->pumpable; return !$run->pumpable });
    $run->finish;
    is($run->result(0), 0, "$name succeeds") or diag($err);
    my $count = @granted;
    is(lost(@granted), 0, "$name: none of the keys granted meanwhile is granted again") or diag("of $count");
}

$node->safe_psql('postgres', "SELECT count(idem_claim('before-' || i)) FROM generate_series(1, 200000) i");
my @psql = ('psql', '-XAtq', '-d', $node->connstr('postgres'), '-c');

rewrite('vacuum_full', @psql, 'VACUUM FULL idem_keys');
rewrite('cluster', @psql, 'CLUSTER idem_keys USING idem_keys_pkey');
rewrite('reindex', @psql, 'REINDEX TABLE idem_keys');
rewrite('reindex_concurrently', @psql, 'REINDEX TABLE CONCURRENTLY idem_keys');

SKIP:
{
    skip('REPACK came with PostgreSQL 19', 2) if $node->safe_psql('postgres', 'SHOW server_version_num') < 190000;
    rewrite('repack_concurrently', @psql, 'REPACK (CONCURRENTLY) idem_keys');
}

SKIP:
{
    my $available = $node->safe_psql('postgres', "SELECT count(*) FROM pg_available_extensions WHERE name = 'pg_repack'");
    chomp(my $bindir = `pg_config --bindir`);
    skip('pg_repack is not installed', 7) unless $available && -x "$bindir/pg_repack";
    $node->safe_psql('postgres', 'CREATE EXTENSION pg_repack');
    my @repack = ("$bindir/pg_repack", '-h', $node->host, '-p', $node->port, '-d', 'postgres', '--no-kill-backend');
    rewrite('pg_repack_indexes', @repack, '-x', '-t', 'public.idem_keys');
    rewrite('pg_repack', @repack, '-t', 'public.idem_keys');
    cmp_ok($refused, '>', 0, 'pg_repack: claims are refused meanwhile');
    is($node->safe_psql('postgres', q{SELECT idem_claim('after')}), 't', 'and granted afterwards');

    # A lock whose lease lives is nobody else's, also after pg_repack.
    $node->safe_psql('postgres', "SELECT count(idem_lock('before-' || i)) FROM generate_series(1, 60000) i");
    my ($run, @locks) = (IPC::Run::start([ @repack, '-t', 'public.idem_locks' ], '>', \my $out, '2>', \my $err));
    while ($run->pumpable)
    {
        $run->pump_nb;
        push @locks, granted("SELECT n FROM (SELECT '" . @locks . "-' || i AS n FROM generate_series(1, 5) i) s WHERE idem_lock(n, '1 h') IS NOT NULL");
    }
    $run->finish;
    is($node->safe_psql('postgres', "SELECT count(*) FROM unnest('{" . join(',', @locks) . "}'::text[]) n WHERE idem_lock(n, '1 h') IS NOT NULL"),
        0, 'pg_repack: no lock that was granted meanwhile is granted again') or diag('of ' . @locks);
}

is($node->safe_psql('postgres', "SELECT count(*) FROM idem_claim_many(ARRAY(SELECT 'before-' || i FROM generate_series(1, 200000, 97) i))"),
    0, 'no older key is lost');
check_indexes($node, 'idem_keys', 'the index has every row');

$node->stop;
done_testing();
