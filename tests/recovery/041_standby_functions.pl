# Every function on a hot standby: what would write is 25006 at once, what is known is answered, nothing waits; and after the
# promotion fences and ids go on growing.

use strict;
use warnings;

use IdemCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = start_server('primary', streaming => 1, conf => "fsync = off\nmax_prepared_transactions = 2\n");
sub ask { return $primary->safe_psql('postgres', $_[0]) }

ask(q{
    CREATE TABLE item (id int PRIMARY KEY, n int, st text DEFAULT 'created', version bigint NOT NULL DEFAULT 1);
    CREATE TABLE plain (id int PRIMARY KEY, st text DEFAULT 'created');
    INSERT INTO item VALUES (1, 5);
    SELECT optimistic_enable('item');
    SELECT idem_machine_define('m', '{"initial": ["created"], "transitions": {"created": ["paid"]}}');
    SELECT idem_machine_attach('item', 'st', 'm');
    SELECT idem_claim('done');
    SELECT idem_execute('executed', 'SELECT 1 AS a');
    SELECT idem_begin('lapsed', lease => '1 ms');
    SELECT idem_scope_set('manual', on_lease_expiry => 'manual');
    SELECT idem_begin('doubt', lease => '1 ms', scope => 'manual');
    SELECT idem_claim('expired', '1 ms');
    SELECT idem_hit('hits');
    SELECT idem_publish('t', '1');
    SELECT idem_allow('rate', 0.001, 1);
    SELECT idem_consume('c', 'm');
    SELECT idem_api_key_set('key', '0123456789abcdef');
    SELECT idem_webhook_source_set('github', 'github', 'It''s a Secret to Everybody');
    SELECT idem_webhook_receive('github', '{"X-Hub-Signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17", "X-GitHub-Delivery": "seen"}', 'Hello, World!');
});
my $fence = ask("SELECT fence FROM idem_begin('leased', lease => '1 h', owner => 'me')");
my $lock = ask("SELECT idem_lock('L', '1 h', 'me')");
my $token = ask("SELECT idem_token_issue('s', '1 day')");
my $redeemed = ask("SELECT idem_token_issue('s', '1 day')");
ask("SELECT idem_token_redeem('$redeemed', 's')");
ask("BEGIN; SELECT idem_http_begin('web', 'POST', '/', 'http', 'b'); SELECT idem_http_complete('web', 'http', 201, '{}', '{}'); COMMIT");
ask("BEGIN; SELECT idem_claim('prepared'); PREPARE TRANSACTION 'p'");
my $open = $primary->background_psql('postgres');
$open->query_safe("BEGIN; SELECT idem_claim('open')");

$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->append_conf('postgresql.conf', "statement_timeout = '30s'\n");
$standby->start;
$primary->wait_for_catchup($standby);

# A delivery of GitHub's, with the secret of its documentation.
sub webhook
{
    my ($delivery) = @_;
    return qq[SELECT outcome FROM idem_webhook_receive('github', '{"X-GitHub-Delivery": "$delivery",]
      . qq[ "X-Hub-Signature-256": "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"}', 'Hello, World!')];
}

my @cases = (
    # What is known.
    [ "SELECT idem_claim('done')", 'f' ], [ "SELECT idem_try_claim('done')", 'completed' ],
    [ "SELECT count(*) FROM idem_claim_many('{done,executed}')", '0' ], [ "SELECT outcome FROM idem_begin('done')", 'completed' ],
    [ "SELECT outcome FROM idem_begin('done', wait => '4 s')", 'completed' ], [ "SELECT outcome FROM idem_begin('leased', lease => '1 s')", 'in_flight' ],
    [ "SELECT idem_try_claim('leased')", 'in_flight' ], [ "SELECT idem_claim('leased')", 'ID005' ],
    [ "SELECT idem_try_claim('doubt', NULL, 'manual')", 'in_doubt' ], [ "SELECT outcome FROM idem_begin('doubt', lease => '1 s', scope => 'manual')", 'in_doubt' ],
    [ "SELECT outcome, response FROM idem_execute('executed', 'SELECT 1 AS a')", 'completed|[{"a": 1}]' ],
    [ "SELECT state FROM idem_lookup('done')", 'completed' ], [ "SELECT count(*) FROM idem_lookup('open')", '0' ],
    [ "SELECT idem_token_redeem('$redeemed', 's')", 'duplicate' ], [ "SELECT idem_token_redeem('x', 's')", 'invalid' ],
    [ "SELECT length(idem_token_issue('s'))", '82' ], [ "SELECT idem_consume('c', 'm')", 'f' ],
    [ "SELECT action, status FROM idem_http_begin('web', 'POST', '/', 'http', 'b')", 'replay|201' ],
    [ "SELECT action, status FROM idem_http_begin('web', 'POST', '/', 'http', 'c')", 'reject|422' ],
    [ "SELECT idem_can_transition('m', 'created', 'paid')", 't' ], [ "SELECT outcome FROM idem_transition('item', '{\"id\": 1}', NULL, 'created')", 'already' ],
    [ "SELECT string_agg(key, ',' ORDER BY key) FROM idem_in_flight()", 'doubt,lapsed,leased' ], [ 'SELECT count(*) > 10 FROM idem_health()', 't' ],
    [ 'SELECT count(*) FROM idem_dead_letters', '0' ],
    [ "SELECT effective FROM idem_scope_settings WHERE scope = 'manual' AND setting = 'on_lease_expiry'", 'manual' ],
    [ "SELECT count(*) > 0 FROM idem_scope_sizes() WHERE scope = 'manual'", 't' ], [ "SELECT idem_complete('leased', NULL, NULL, 1)", 'ID001' ],
    [ 'SELECT length(idem_uuid_v7()::text)', '36' ], [ 'SELECT edition FROM idem_version()', 'c' ], [ "SELECT idem_redact('done')", 'f' ], [ "SELECT idem_verify_request('{}', '00', 'key', now(), 'n')", 'invalid' ],
    [ webhook('seen'), 'duplicate' ], [ "SELECT outcome FROM idem_webhook_receive('github', '{}', '')", 'invalid' ],
    # What would write.
    map { [ $_, '25006' ] } (
        "SELECT idem_claim('new')", "SELECT idem_claim('open')", "SELECT idem_claim('prepared')", "SELECT idem_claim('expired')", "SELECT idem_claim('lapsed')",
        "SELECT idem_try_claim('new')", "SELECT * FROM idem_claim_many('{done,new}')", "SELECT idem_begin('new', wait => '1 h')", "SELECT idem_begin('leased', lease => '1 s', owner => 'me')",
        "SELECT idem_execute('new', 'SELECT 1 AS a')", "SELECT idem_complete('leased', NULL, NULL, $fence)", "SELECT idem_renew('leased', $fence)", "SELECT idem_release('leased', $fence)",
        "SELECT idem_step('leased', $fence, 'x')", "SELECT idem_hit('hits')", "SELECT idem_forget('done')", "SELECT idem_redact('executed')", "SELECT idem_resolve('doubt', 'completed', scope => 'manual')",
        "SELECT idem_token_redeem('$token', 's')", 'SELECT idem_token_rotate_secret()', 'SELECT idem_next_id()', "SELECT idem_lock('free')", "SELECT idem_lock('L', wait => '1 h')",
        "SELECT idem_lock_renew('L', $lock)", "SELECT idem_unlock('L', $lock)", "SELECT idem_assert_fence('L', $lock)", "SELECT optimistic_update('item', '{\"id\": 1}', 1, '{\"n\": 2}')",
        "SELECT conditional_update('item', '{\"id\": 1}', '{\"n\": 5}', '{\"n\": 2}')", "SELECT conditional_adjust('item', '{\"id\": 1}', 'n', 1)", "SELECT pessimistic_lock('item', '{\"id\": 1}')",
        "SELECT * FROM pessimistic_lock_many('item', ARRAY['{\"id\": 1}']::jsonb[])", "SELECT unique_insert('item', '{\"id\": 1}')", "SELECT guarded_insert('item', '{\"id\": 1}', '{id}')",
        "SELECT idem_transition('item', '{\"id\": 1}', NULL, 'paid')", "SELECT idem_machine_define('m2', '{\"initial\": [\"a\"], \"transitions\": {\"a\": [\"b\"]}}')", "SELECT idem_machine_drop('m')",
        "SELECT idem_machine_attach('plain', 'st', 'm')", "SELECT idem_machine_validate('item', 'st')", "SELECT idem_machine_detach('item', 'st')", "SELECT optimistic_enable('plain')", "SELECT optimistic_disable('item')",
        'CALL idem_sweep()', "SELECT idem_http_begin('web', 'POST', '/', 'new', 'b')", "SELECT idem_http_scope_set('x', missing_key_status => 400)", "SELECT idem_consume('c', 'n')", "SELECT idem_publish('t', '1')",
        "SELECT * FROM idem_outbox_take('t')", "SELECT idem_outbox_ack('{1}', 1)", "SELECT idem_outbox_nack('{1}', 1)", "SELECT idem_outbox_retry('{1}')", "SELECT idem_outbox_discard('{1}')",
        "SELECT idem_api_key_set('k', '0123456789abcdef')", "SELECT idem_api_key_drop('key')", "SELECT idem_webhook_source_set('k', 'slack', '0123456789abcdef')", "SELECT idem_webhook_source_drop('github')", webhook('new'), "SELECT idem_allow('rate', 0.001, 1)", "SELECT idem_scope_set('s')", "SELECT idem_scope_reset('manual', 'on_lease_expiry')", "SELECT idem_scope_drop('manual')",
        "SELECT idem_grant('pg_monitor')"));

for my $case (@cases)
{
    my ($sql, $expected) = @$case;
    my $state = sqlstate($standby, $sql);
    my $answer = $expected =~ /^(?:\d{5}|ID\d{3})$/ ? $state : $standby->safe_psql('postgres', $sql);
    (my $shown = $sql) =~ s/\d{16}|[\w-]{82}/…/;
    is($answer, $expected, $shown);
}

my $last_fence = ask("SELECT max(idem_lock('f' || i)) FROM generate_series(1, 20) i");
my $last_id = ask('SELECT max(idem_next_id()) FROM generate_series(1, 5000)');
$primary->wait_for_catchup($standby);
$open->quit;
$primary->stop('immediate');
$standby->promote;
is_growing('fences grow across the promotion', $last_fence, $standby->safe_psql('postgres', "SELECT idem_lock('promoted')"));
is_growing('ids grow across the promotion', $last_id, $standby->safe_psql('postgres', 'SELECT idem_next_id()'));
is($standby->safe_psql('postgres', "SELECT idem_try_claim('prepared')"), 'in_flight', 'a prepared transaction holds its key across the promotion');
is($standby->safe_psql('postgres', "SELECT idem_try_claim('open')"), 'acquired', "an open transaction's claim is gone with the primary");

$standby->stop;
done_testing();
