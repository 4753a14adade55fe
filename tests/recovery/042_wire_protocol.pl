# The extended protocol without a driver in between: several calls before one Sync are one transaction, an error skips the
# rest, and a suspended portal has claimed all or nothing.

use strict;
use warnings;

use IdemCluster;
use IO::Socket::UNIX;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $node = start_server('wire', conf => "fsync = off\n");

# --- A client of the protocol, just large enough -----------------------------------------------------------------------------

sub message { my ($type, $body) = @_; return $type . pack('N', 4 + length $body) . $body }

sub open_connection
{
    my $socket = IO::Socket::UNIX->new(Peer => $node->host . '/.s.PGSQL.' . $node->port) or die "could not connect: $!";
    my $startup = pack('N', 196608) . join("\0", user => getpwuid($<) // 'postgres', database => 'postgres') . "\0\0";
    print $socket pack('N', 4 + length $startup) . $startup;
    my $connection = { socket => $socket };
    answers($connection);
    return $connection;
}

sub read_bytes
{
    my ($connection, $length) = @_;
    my $bytes = '';
    while (length $bytes < $length)
    {
        $connection->{socket}->sysread(my $part, $length - length $bytes) or die 'the server closed the connection';
        $bytes .= $part;
    }
    return $bytes;
}

# What comes until the server is ready again: values of rows, SQLSTATEs, "suspended".
sub answers
{
    my ($connection) = @_;
    my @answers;
    while (1)
    {
        my $type = read_bytes($connection, 1);
        my $body = read_bytes($connection, unpack('N', read_bytes($connection, 4)) - 4);
        if    ($type eq 'D') { my $length = unpack('x2 N', $body); push @answers, $length == 0xffffffff ? 'null' : substr($body, 6, $length) }
        elsif ($type eq 'E') { push @answers, $1 if $body =~ /(?:^|\0)C([^\0]+)/ }
        elsif ($type eq 's') { push @answers, 'suspended' }
        elsif ($type eq 'Z') { return join(' ', @answers) }
    }
}

sub parse   { return message('P', "\0$_[0]\0" . pack('n', 0)) }
sub bind    { my ($format, $portal) = @_; return message('B', ($portal // '') . "\0\0" . pack('n4', 0, 0, 1, $format // 0)) }
sub execute { my ($rows, $portal) = @_; return message('E', ($portal // '') . "\0" . pack('N', $rows // 0)) }
sub run     { my ($sql, $format) = @_; return parse($sql) . main::bind($format) . execute() }
my $sync = message('S', '');

sub send_all { my ($connection, @messages) = @_; $connection->{socket}->print(join '', @messages); $connection->{socket}->flush; return answers($connection) }
sub simple   { my ($connection, $sql) = @_; return send_all($connection, message('Q', "$sql\0")) }
sub state_of { return $node->safe_psql('postgres', "SELECT idem_try_claim('$_[0]')") }

# --- Pipelines ----------------------------------------------------------------------------------------------------------------

my $client = open_connection();
$node->safe_psql('postgres', 'CREATE TABLE work (k text)');

is(send_all($client, run("SELECT idem_claim('p1')"), run("INSERT INTO work VALUES ('p1')"), $sync), 't', 'claim and work before one Sync');
is(state_of('p1'), 'completed', 'are committed by it');

is(send_all($client, run("SELECT idem_claim('p2')"), run('SELECT 1 / 0'), run("INSERT INTO work VALUES ('p2')"), $sync), 't 22012', 'an error skips the rest');
is(state_of('p2'), 'acquired', 'and frees the key that was claimed before it');

send_all($client, run("SELECT idem_claim('p3')"), $sync);
send_all($client, run('SELECT 1 / 0'), run("SELECT idem_claim('p4')"), $sync);
is(state_of('p3') . state_of('p4'), 'completedacquired', 'a Sync ends the transaction: what was before it stays');

is(send_all($client, run("SELECT outcome FROM idem_begin('p5')"), run("INSERT INTO work VALUES ('p5')"), run("SELECT idem_complete('p5', '{}', 201)"), $sync),
    'acquired t', 'begin, work and complete before one Sync');
is($node->safe_psql('postgres', "SELECT status_code FROM idem_begin('p5')"), 201, 'the response is stored');

is(send_all($client, run("INSERT INTO work VALUES ('stale')"), run("SELECT idem_complete('p5', '{}', 200, 1)"), $sync), 'ID001', 'a stale fence in a pipeline');
is($node->safe_psql('postgres', "SELECT count(*) FROM work WHERE k = 'stale'"), 0, 'takes the work before it along');

is(send_all($client, run('BEGIN'), run("SELECT idem_claim('s1')"), run('SAVEPOINT x'), run("SELECT idem_claim('s2')"), run('ROLLBACK TO x'),
        run("SELECT idem_claim('s2')"), run("SELECT idem_claim('s1')"), run('COMMIT'), $sync), 't t t f', 'savepoints in a pipeline');

my $holder = $node->background_psql('postgres');
$holder->query_safe("BEGIN; SELECT idem_claim('held')");
simple($client, "SET lock_timeout = '200ms'");
is(send_all($client, run("SELECT idem_claim('p6')"), run("SELECT idem_claim('held')"), $sync), 't 55P03', 'a wait in a pipeline ends');
is(state_of('p6'), 'acquired', 'and frees what was claimed before it');
$holder->quit;
simple($client, 'RESET lock_timeout');

is(send_all($client, run("SELECT idem_claim('binary')", 1), $sync), "\1", 'a binary boolean');
is(unpack('q>', send_all($client, run("SELECT fence FROM idem_begin('binary2', lease => '1 h')", 1), $sync)),
    $node->safe_psql('postgres', "SELECT fence FROM idem_keys WHERE key = 'binary2'"), 'a binary fence');

# VACUUM refuses here (25001). A sweep commits what was claimed before it, so that an error after it no longer frees the key.
is(send_all($client, run("SELECT idem_claim('p7')"), run('CALL idem_sweep()'), run('SELECT 1 / 0'), $sync), 't 2D000', 'a sweep in the middle of a pipeline is refused');
is(state_of('p7'), 'acquired', 'and frees the key that was claimed before it');

# --- Portals ------------------------------------------------------------------------------------------------------------------

is(send_all($client, parse("SELECT idem_claim_many('{m1,m2,m3,m4}')"), main::bind(0, 'x'), execute(2, 'x'), $sync), 'm1 m2 suspended', 'a portal of idem_claim_many is suspended');
is(join(' ', map { state_of("m$_") } 1 .. 4), 'completed completed completed completed', 'all of its keys are claimed');
simple($client, 'BEGIN');
send_all($client, parse("SELECT idem_claim_many('{n1,n2,n3}')"), main::bind(0, 'x'), execute(1, 'x'), $sync);
is(join(' ', map { state_of("n$_") } 1 .. 3), 'in_flight in_flight in_flight', 'and in flight until the transaction ends');
simple($client, 'ROLLBACK');
is(join(' ', map { state_of("n$_") } 1 .. 3), 'acquired acquired acquired', 'and free if it rolls back');

$node->safe_psql('postgres', "SELECT idem_publish('t', to_jsonb(i)) FROM generate_series(1, 6) i");
simple($client, 'BEGIN');
like(send_all($client, parse("SELECT id FROM idem_outbox_take('t')"), main::bind(0, 'x'), execute(2, 'x'), $sync), qr/^\d+ \d+ suspended$/, 'a portal of idem_outbox_take is suspended');
is($node->safe_psql('postgres', "SELECT count(*) FROM idem_outbox_take('t')"), 0, 'no other relay gets its messages');
simple($client, 'COMMIT');
is($node->safe_psql('postgres', "SELECT cardinality(ids) FROM idem_outbox_leases"), 6, 'all of them are under its lease');

simple($client, 'BEGIN; SAVEPOINT a');
send_all($client, parse("SELECT idem_claim_many('{q1,q2,q3}')"), main::bind(0, 'x'), execute(1, 'x'), $sync);
simple($client, 'ROLLBACK TO a');
is(send_all($client, execute(0, 'x'), $sync), '34000', 'a portal is gone with its savepoint');
simple($client, 'ROLLBACK');

# --- Prepared statements outlive changes of the tables ----------------------------------------------------------------------

simple($client, 'PREPARE claim(text) AS SELECT idem_claim($1)');
is(simple($client, "EXECUTE claim('e1')"), 't', 'a prepared claim');
$node->safe_psql('postgres', 'ALTER TABLE idem_keys SET (fillfactor = 90)');
is(simple($client, "EXECUTE claim('e1')"), 'f', 'after ALTER TABLE');
$node->safe_psql('postgres', 'DROP EXTENSION idem');
is(simple($client, "EXECUTE claim('e1')"), '42883', 'after DROP EXTENSION');
$node->safe_psql('postgres', 'CREATE EXTENSION idem');
is(simple($client, "EXECUTE claim('e1')"), 't', 'after CREATE EXTENSION');
simple($client, 'DISCARD ALL');
is(simple($client, "SELECT idem_claim('e1')"), 'f', 'after DISCARD ALL');

$node->stop;
done_testing();
