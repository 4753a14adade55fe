# The clock jumps, forward and back, by seconds and by decades. Fences and ids grow, leases last at least as long as the
# clock says, and what a refusal says about waiting comes true.

use strict;
use warnings;

use IdemCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $library = clock_library();
plan(skip_all => 'no C compiler') unless $library;

my $year = 365 * 86400;
my $node = start_server('jumps', conf => "fsync = off\nmax_prepared_transactions = 2\n");
$node->stop;
start_by_clock($node, $library, 0);
sub ask { return $node->safe_psql('postgres', $_[0]) }
sub at { my ($seconds, $sql) = @_; set_clock($node, $seconds); return ask($sql) }

# Fences of keys, locks and outbox leases come from one generator.
ask("SELECT idem_publish('t', '1') FROM generate_series(1, 50)");
my (@fences, @ids, @uuids);
for my $offset (0, 5, -5, 3600, -3600, $year, -$year, 0, 10 * $year, 0, -20 * $year, 0)
{
    push @fences, at($offset, "SELECT fence FROM idem_begin('f' || random(), lease => '1 s')"),
        ask("SELECT idem_lock('l' || random())"), ask("SELECT fence FROM idem_outbox_take('t', 1)");
    push @ids, ask('SELECT idem_next_id()');
}
is_growing('fences grow across jumps', @fences);
is_growing('ids grow across jumps', @ids);
$node->stop('immediate');
start_by_clock($node, $library, -$year);
is_growing('fences grow across a crash with the clock set back', $fences[-1], ask("SELECT idem_lock('after')"));
is_growing('ids grow across a crash with the clock set back', $ids[-1], ask('SELECT idem_next_id()'));

# A live lease is not taken over, whatever the clock does before its end; after its end it is.
at(0, "SELECT outcome FROM idem_begin('lease', lease => '100 s')");
ask("SELECT outcome FROM idem_begin('short', lease => '100 s', ttl => '1 s')");
my $lock = ask("SELECT idem_lock('lease', '100 s')");
for my $offset (60, -10, -3600, -$year, 80, 30)
{
    is(at($offset, "SELECT outcome FROM idem_begin('lease', lease => '1 s')"), 'in_flight', "a key's lease lives at $offset");
    is(ask("SELECT idem_lock('lease') IS NULL"), 't', "a lock's lease lives at $offset");
    ask('CALL idem_sweep()');
    is(ask("SELECT outcome FROM idem_begin('short', lease => '1 s')"), 'in_flight', "also when its retention is over, at $offset");
}
is(at(200, "SELECT outcome FROM idem_begin('lease', lease => '1 s')"), 'taken_over', 'a lapsed key is taken over');
is(ask("SELECT idem_lock('lease') > $lock"), 't', 'a lapsed lock is taken over with a greater fence');

# A waiter notices a jump over the end of the lease.
at(0, "SELECT idem_lock('jump', '1000 s')");
my $waiter = $node->background_psql('postgres');
$waiter->query_until(qr/waiting/, "\\echo waiting\nSELECT idem_lock('jump', wait => '900 s') IS NOT NULL AS got;\n\\echo done\n");
$node->poll_query_until('postgres', "SELECT count(*) = 1 FROM pg_stat_activity WHERE query LIKE 'SELECT idem_lock(''jump''%' AND state = 'active'");
set_clock($node, 2000);
$waiter->query_until(qr/done/, "\n");
$waiter->quit;
pass('a waiter is served after a jump over the end of the lease');

# Counters, tokens, outbox.
is(at(0, "SELECT idem_hit('c', '10 s')"), 1, 'a counter starts');
is(at(-3600, "SELECT idem_hit('c', '10 s')"), 2, 'a counter goes on when the clock is set back');
is(at(11, "SELECT idem_hit('c', '10 s')"), 1, 'a counter starts again after its window');
my $token = at(0, "SELECT idem_token_issue('s', '10 s')");
is(at(11, "SELECT idem_token_redeem('$token', 's')"), 'expired', 'a token expires');
is(at(0, "SELECT idem_token_redeem('$token', 's')"), 'accepted', 'a token is good again before its expiry');
is(at(-3600, "SELECT idem_token_redeem('$token', 's')"), 'duplicate', 'a redeemed token stays redeemed when the clock is set back');
at(0, "SELECT idem_publish('o', '1', 'k')");
is(ask("SELECT count(*) FROM idem_outbox_take('o', 1, '30 s')"), 1, 'a message is taken');
is(at(-3600, "SELECT count(*) FROM idem_outbox_take('o')"), 0, 'a message under lease is not given out when the clock is set back');
is(at(31, "SELECT attempt FROM idem_outbox_take('o')"), 2, 'a message is given out again after its lease');

# Ids end in 2093: an error, and nothing lasting.
like(sqlstate($node, 'SELECT 1'), qr/00000/, 'the server answers');
set_clock($node, 68 * $year);
is(sqlstate($node, 'SELECT idem_next_id()'), '2200H', 'ids are used up in 2094');
set_clock($node, 0);
is(sqlstate($node, 'SELECT idem_next_id()'), '00000', 'and go on when the clock is right again');

# A bucket that was emptied while the clock was ahead fills again from now on, and says when.
at(600, "SELECT idem_allow('r', 1, 5, 5)");
set_clock($node, 0);
my ($allowed, $wait) = split /\|/, ask("SELECT allowed, ceil(retry_after_ms / 1000.0)::int FROM idem_allow('r', 1, 5)");
is($allowed, 'f', 'a bucket that was emptied ahead of the clock is empty');
is(at($wait + 1, "SELECT allowed FROM idem_allow('r', 1, 5)"), 't', "it is not empty after the announced retry_after of $wait s");

$node->stop;
done_testing();
