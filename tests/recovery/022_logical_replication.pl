# Logical replication of idem's tables, by the statements of docs/operations.md: the subscriber answers about what was replicated, policies
# hold in sessions that are connected, secrets stay at home, and after a switch holders and relays go on, no message is missing, and fences
# and numbers grow.

use strict;
use warnings;

use File::Basename;
use IdemCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

# The publisher's clock will be far ahead, so that the subscriber's own clock alone would not make its fences and numbers greater.
my $library = clock_library();
plan skip_all => 'no C compiler' unless defined $library;

my $publisher = PostgreSQL::Test::Cluster->new('publisher');
$publisher->init(allows_streaming => 'logical');
$publisher->append_conf('postgresql.conf', "max_prepared_transactions = 2\nautovacuum = off\n");
start_by_clock($publisher, $library, 0);
my $subscriber = PostgreSQL::Test::Cluster->new('subscriber');
$subscriber->init(allows_streaming => 'logical');
$subscriber->append_conf('postgresql.conf',
    "max_prepared_transactions = 2\nautovacuum = off\nwal_receiver_status_interval = 1s\n");
start_by_clock($subscriber, $library, 0);

foreach my $node ($publisher, $subscriber)
{
    $node->safe_psql('postgres', <<'SQL');
CREATE EXTENSION idem;
CREATE ROLE tenant;
CREATE ROLE stranger;
SELECT idem_grant('tenant'), idem_grant('stranger');
CREATE TABLE orders (id int PRIMARY KEY, state text);
SQL
}

sub answers
{
    my ($node, $sql, $expected) = @_;
    is($node->safe_psql('postgres', "SET statement_timeout = '20s'; $sql"), $expected, $node->name . ": $sql");
}

sub refuses
{
    my ($node, $sql, $state) = @_;
    is(sqlstate($node, $sql), $state, $node->name . ": $state for $sql");
}

# --- The statements of the document ----------------------------------------------------------------------------------------

# check.sh puts the document beside the tests.
my ($document) = grep { -e } map { dirname(__FILE__) . "/$_" } qw(operations.md ../../docs/operations.md);
my ($section) = slurp_file($document) =~ /^## Logical replication\n(.*?)^## /ms;
my @blocks = $section =~ /^ *```sql\n *-- on the ((?:publisher|subscriber)[^\n]*\n.*?)^ *```/msg;
is(join(' ', map { /^(\w+)/ } @blocks), 'publisher subscriber publisher publisher subscriber', 'the document has five blocks of statements');
my $connection = $publisher->connstr . ' dbname=postgres';

# Runs the next block on the server that it is for; what follows it goes with it.
sub run_block
{
    my ($block, $more) = (shift @blocks, @_);
    my ($side, $sql) = $block =~ /^(\w+)[^\n]*\n(.*)/s;
    $sql =~ s/'host=.*? dbname=.*?'/'$connection'/;
    return ($side eq 'publisher' ? $publisher : $subscriber)->safe_psql('postgres', $sql . ($more // ''));
}

# --- The initial copy ------------------------------------------------------------------------------------------------------

my @fences = split /\n/, $publisher->safe_psql('postgres', <<'SQL');
SELECT idem_claim('copied'), idem_hit('counted'), idem_token_redeem(idem_token_issue()) \g /dev/null
SELECT idem_scope_set('tenant', ttl => '1 h', owner => 'tenant') \g /dev/null
SELECT idem_machine_define('order', '{"initial": ["created"], "transitions": {"created": ["paid"], "paid": ["shipped"]}}') \g /dev/null
SELECT idem_machine_attach('orders', 'state', 'order', true) \g /dev/null
SELECT fence FROM idem_begin('leased', lease => '1 h', owner => 'nonce');
SELECT idem_publish('copied', '"first"', 'a'), idem_publish('copied', '"second"', 'a') \g /dev/null
CREATE TABLE copied AS SELECT id, fence FROM idem_outbox_take('copied', lease => '1 h');
SQL
run_block();
run_block();
$subscriber->wait_for_subscription_sync($publisher, 'idem');

# What a sweep did is not flushed when it returns, and what is not flushed is not waited for.
sub catch_up
{
    $publisher->safe_psql('postgres', q{SELECT pg_logical_emit_message(true, 'idem', 'all before this')});
    $publisher->wait_for_catchup('idem');
}

answers($subscriber, q{SELECT idem_try_claim('copied'), idem_try_claim('leased')}, 'completed|in_flight');
refuses($subscriber, q{SET ROLE stranger; SELECT idem_try_claim('x', scope => 'tenant')}, '42501');
my @secrets = map { $_->safe_psql('postgres', 'SELECT secret FROM idem_token_secrets') } $publisher, $subscriber;
isnt($secrets[0], $secrets[1], 'each has a secret of its own');

# --- What is streamed ------------------------------------------------------------------------------------------------------

# Sessions that know the policies and machines of before.
$subscriber->safe_psql('postgres', q{SELECT idem_machine_attach('orders', 'state', 'order', true)});
my $stranger = $subscriber->background_psql('postgres', on_error_stop => 0);
$stranger->query_safe(q{SET ROLE stranger; SELECT count(*) FROM idem_lookup('copied', scope => 'claimed later')});
my $writer = $subscriber->background_psql('postgres', on_error_stop => 0);
is($writer->query_safe(q{SELECT idem_can_transition('order', 'shipped', 'returned')}), 'f', 'a transition that is not allowed yet');

push @fences, split /\n/, $publisher->safe_psql('postgres', <<'SQL');
SELECT idem_claim('claimed'), idem_claim('claimed', scope => 'tenant') \g /dev/null
SELECT idem_claim('expired', '1 ms') \g /dev/null
SELECT idem_claim_many(ARRAY['many-1', 'many-2']) \g /dev/null
SELECT idem_execute('paid', 'SELECT 5 AS amount', fingerprint => idem_fingerprint_text('pay 5')) \g /dev/null
SELECT idem_execute('large', 'SELECT repeat(md5(i::text), 2) FROM generate_series(1, 3000) i') \g /dev/null
SELECT fence FROM idem_begin('completed', lease => '1 h');
SELECT fence FROM idem_begin('lapsed', lease => '1 ms');
SELECT idem_lock('locked', '1 h', 'nonce');
SELECT idem_forget('copied'), idem_hit('counted') \g /dev/null
SELECT idem_step('leased', (SELECT fence FROM idem_begin('leased', lease => '1 h', owner => 'nonce')), 'charged') \g /dev/null
SELECT idem_scope_set('claimed later', owner => 'tenant') \g /dev/null
SELECT idem_machine_define('order', '{"initial": ["created"], "transitions": {"created": ["paid"], "paid": ["shipped"], "shipped": ["returned"]}}') \g /dev/null
INSERT INTO orders VALUES (1, 'created');
UPDATE orders SET state = 'paid';
BEGIN;
SAVEPOINT a;
SELECT idem_claim('taken back') \g /dev/null
ROLLBACK TO a;
SELECT idem_claim('kept') \g /dev/null
COMMIT;
SQL
is(scalar @fences, 4, 'three leases and a lock');
$publisher->safe_psql('postgres', "SELECT idem_complete('completed', '{}', 201, $fences[1])");
$publisher->safe_psql('postgres', q{SELECT pg_sleep(0.01), idem_try_claim('expired', '1 h')});
$publisher->safe_psql('postgres', q{BEGIN; SELECT idem_claim('prepared'); PREPARE TRANSACTION 'holder'});
catch_up();

answers($subscriber, q{SELECT idem_try_claim('claimed'), idem_try_claim('claimed', scope => 'tenant'), idem_try_claim('expired')},
    'completed|completed|completed');
answers($subscriber, q{SELECT count(*) FROM idem_claim_many(ARRAY['many-1', 'many-2', 'kept'])}, '0');
answers(
    $subscriber,
    q{SELECT outcome, response FROM idem_begin('paid', idem_fingerprint_text('pay 5'))},
    'completed|[{"amount": 5}]');
answers($subscriber, q{SELECT outcome FROM idem_begin('paid', idem_fingerprint_text('pay 6'))}, 'mismatch');
answers($subscriber, q{SELECT jsonb_array_length(response) FROM idem_begin('large')}, '3000');
answers($subscriber, q{SELECT state, status_code FROM idem_lookup('completed')}, 'completed|201');
answers($subscriber, q{SELECT state, steps, idem_is_owner('leased', 'nonce') FROM idem_lookup('leased')}, 'in_progress|{"charged": null}|t');
answers($subscriber, q{SELECT count(*) FROM idem_lookup('copied')}, '0');
answers($subscriber, q{SELECT count(*) FROM idem_lookup('taken back')}, '0');
answers($subscriber, q{SELECT idem_try_claim('prepared')}, 'in_flight');
answers($subscriber, q{SELECT hits FROM idem_counters}, '2');
answers($subscriber, q{SELECT from_state, to_state FROM idem_transition_log ORDER BY at}, lines('|created', 'created|paid'));
$publisher->safe_psql('postgres', q{COMMIT PREPARED 'holder'});
catch_up();
answers($subscriber, q{SELECT idem_try_claim('prepared')}, 'completed');

# Sessions that were connected have learnt what changed.
my $output = $stranger->query(q{SELECT count(*) FROM idem_lookup('copied', scope => 'claimed later')});
like($stranger->{stderr}, qr/permission denied/, 'a replicated owner holds in sessions that are connected');
is($writer->query_safe(q{SELECT idem_can_transition('order', 'shipped', 'returned')}), 't', 'so does a replicated machine');
eval { $_->quit } foreach $stranger, $writer;

# What was redeemed at one cannot be redeemed at the other, which takes no token that it has not issued.
my ($redeemed, $outstanding) = map { $publisher->safe_psql('postgres', 'SELECT idem_token_issue()') } 1, 2;
$publisher->safe_psql('postgres', "SELECT idem_token_redeem('$redeemed')");
catch_up();
answers($subscriber, "SELECT idem_token_redeem('$redeemed'), idem_token_redeem('$outstanding')", 'invalid|invalid');

# Deletes of rows without an identity would fail; the log is published for its inserts.
refuses($publisher, q{DELETE FROM idem_transition_log}, '00000');
answers($subscriber, 'SELECT count(*) FROM idem_transition_log', '2');

# The publisher's sweep reaches the subscriber. The subscriber's own would take rows from under the updates to come.
$publisher->safe_psql('postgres', q{SELECT idem_claim('swept', '1 ms'), pg_sleep(0.01)});
catch_up();
answers($subscriber, q{SELECT count(*) FROM idem_keys WHERE key = 'swept'}, '1');
$publisher->safe_psql('postgres', 'CALL idem_sweep()');
catch_up();
answers($subscriber, q{SELECT count(*) FROM idem_keys WHERE key = 'swept'}, '0');
$publisher->safe_psql('postgres', q{SELECT idem_claim('lost', '1 ms'), pg_sleep(0.01)});
catch_up();
$subscriber->safe_psql('postgres', 'CALL idem_sweep()');
$publisher->safe_psql('postgres', q{SELECT idem_claim('lost', '1 h')});
catch_up();
answers($subscriber, q{SELECT count(*) FROM idem_lookup('lost')}, '0');

# --- A conflict, and the way out ---------------------------------------------------------------------------------------------

$subscriber->safe_psql('postgres', q{SELECT idem_claim('both')});
$publisher->safe_psql('postgres', q{SELECT idem_claim('both')});
# As PostgreSQL 15 says it, and as 18 does.
$subscriber->wait_for_log(qr/duplicate\ key\ value\ violates\ unique\ constraint\ "idem_keys_pkey"
        |ERROR:\ \ conflict\ detected\ on\ relation\ "public\.idem_keys":\ conflict=insert_exists/x);
$subscriber->safe_psql('postgres', q{SELECT idem_forget('both')});
catch_up();
answers($subscriber, q{SELECT idem_try_claim('both')}, 'completed');

# --- One scope alone ---------------------------------------------------------------------------------------------------------

$subscriber->safe_psql('postgres', 'CREATE DATABASE one_scope');
$subscriber->safe_psql('one_scope', 'CREATE EXTENSION idem');
$publisher->safe_psql('postgres', q{CREATE PUBLICATION one FOR TABLE idem_keys WHERE (scope = 'tenant')});
$subscriber->safe_psql('one_scope', "CREATE SUBSCRIPTION one CONNECTION '$connection' PUBLICATION one");
$subscriber->wait_for_subscription_sync($publisher, 'one', 'one_scope');
$publisher->safe_psql('postgres', q{SELECT idem_claim('later', scope => 'tenant'), idem_claim('later')});
my $fence = $publisher->safe_psql('postgres', q{SELECT fence FROM idem_begin('gone', lease => '1 h', scope => 'tenant')});
$publisher->safe_psql('postgres', "SELECT idem_complete('gone', NULL, 200, $fence, 'tenant'), idem_forget('claimed', 'tenant')");
$publisher->wait_for_catchup('one');
is($subscriber->safe_psql('one_scope', 'SELECT scope, key, state FROM idem_keys ORDER BY key'),
    lines('tenant|gone|c', 'tenant|later|c'), 'a publication with a row filter carries one scope');
$subscriber->safe_psql('one_scope', 'DROP SUBSCRIPTION one');

# --- The switch ----------------------------------------------------------------------------------------------------------------

my ($lapsed, $lapsed_fence) = split /\|/, $publisher->safe_psql('postgres', <<'SQL');
SELECT idem_publish('lapsed', '"lapsed"') \g /dev/null
SELECT id, fence FROM idem_outbox_take('lapsed', lease => '1 ms');
SQL
my ($copied, $copied_fence) = split /\|/, $publisher->safe_psql('postgres', 'SELECT id, fence FROM copied');
set_clock($publisher, 86400);
push @fences, $publisher->safe_psql('postgres', q{SELECT fence FROM idem_begin('late', lease => '1 ms')});
my ($parked, $out, $waiting, $batch, $number) = split /\n/, $publisher->safe_psql('postgres', <<'SQL');
SELECT idem_allow('rate', 0.001, 1) \g /dev/null
SET idem.outbox_max_attempts = 1;
SELECT idem_publish('parked', '"parked"');
SELECT idem_outbox_nack(array_agg(id), max(fence)) FROM idem_outbox_take('parked') \g /dev/null
RESET idem.outbox_max_attempts;
SELECT idem_publish('t', '"out"', 'a');
SELECT idem_publish('t', '"waiting"', 'a');
SELECT idem_publish('done', '"done"') \g /dev/null
SELECT idem_outbox_ack(array_agg(id), max(fence)) FROM idem_outbox_take('done') \g /dev/null
SELECT fence FROM idem_outbox_take('t', lease => '1 d');
SELECT idem_next_id();
SQL
push @fences, $batch;
my $messages = 'SELECT topic, id FROM idem_outbox UNION ALL SELECT topic, id FROM idem_outbox_parked ORDER BY 1, 2';
my $published = $publisher->safe_psql('postgres', $messages);
my $is_over = $blocks[0] =~ s/^.*?\n//r;
ok($publisher->poll_query_until('postgres', $is_over), 'nothing is missing any more');
is(run_block(), 't', 'so the document says');
my $marks = run_block();
$publisher->stop;
run_block($marks);
refuses($subscriber, "SELECT idem_complete('leased', '{}', 200, $fences[0])", '00000');
refuses($subscriber, "BEGIN; SELECT idem_assert_fence('locked', $fences[3]); COMMIT", '00000');
push @fences, split /\n/, $subscriber->safe_psql('postgres', <<'SQL');
SELECT fence FROM idem_begin('lapsed', lease => '1 min');
SELECT fence FROM idem_begin('new', lease => '1 min');
SELECT idem_lock('another');
SQL
is_growing('fences grow beyond those of the publisher, whose clock was a day ahead', @fences);
answers($subscriber, "SELECT idem_next_id() > $number", 't');

# Messages: none is missing, those that are out stay out, and relays go on with their fences.
answers($subscriber, $messages, $published);
answers($subscriber, q{SELECT count(*) FROM idem_outbox_take('t')}, '0');
answers($subscriber, "SELECT idem_outbox_ack('{$out}', $batch), idem_outbox_ack('{$copied}', $copied_fence)", '1|1');
push @fences, $subscriber->safe_psql('postgres', q{CREATE TABLE given AS SELECT * FROM idem_outbox_take('t');
SELECT fence FROM given});
answers($subscriber, 'SELECT id, payload, attempt FROM given', "$waiting|\"waiting\"|1");
answers($subscriber, q{SELECT payload FROM idem_outbox_take('copied')}, '"second"');
answers($subscriber, q{SELECT id, attempt FROM idem_outbox_take('lapsed')}, "$lapsed|2");
answers($subscriber, "SELECT idem_outbox_ack('{$lapsed}', $lapsed_fence)", '0');
answers($subscriber, 'SELECT id, payload, cause FROM idem_dead_letters', "$parked|\"parked\"|nacked");
answers($subscriber, "SELECT idem_outbox_retry('{$parked}')", '1');
answers($subscriber, q{SELECT id, attempt FROM idem_outbox_take('parked')}, "$parked|1");
answers($subscriber, "SELECT idem_publish('t', '1') > $number", 't');
is_growing('so do fences of messages', @fences);
answers($subscriber, q{SELECT allowed FROM idem_allow('rate', 0.001, 1)}, 'f');
refuses($subscriber, q{UPDATE orders SET state = 'created'}, 'ID003');
check_indexes($subscriber, $_, "the indexes of $_ agree with the table") foreach qw(idem_keys idem_outbox idem_outbox_leases);

$subscriber->stop;
done_testing();
