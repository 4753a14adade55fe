# A primary that is lost under load: on its synchronous standby nothing is missing that was acknowledged, and fences and numbers grow
# beyond all that anybody was told, though the standby's clock is hours behind.

use strict;
use warnings;

use IPC::Run qw(start);
use IdemCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $library = clock_library();
plan skip_all => 'no C compiler' unless defined $library;

my $primary = PostgreSQL::Test::Cluster->new('primary');
$primary->init(allows_streaming => 1);
start_by_clock($primary, $library, 0);
$primary->safe_psql('postgres', 'CREATE EXTENSION idem; CREATE TABLE payment (key text)');
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
start_by_clock($standby, $library, -4 * 3600);
$primary->append_conf('postgresql.conf', "synchronous_standby_names = '*'");
$primary->reload;
$primary->poll_query_until('postgres', q{SELECT count(*) = 1 FROM pg_stat_replication WHERE sync_state = 'sync'});

# Each client prints a line when the commit of its statement has returned: key, fence, number.
my $clients = 4;
my $dir = PostgreSQL::Test::Utils::tempdir();
my @handles;
foreach my $client (1 .. $clients)
{
    append_to_file("$dir/$client.sql", join '', map { <<"SQL" } 1 .. 50000);
WITH paid AS (INSERT INTO payment SELECT '$client-$_' WHERE idem_claim('$client-$_') RETURNING key)
SELECT key, (SELECT fence FROM idem_begin('leased-$client-$_', lease => '1 d')), idem_next_id() FROM paid;
SQL
    push @handles,
      start([ 'psql', '-XAtq', '-v', 'ON_ERROR_STOP=1', '-d', $primary->connstr('postgres'), '-f', "$dir/$client.sql" ],
        '>', "$dir/$client.out", '2>', "$dir/$client.err");
}

sub acknowledged { return map { grep { /^\d+-\d+\|\d+\|\d+$/ } split /\n/, slurp_file("$dir/$_.out") } 1 .. $clients }

# psql's output reaches the file in blocks: some are enough.
my $deadline = time + $PostgreSQL::Test::Utils::timeout_default;
select(undef, undef, undef, 0.05) until acknowledged() > 1000 or time > $deadline;
$primary->stop('immediate');
$_->finish foreach @handles;
$standby->promote;
$standby->safe_psql('postgres', "ALTER SYSTEM SET synchronous_standby_names = ''");
$standby->reload;

my @acknowledged = acknowledged();
cmp_ok(scalar @acknowledged, '>', 1000, 'there is something to look for: ' . @acknowledged);
append_to_file("$dir/acknowledged", join("\n", @acknowledged) . "\n");
$standby->safe_psql('postgres', 'CREATE TABLE acknowledged (key text, fence bigint, number bigint)');
$standby->safe_psql('postgres', "\\copy acknowledged FROM '$dir/acknowledged' (DELIMITER '|')");

sub is_none { my ($name, $sql) = @_; is($standby->safe_psql('postgres', "SELECT count(*) FROM ($sql) AS found"), '0', $name) }

is_none('no key has a payment and no claim, or a claim and no payment',
    q{SELECT FROM payment p FULL JOIN (SELECT key FROM idem_keys WHERE lease_until IS NULL) k USING (key) WHERE p.key IS NULL OR k.key IS NULL});
is_none('every key that was acknowledged is a duplicate',
    q{SELECT FROM acknowledged WHERE idem_try_claim(key) <> 'completed'});
is_none('and was paid once', q{SELECT FROM acknowledged a WHERE (SELECT count(*) FROM payment p WHERE p.key = a.key) <> 1});
is_none('every lease is held', q{SELECT FROM acknowledged WHERE idem_try_claim('leased-' || key) <> 'in_flight'});
is_none('by its fence',
    q{SELECT FROM acknowledged WHERE idem_renew('leased-' || key, fence, '1 d') < clock_timestamp()});
is_none('no fence and no number was told twice',
    q{SELECT fence FROM acknowledged GROUP BY fence HAVING count(*) > 1 UNION ALL SELECT number FROM acknowledged GROUP BY number HAVING count(*) > 1});
is( $standby->safe_psql('postgres',
        q{SELECT (SELECT fence FROM idem_begin('new', lease => '1 min')) > max(fence), idem_next_id() > max(number) FROM acknowledged}),
    't|t', 'new ones are greater');
check_indexes($standby, 'idem_keys', 'the indexes agree with the table');

$standby->stop;
done_testing();
