# A database with something of everything in it that idem keeps, and what must be true of it wherever it is taken.
package IdemData;

use strict;
use warnings;

use Exporter 'import';
use IdemCluster;
use Test::More;

our @EXPORT = qw(fill check_data);

# REQUIRES: the extension, and the roles tenant and stranger, who may use it. What is returned is for check_data.
sub fill
{
    my ($node, $database) = @_;
    my %data = (fences => [ split /\n/, $node->safe_psql($database, <<'SQL') ]);
SELECT idem_scope_set('manual', on_lease_expiry => 'manual') \g /dev/null
SELECT idem_scope_set('tenant', ttl => '1 h', lease => '10 min', max_response_size => 40, owner => 'tenant') \g /dev/null
SELECT idem_scope_set('archive', keep_forever => true, response_ttl => '1 ms') \g /dev/null
SELECT idem_claim('claimed') \g /dev/null
SELECT idem_claim('expired', '1 ms') \g /dev/null
SELECT idem_execute('archived', 'SELECT 5 AS amount', scope => 'archive') \g /dev/null
SELECT idem_claim('claimed', scope => 'tenant') \g /dev/null
SELECT idem_claim_many(ARRAY['many-1', 'many-2']) \g /dev/null
SELECT idem_execute('paid', 'SELECT 5 AS amount', fingerprint => idem_fingerprint_text('pay 5')) \g /dev/null
SELECT idem_hit('counted') FROM generate_series(1, 3) \g /dev/null
SELECT fence FROM idem_begin('leased', idem_fingerprint_text('pay 7'), lease => '1 h', owner => 'nonce');
SELECT idem_step('leased', (SELECT fence FROM idem_begin('leased', lease => '1 h', owner => 'nonce')), 'charged') \g /dev/null
SELECT fence FROM idem_begin('lapsed', lease => '1 ms');
SELECT fence FROM idem_begin('doubtful', lease => '1 ms', scope => 'manual');
SELECT idem_lock('locked', '1 h', 'nonce');
SELECT pg_sleep(0.01) \g /dev/null
SELECT idem_try_claim('doubtful', scope => 'manual') \g /dev/null
SELECT idem_machine_define('order', '{"initial": ["created"], "transitions": {"created": ["paid"], "paid": ["shipped"]}}') \g /dev/null
CREATE TABLE orders (id int PRIMARY KEY, "the state" text, stock int DEFAULT 1);
SELECT idem_machine_attach('orders', 'the state', 'order', true), optimistic_enable('orders') \g /dev/null
INSERT INTO orders VALUES (1, 'created');
UPDATE orders SET "the state" = 'paid';
SQL
    is(scalar @{ $data{fences} }, 4, "$database: three leases and a lock");
    $data{redeemed} = $node->safe_psql($database, 'SELECT idem_token_issue()');
    $data{outstanding} = $node->safe_psql($database, 'SELECT idem_token_issue()');
    is($node->safe_psql($database, "SELECT idem_token_redeem('$data{redeemed}')"), 'accepted', "$database: tokens");
    $data{number} = $node->safe_psql($database, 'SELECT idem_next_id()');
    return \%data;
}

# Changes what it asks about: once for each database. `kept` tells whether the database itself was, with its secrets.
sub check_data
{
    my ($node, $database, $data, $kept) = @_;
    my @fences = @{ $data->{fences} };
    my $answers = sub {
        my ($sql, $expected) = @_;
        is($node->safe_psql($database, $sql), $expected, "$database: $sql");
    };
    my $refuses = sub {
        my ($sql, $state) = @_;
        is(sqlstate($node, $sql, $database), $state, "$database: $state for $sql");
    };

    $answers->(q{SELECT idem_claim('claimed'), idem_claim('archived', scope => 'archive'), idem_claim('expired')}, 'f|f|t');
    $answers->(
        q{SET client_min_messages = warning;
          CALL idem_sweep();
          SELECT outcome, response, response_omitted FROM idem_begin('archived', scope => 'archive')}, 'completed||t');
    $answers->(q{SELECT count(*) FROM idem_claim_many(ARRAY['many-1', 'many-2', 'new'])}, '1');
    $answers->(
        q{SELECT outcome, response FROM idem_begin('paid', idem_fingerprint_text('pay 5'))}, 'completed|[{"amount": 5}]');
    $answers->(q{SELECT outcome FROM idem_begin('paid', idem_fingerprint_text('pay 6'))}, 'mismatch');
    $answers->(q{SELECT outcome, attempt FROM idem_begin('leased')}, 'in_flight|1');
    $answers->(
        "SELECT outcome, attempt, fence = $fences[0], steps FROM idem_begin('leased', lease => '1 h', owner => 'nonce')",
        'acquired|1|t|{"charged": null}');
    $refuses->("SELECT idem_complete('leased', '{}', 200, $fences[1])", 'ID001');
    $refuses->("SELECT idem_complete('leased', '{}', 200, $fences[0])", '00000');
    $answers->(q{SELECT idem_try_claim('doubtful', scope => 'manual')}, 'in_doubt');
    $refuses->("SELECT idem_complete('doubtful', '{}', 200, $fences[2], 'manual')", '00000');

    $answers->(
        "SELECT idem_lock('locked') IS NULL, idem_lock('locked', '1 h', 'nonce') = $fences[3], idem_unlock('locked', $fences[3])",
        't|t|t');
    $answers->(q{SELECT idem_hit('counted')}, '4');
    $answers->("SELECT idem_token_redeem('$data->{redeemed}')", $kept ? 'duplicate' : 'invalid');
    $answers->("SELECT idem_token_redeem('$data->{outstanding}')", $kept ? 'accepted' : 'invalid');
    $answers->("SELECT idem_next_id() > $data->{number}", 't');
    is_growing("$database: new fences are greater", @fences, split /\n/, $node->safe_psql($database, <<'SQL'));
SELECT fence FROM idem_begin('lapsed', lease => '1 min');
SELECT fence FROM idem_begin('newer', lease => '1 min');
SELECT idem_lock('locked');
SQL

    $answers->(q{SET ROLE tenant; SELECT idem_claim('claimed', scope => 'tenant'), idem_claim('fresh', scope => 'tenant')}, 'f|t');
    $answers->(
        q{SELECT date_trunc('minute', expires_at - created_at + interval '1 s') FROM idem_lookup('fresh', scope => 'tenant')},
        '01:00:00');
    $refuses->(q{SET ROLE stranger; SELECT idem_claim('claimed', scope => 'tenant')}, '42501');
    $refuses->(q{SET ROLE stranger; SELECT idem_claim('own')}, '00000');

    $refuses->(q{UPDATE orders SET "the state" = 'created'}, 'ID003');
    $refuses->(q{UPDATE orders SET version = 7}, 'ID004');
    $answers->(
        q{SELECT outcome, version FROM optimistic_update('orders', '{"id": 1}', 2, '{"stock": 5}');
          SELECT outcome, state FROM idem_transition('orders', '{"id": 1}', NULL, 'shipped')},
        lines('updated|3', 'moved|shipped'));
    $answers->(
        q{SELECT key, from_state, to_state FROM idem_transition_log ORDER BY at},
        lines('{"id": 1}||created', '{"id": 1}|created|paid', '{"id": 1}|paid|shipped'));
    $refuses->(q{DROP EXTENSION idem}, '2BP01');
}

1;
