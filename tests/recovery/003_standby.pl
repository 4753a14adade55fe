# A hot standby answers what needs no write, refuses the rest with 25006, waits for nothing; promoted, it goes on where the
# primary was.

use strict;
use warnings;

use IdemCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $primary = start_server('primary', streaming => 1, conf => <<'CONF');
shared_preload_libraries = 'idem'
wal_consistency_checking = 'all'
wal_receiver_status_interval = 1s
max_prepared_transactions = 2
CONF
$primary->backup('base');
my $standby = PostgreSQL::Test::Cluster->new('standby');
$standby->init_from_backup($primary, 'base', has_streaming => 1);
$standby->start;

my @fences = split /\n/, $primary->safe_psql('postgres', <<'SQL');
SELECT idem_scope_set('manual', on_lease_expiry => 'manual') \g /dev/null
SELECT idem_claim('claimed'), idem_hit('counted'), idem_hit('counted') \g /dev/null
SELECT idem_execute('paid', 'SELECT 5 AS amount', fingerprint => idem_fingerprint_text('pay 5')) \g /dev/null
SELECT idem_claim('expired', '1 ms') \g /dev/null
SELECT fence FROM idem_begin('leased', lease => '1 h', owner => 'nonce');
SELECT fence FROM idem_begin('lapsed', lease => '1 ms');
SELECT fence FROM idem_begin('doubtful', lease => '1 ms', scope => 'manual');
SELECT fence FROM idem_begin('released', lease => '1 h');
SELECT pg_sleep(0.01) \g /dev/null
SELECT idem_try_claim('doubtful', scope => 'manual') \g /dev/null
SQL
is(scalar @fences, 4, 'four leases on the primary');
$primary->safe_psql('postgres', "SELECT idem_release('released', $fences[3])");

# Three transactions that stay open: a fresh claim, a completion, and a claim that is prepared.
my $claiming = $primary->background_psql('postgres');
$claiming->query_safe(q{BEGIN; SELECT idem_claim('open')});
my $completing = $primary->background_psql('postgres');
$completing->query_safe("BEGIN; SELECT idem_complete('leased', '{}', 200, $fences[0])");
$primary->safe_psql('postgres', q{BEGIN; SELECT idem_claim('prepared'); PREPARE TRANSACTION 'holder'});
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('flush'));

sub answers
{
    my ($sql, $expected) = @_;
    is($standby->safe_psql('postgres', "SET statement_timeout = '20s'; $sql"), $expected, "on the standby: $sql");
}

answers(q{SELECT state, attempt FROM idem_lookup('claimed')}, 'completed|1');
answers(q{SELECT state, response FROM idem_lookup('paid')}, 'completed|[{"amount": 5}]');
answers(q{SELECT state, idem_is_owner('leased', 'nonce') FROM idem_lookup('leased')}, 'in_progress|t');
answers(q{SELECT count(*) FROM idem_lookup('absent')}, '0');
answers(q{SELECT hits FROM idem_hits('counted')}, '2');
answers(q{SELECT count(*) FROM idem_lookup('open')}, '0');
answers(q{SELECT idem_claim('claimed')}, 'f');
answers(q{SELECT idem_try_claim('claimed')}, 'completed');
answers(q{SELECT count(*) FROM idem_claim_many(ARRAY['claimed', 'paid', 'claimed'])}, '0');
answers(q{SELECT outcome, response FROM idem_begin('paid', idem_fingerprint_text('pay 5'))}, 'completed|[{"amount": 5}]');
answers(q{SELECT outcome, response FROM idem_begin('paid', lease => '1 min')}, 'completed|[{"amount": 5}]');
answers(q{SELECT outcome, response FROM idem_begin('paid', idem_fingerprint_text('pay 6'))}, 'mismatch|');
answers(q{SELECT outcome, response FROM idem_execute('paid', 'SELECT 6 AS amount')}, 'completed|[{"amount": 5}]');
answers(q{SELECT outcome, attempt, retry_after_ms > 0 FROM idem_begin('leased')}, 'in_flight|1|t');
answers(q{SELECT outcome FROM idem_begin('leased', wait => '10 min')}, 'in_flight');
answers(q{SELECT idem_try_claim('leased')}, 'in_flight');
answers(q{SELECT outcome FROM idem_begin('doubtful', scope => 'manual')}, 'in_doubt');

# What operators ask. The standby counts its own answers, and knows of in flight what is committed.
answers(q{SELECT bool_and(duplicates > 0 AND in_flight > 0 AND mismatches > 0) FROM idem_stats WHERE scope = ''}, 't');
answers(q{SELECT acquired + takeovers + stale_fences + swept FROM idem_stats WHERE scope = ''}, '0');
answers(
    q{SELECT string_agg(concat_ws(' ', key, mode, pid, lease_until < now()), ', ' ORDER BY key) FROM idem_in_flight()},
    'doubtful leased t, lapsed leased t, leased leased f');
answers(q{SELECT check_name, level FROM idem_health() WHERE level <> 'ok'}, 'in_doubt|warning');
answers(q{SELECT count(*) > 10 FROM idem_health()}, 't');
answers(q{SELECT count(*) FROM idem_sweep_progress}, '0');
answers(q{SELECT idem_stats_reset(); SELECT count(*) FILTER (WHERE duplicates > 0) FROM idem_stats}, lines('', '0'));

my $fp = q{idem_fingerprint('{"a": 1}')};
answers("SELECT $fp IS NOT NULL, idem_key('a', 1) IS NOT NULL", 't|t');

foreach my $refused (
    q{SELECT idem_claim('absent')},
    q{SELECT idem_claim('open')},
    q{SELECT idem_claim('prepared')},
    q{SELECT idem_claim('lapsed')},
    q{SELECT idem_claim('expired')},
    q{SELECT idem_claim('released')},
    q{SELECT idem_try_claim('absent')},
    q{SELECT idem_try_claim('open')},
    q{SELECT idem_claim_many(ARRAY['claimed', 'absent'])},
    q{SELECT idem_begin('absent')},
    q{SELECT idem_begin('absent', lease => '1 min')},
    q{SELECT idem_begin('open', wait => '10 min')},
    q{SELECT idem_begin('lapsed', lease => '1 min')},
    q{SELECT idem_begin('leased', lease => '1 min', owner => 'nonce')},
    q{SELECT idem_execute('absent', 'SELECT 1 AS one')},
    q{SELECT idem_hit('absent')},
    q{SELECT idem_publish('topic', '1', dedup_id => 'd')},
    q{SELECT idem_publish_many('topic', '[]')},
    q{SELECT idem_outbox_renew('{1}', 1, '1 s')},
    q{SELECT idem_forget('claimed')},
    q{SELECT idem_resolve('doubtful', 'released', scope => 'manual')},
    q{SELECT idem_scope_set('manual', lease => '1 min')},
    q{SELECT idem_scope_drop('manual')},
    q{SELECT idem_lock('lock')},
    q{SELECT idem_next_id()},
    q{CALL idem_sweep()},
    "SELECT idem_renew('leased', $fences[0])",
    "SELECT idem_step('leased', $fences[0], 'charged')",
    "SELECT idem_complete('leased', NULL, 200, $fences[0])",
    "SELECT idem_release('leased', $fences[0])")
{
    is(sqlstate($standby, "SET statement_timeout = '20s'; $refused"), '25006', "refused on the standby: $refused");
}
is(sqlstate($standby, q{SELECT idem_claim('leased')}), 'ID005', 'on the standby: a claim of a leased key');

# The primary goes down with its transactions open.
push @fences, $claiming->query_safe(q{SELECT fence FROM idem_begin('open-lease', lease => '1 min')});
$primary->wait_for_catchup($standby, 'replay', $primary->lsn('flush'));
$primary->stop('immediate');
eval { $_->quit } foreach $claiming, $completing;
$standby->promote;

answers(q{CALL idem_sweep(); SELECT state, rows_deleted FROM idem_sweep_progress WHERE table_name = 'idem_keys'}, 'finished|1');
answers(q{SELECT idem_claim('claimed')}, 'f');
answers(q{SELECT outcome, response FROM idem_begin('paid')}, 'completed|[{"amount": 5}]');
answers(q{SELECT idem_try_claim('leased'), idem_try_claim('doubtful', scope => 'manual')}, 'in_flight|in_doubt');
answers(q{SELECT idem_try_claim('open'), idem_try_claim('absent'), idem_try_claim('expired')}, 'acquired|acquired|acquired');
answers(q{SELECT idem_try_claim('prepared')}, 'in_flight');
$standby->safe_psql('postgres', q{COMMIT PREPARED 'holder'});
answers(q{SELECT idem_try_claim('prepared')}, 'completed');
is(sqlstate($standby, "SELECT idem_complete('leased', NULL, 200, $fences[0])"), '00000',
    'the holder completes on the promoted standby');
push @fences, split /\n/, $standby->safe_psql('postgres', <<'SQL');
SELECT fence FROM idem_begin('lapsed', lease => '1 min');
SELECT fence FROM idem_begin('open-lease', lease => '1 min');
SELECT fence FROM idem_begin('new', lease => '1 min');
SQL
is_growing('fences grow beyond those of the old primary', @fences);
check_indexes($standby, 'idem_keys', 'the indexes agree with the table');

$standby->stop;
done_testing();
