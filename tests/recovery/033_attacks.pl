# Attacks over many connections: more requests than a rate allows, one signed request many times at once, and a server that is
# killed in between. And the secrets of those who sign leave by no log, dump or publication.

use strict;
use warnings;

use Digest::SHA qw(hmac_sha256_hex);
use IdemCluster;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;
use Time::HiRes qw(time);

my $node = start_server('attacked', conf => <<'CONF');
wal_level = logical
log_statement = all
log_min_duration_statement = 0
log_parameter_max_length = 0
autovacuum = off
CONF
$node->safe_psql('postgres', <<'SQL');
CREATE TABLE asked (name text, allowed boolean, cost int, at timestamptz);
CREATE TABLE arrived (nonce text, outcome text);
SQL

# --- A hundred times the rate from sixteen connections ---------------------------------------------------------------------
#
my ($rate, $burst) = (2, 5); # a hundred times as much is what a busy machine sends, too
my $limit = qq{INSERT INTO asked SELECT 'door', allowed, 1, clock_timestamp() FROM idem_allow('door', $rate, $burst)};
my $began = time;
$node->pgbench(
    '--no-vacuum --client=16 --jobs=2 --time=12', 0, [qr{processed}], [qr{^}],
    'sixteen connections ask as fast as they can',
    { '033_flood' => "$limit;" });
my $lasted = time - $began;
my ($calls, $let_through, $span) = split /\|/, $node->safe_psql('postgres',
    q{SELECT count(*), count(*) FILTER (WHERE allowed), extract(epoch FROM max(at) - min(at)) FROM asked});
cmp_ok($calls, '>=', 100 * $rate * $span / 2, "a flood: $calls calls in $lasted s");
# The bucket was full when the first of them came; `at` is read after the answer.
cmp_ok($let_through, '<=', $burst + $rate * ($lasted + 0.001), "$let_through were let through: never more than allowed");
cmp_ok($let_through, '>=', int($rate * $span / 2), 'and not many fewer');
# Exactly: where nothing comes back, sixteen connections share the burst.
$node->pgbench(
    '--no-vacuum --client=16 --jobs=2 --transactions=200', 0, [qr{processed}], [qr{^}],
    'sixteen connections empty one bucket',
    {
        '033_empty' => q{
            \set cost random(1, 3)
            \set undone random(1, 4)
            BEGIN;
            INSERT INTO asked SELECT 'cellar', allowed, :cost, clock_timestamp() FROM idem_allow('cellar', 1e-6, 500, :cost);
            \if :undone = 1
                ROLLBACK;
            \else
                COMMIT;
            \endif
        }
    });
is($node->safe_psql('postgres', q{SELECT sum(cost) FROM asked WHERE name = 'cellar' AND allowed}), '500',
    'all of the burst is given out, and not a unit more, whatever rolls back');
is($node->safe_psql('postgres', q{SELECT (idem_allow('cellar', 1e-6, 500)).allowed}), 'f', 'nothing is left');

# What was taken stays taken when the server is killed.
$node->stop('immediate');
$node->start;
is($node->safe_psql('postgres', q{SELECT (idem_allow('cellar', 1e-6, 500)).allowed}), 'f', 'nor after a crash');
check_indexes($node, 'idem_rates', 'the index agrees with the table');

# --- Signed requests -----------------------------------------------------------------------------------------------------

my $secret = 'the secret of those who sign requests';
my $secret_hex = unpack 'H*', $secret;
$node->safe_psql('postgres', "SET log_statement = none; SET log_min_duration_statement = -1; SELECT idem_api_key_set('shop', '$secret')");

# As a sender in any language has it: sorted names, no white space.
sub signed
{
    my ($nonce, $age) = @_;
    my $micros = int((time - ($age // 0)) * 1e6);
    my $signature = hmac_sha256_hex(qq{["idem1","shop",$micros,"$nonce",{"amount":10,"to":["a","b"]}]}, $secret);
    return sprintf(q{'%s', 'shop', timestamptz 'epoch' + %d * interval '1 us', '%s'}, $signature, $micros, $nonce);
}

my $params = q{'{"to": ["a", "b"], "amount": 10.0}'};
is($node->safe_psql('postgres', "SELECT idem_verify_request($params, " . signed('first') . ')'), 'accepted', 'a sender that knows no SQL');
is($node->safe_psql('postgres', "SELECT idem_verify_request($params, " . signed('old', 301) . ')'), 'stale', 'a shifted clock');
is($node->safe_psql('postgres', "SELECT idem_verify_request($params, " . signed('ahead', -360) . ')'), 'stale', 'shifted the other way');

# One request, from sixteen connections, each sending it again and again.
my $request = signed('again');
$node->pgbench(
    '--no-vacuum --client=16 --jobs=2 --transactions=20', 0, [qr{processed}], [qr{^}],
    'sixteen connections replay one request',
    { '033_replay' => "INSERT INTO arrived SELECT 'again', idem_verify_request($params, $request)::text;" });
is($node->safe_psql('postgres', q{SELECT outcome, count(*) FROM arrived GROUP BY 1 ORDER BY 1}), lines('accepted|1', 'replayed|319'),
    'it is accepted once');

# --- Where a secret could be seen ----------------------------------------------------------------------------------------

$node->safe_psql('postgres', <<'SQL');
CREATE PUBLICATION everything FOR ALL TABLES;
SELECT pg_create_logical_replication_slot('everything', 'pgoutput');
SQL
$node->safe_psql('postgres', "SET log_statement = none; SET log_min_duration_statement = -1;"
      . "SELECT idem_api_key_set('shop', '$secret', keep_old => '1 hour'); SELECT idem_api_key_set('shop', '${secret}2', keep_old => '1 hour')");
$node->safe_psql('postgres', "SELECT idem_verify_request($params, " . signed('seen') . '); ANALYZE');
my $stream = $node->safe_psql('postgres', q{SELECT encode(data, 'hex') FROM pg_logical_slot_get_binary_changes('everything', NULL, NULL,
    'proto_version', '1', 'publication_names', 'everything')});
like($stream, qr/./, 'something is published');
unlike($stream, qr/$secret_hex/, 'no secret is');
unlike(slurp_file($node->logfile), qr/\Q$secret\E|$secret_hex/, 'no secret in the log');
my ($dump) = run_command([ 'pg_dump', '--dbname', $node->connstr('postgres') ]);
like($dump, qr/CREATE EXTENSION/, 'there is a dump');
unlike($dump, qr/\Q$secret\E|$secret_hex/, 'no secret in it');

$node->stop;
done_testing();
