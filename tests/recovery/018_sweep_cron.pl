# Without preloading: the lines of docs/operations.md, with Debian's pg_cron and with the system's cron.

use strict;
use warnings;

use IdemCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = PostgreSQL::Test::Cluster->new('sweep_cron');
$node->init;
$node->append_conf('postgresql.conf', "autovacuum = off\n");
$node->start;
my $has_cron = $node->safe_psql('postgres', q{SELECT count(*) FROM pg_available_extensions WHERE name = 'pg_cron'});
$node->safe_psql('postgres', 'CREATE DATABASE shop');
$node->safe_psql('shop', 'CREATE EXTENSION idem');

sub expire { $node->safe_psql('shop', q{SELECT idem_claim('a', '1 ms'), idem_claim('b'), pg_sleep(0.005)}) }

sub is_swept
{
    my ($name) = @_;
    ok($node->poll_query_until('shop', q{SELECT array_agg(key::text) = '{b}' FROM idem_keys}), $name);
}

# What a shell does with the line of the crontab, apart from when and as whom.
expire();
sub system_cron
{
    my ($database) = @_;
    my $printed = '';
    IPC::Run::run([ 'sh', '-c', q{PGOPTIONS='-c client_min_messages=warning' psql -qX -d "$0" -c 'CALL idem_sweep()'}, $node->connstr($database) ],
        '>&', \$printed);
    return $printed;
}
is(system_cron('shop'), '', 'system cron: says nothing');
is_swept('system cron: sweeps');
like(system_cron('postgres'), qr/ERROR: .*idem_sweep\(\) does not exist/, 'system cron: reports a failure');

SKIP:
{
    skip 'there is no pg_cron', 1 unless $has_cron;
    # Seconds come with pg_cron 1.5; Debian 12 has 1.4, where a minute is the least.
    $node->append_conf('postgresql.conf', "shared_preload_libraries = 'pg_cron'\ncron.use_background_workers = on\n");
    $node->restart;
    $node->safe_psql('postgres', 'CREATE EXTENSION pg_cron');
    expire();
    $node->safe_psql('postgres', q{SELECT cron.schedule_in_database('sweep', '* * * * *', 'CALL idem_sweep()', 'shop')});
    is_swept('pg_cron: sweeps');
}

$node->stop;
done_testing();
