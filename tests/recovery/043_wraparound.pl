# Transaction ids and multixacts pass their limits: keys that were claimed before are duplicates after, holders and waiters
# across the limit find each other, and a server that refuses new transaction ids still answers about what is done.

use strict;
use warnings;

use IdemCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = start_server('wraparound', conf => "fsync = off\nautovacuum = off\nmax_prepared_transactions = 2\n");
sub ask { return $node->safe_psql('postgres', $_[0]) }

sub make_segment
{
    my ($directory, $number) = @_;
    my $path = sprintf('%s/%s/%04X', $node->data_dir, $directory, $number);
    append_to_file($path, "\0" x (32 * 8192)) unless -e $path;
}

sub freeze
{
    ask("UPDATE pg_database SET datallowconn = true WHERE datname = 'template0'");
    $node->safe_psql($_, 'VACUUM FREEZE') for qw(postgres template1 template0);
}

sub move_xid
{
    my ($xid) = @_;
    freeze();
    $node->stop;
    make_segment('pg_xact', int($_ / (8192 * 4 * 32))) for $xid, ($xid + 2000) % 2**32;
    command_ok([ 'pg_resetwal', '-f', '-x', $xid, '-D', $node->data_dir ], "the next transaction id is $xid");
    $node->start;
}

sub move_multixact
{
    my ($multixact) = @_;
    freeze();
    $node->stop;
    my $bytes_of_offset = $node->pg_version->major >= 19 ? 8 : 4;
    make_segment('pg_multixact/offsets', int($multixact / (8192 / $bytes_of_offset * 32)));
    command_ok([ 'pg_resetwal', '-f', '-m', "$multixact,$multixact", '-D', $node->data_dir ], "the next multixact is $multixact");
    $node->start;
}

ask("SELECT idem_claim('before'), idem_hit('counter')");
my $fence = ask("SELECT fence FROM idem_begin('leased', lease => '1 day', owner => 'me')");
my $lock = ask("SELECT idem_lock('lock', '1 day')");
my $id = ask('SELECT idem_next_id()');

my $hits = 1;
my @rounds;

sub check
{
    my ($round) = @_;
    push @rounds, $round;
    is(ask("SELECT idem_claim('before')"), 'f', "$round: an old key is a duplicate");
    is(ask("SELECT outcome FROM idem_begin('leased', lease => '1 s')"), 'in_flight', "$round: an old lease lives");
    is(ask("SELECT fence FROM idem_begin('leased', lease => '1 day', owner => 'me')"), $fence, "$round: its owner gets it back");
    is(sqlstate($node, "BEGIN; SELECT idem_assert_fence('lock', $lock); COMMIT"), '00000', "$round: an old lock is held");
    is(ask("SELECT idem_hit('counter')"), ++$hits, "$round: a counter goes on");
    is(ask("SELECT idem_claim('$round')"), 't', "$round: a new key");
    is(ask("SELECT count(*) FROM idem_claim_many('{" . join(',', @rounds) . "}')"), 0, "$round: all rounds' keys are duplicates");
    is_growing("$round: fences grow", $lock, ask("SELECT idem_lock('lock of $round')"));
    is_growing("$round: ids grow", $id, ask('SELECT idem_next_id()'));
}

check('start');
move_xid(1_400_000_000);
check('1_4e9');
move_xid(2**31 - 60);
check('2e31');
move_xid(3_500_000_000);
check('3_5e9');
move_xid(2**32 - 80);
check('2e32');

# Over the limit, with a holder, an asserter and a prepared transaction from before it.
my $holder = $node->background_psql('postgres');
$holder->query_safe("BEGIN; SELECT idem_claim('across'); SELECT idem_assert_fence('lock', $lock)");
ask("BEGIN; SELECT idem_claim('prepared'); PREPARE TRANSACTION 'p'");
ask("SELECT idem_claim('burnt $_')") for 1 .. 120;
cmp_ok(ask('SELECT pg_current_xact_id()::text::numeric'), '>', 2**32, 'transaction ids have wrapped around');
is(ask("SELECT idem_try_claim('across') || ' ' || idem_try_claim('prepared')"), 'in_flight in_flight', 'holders from before hold');
is(sqlstate($node, "SET statement_timeout = '300ms'; SELECT idem_unlock('lock', $lock)"), '57014', 'so does an assertion');
$holder->query_safe('COMMIT');
$holder->quit;
ask("COMMIT PREPARED 'p'");
is(ask("SELECT idem_try_claim('across') || ' ' || idem_try_claim('prepared')"), 'completed completed', 'what they committed is done');
is(ask("SELECT count(*) FROM idem_claim_many(ARRAY(SELECT 'burnt ' || i FROM generate_series(1, 120) i))"), 0, 'no key is lost at the wrap');
check('after');
ask('VACUUM FREEZE idem_keys');
check('frozen');
check_indexes($node, 'idem_keys', 'the index has every row');

# Multixacts: several assertions of one lock make one.
for my $multixact (2_000_000_000, 4_000_000_000, 2**32 - 6)
{
    move_multixact($multixact);
    for my $round (1 .. 4)
    {
        my @asserters = map { $node->background_psql('postgres') } 1 .. 3;
        $_->query_safe("BEGIN; SELECT idem_assert_fence('lock', $lock)") for @asserters;
        is(sqlstate($node, "SET statement_timeout = '300ms'; SELECT idem_unlock('lock', $lock)"), '57014', "$multixact, $round: asserted, it cannot be freed") if $round == 4;
        is(ask("SELECT idem_lock_renew('lock', $lock, '1 day')"), 't', "$multixact, $round: it can be renewed");
        $_->quit for @asserters;
    }
}
ask('CHECKPOINT');
cmp_ok(ask('SELECT next_multixact_id::text::bigint FROM pg_control_checkpoint()'), '<', 1000, 'multixacts have wrapped around');
is(ask("SELECT idem_unlock('lock', $lock)"), 't', 'the lock can be freed');
is(ask('SELECT count(*) FROM idem_health() WHERE level NOT IN (\'ok\', \'notice\')'), 0, 'all is well');

# A jump of more than two thousand million without freezing: no new transaction ids.
$node->stop;
my $far = (2**31 + 1000) % 2**32;
make_segment('pg_xact', int($far / (8192 * 4 * 32)));
command_ok([ 'pg_resetwal', '-f', '-x', $far, '-D', $node->data_dir ], 'no transaction ids are left');
$node->start;
is(sqlstate($node, "SELECT idem_claim('new')"), '54000', 'a claim is refused');
is(ask("SELECT idem_claim('before')"), 'f', 'a duplicate is answered');
is(ask("SELECT outcome FROM idem_begin('leased', lease => '1 s')"), 'in_flight', 'and so is a lease');
is(ask('SELECT length(idem_token_issue())'), 82, 'a token is issued');

$node->stop('immediate');
done_testing();
