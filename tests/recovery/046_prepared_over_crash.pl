# Everything that a transaction can hold is held by a prepared one, over a crash, until it ends.

use strict;
use warnings;

use IdemCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = start_server('prepared', conf => "fsync = off\nmax_prepared_transactions = 30\n");
sub ask { return $node->safe_psql('postgres', $_[0]) }
my $token = ask("SELECT idem_token_issue('s')");
ask("SELECT idem_publish('t', '1')");
ask("CREATE TABLE item (id int PRIMARY KEY, n int); INSERT INTO item VALUES (1, 1)");
my $asserted = ask("SELECT idem_lock('asserted', '1 day')");

# What is prepared; what another session then gets; what it gets when that was rolled back.
my @cases = (
    [ "SELECT idem_claim('claim')", "SELECT idem_try_claim('claim')", 'in_flight', 'acquired' ],
    [ "SELECT idem_claim('wait')", "SELECT idem_claim('wait')", '57014', 't' ],
    [ "SELECT * FROM idem_claim_many('{a,b}')", "SELECT idem_try_claim('b')", 'in_flight', 'acquired' ],
    [ "SELECT idem_begin('lease', lease => '1 h')", "BEGIN; SELECT outcome FROM idem_begin('lease'); COMMIT", 'in_flight', 'acquired' ],
    [ "SELECT idem_execute('execute', 'SELECT 1 AS a')", "SELECT outcome FROM idem_execute('execute', 'SELECT 1 AS a')", 'in_flight', 'acquired' ],
    [ "SELECT idem_lock('lock')", "SELECT idem_lock('lock') IS NULL", 't', 'f' ],
    [ "SELECT idem_assert_fence('asserted', $asserted)", "SELECT idem_unlock('asserted', $asserted)", '57014', 't' ],
    [ "SELECT idem_serialize('s')", "BEGIN; SELECT idem_serialize('s'); COMMIT", '57014', 't' ],
    [ "SELECT idem_hit('hit')", "SELECT idem_hit('hit')", '57014', '1' ],
    [ "SELECT idem_allow('rate', 0.001, 1)", "SELECT allowed FROM idem_allow('rate', 0.001, 1)", '57014', 't' ],
    [ "SELECT idem_token_redeem('$token', 's')", "SELECT idem_token_redeem('$token', 's')", 'in_flight', 'accepted' ],
    [ "SELECT idem_consume('c', 'm')", "SELECT idem_consume('c', 'm')", '57014', 't' ],
    [ "SELECT idem_http_begin('web', 'POST', '/', 'http')", "BEGIN; SELECT action, status FROM idem_http_begin('web', 'POST', '/', 'http'); COMMIT", 'reject|409', 'run|' ],
    [ "SELECT * FROM idem_outbox_take('t')", "SELECT count(*) FROM idem_outbox_take('t')", '0', '1' ],
    [ "SELECT guarded_insert('item', '{\"id\": 2}', '{id}')", "SELECT outcome FROM guarded_insert('item', '{\"id\": 2}', '{id}')", '57014', 'inserted' ],
    [ "SELECT pessimistic_lock('item', '{\"id\": 1}')", "BEGIN; SELECT outcome FROM pessimistic_lock('item', '{\"id\": 1}', '0'); COMMIT", 'busy', 'locked' ],
    [ "SET idem.outbox_notify = off; SELECT idem_publish('u', '1')", "SELECT count(*) FROM idem_outbox_take('u')", '0', '0' ]);

sub answer
{
    my ($sql, $expected) = @_;
    my $limit = $expected eq '57014' ? '300ms' : '1min';
    my $limited = "SET statement_timeout = '$limit'; $sql";
    return $expected =~ /^\d{5}$/ ? sqlstate($node, $limited) : ask($limited);
}

my $number = 0;
ask("BEGIN; $_->[0]; PREPARE TRANSACTION 'p" . $number++ . "'") for @cases;
is(sqlstate($node, "BEGIN; SELECT idem_publish('t', '2'); PREPARE TRANSACTION 'notify'"), '0A000', 'a transaction that notifies cannot be prepared');
is(ask("SELECT count(*) FROM idem_outbox"), 1, 'and leaves no message');
is(answer($_->[1], $_->[2]), $_->[2], "prepared: $_->[0]") for @cases;
$node->stop('immediate');
$node->start;
is(answer($_->[1], $_->[2]), $_->[2], "after a crash: $_->[0]") for @cases;
ask("ROLLBACK PREPARED 'p$_'") for 0 .. $#cases;
is(answer($_->[1], $_->[3]), $_->[3], "rolled back: $_->[0]") for @cases;

$node->stop;
done_testing();
