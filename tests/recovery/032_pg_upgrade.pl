# pg_upgrade takes everything along: from each older server on this machine that idem is installed for, by way of those between, and
# from this very version to itself. Nothing is dumped but the catalog: tables, secrets, the marks of fences and numbers and the filters of
# rings are the old files.

use strict;
use warnings;

use IdemCluster;
use IdemData;
use IdemRings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $settings = <<'CONF';
shared_preload_libraries = 'idem'
idem.databases = 'shop'
CONF

sub major { return (run_command([ "$_[0]/pg_config", '--version' ]))[0] =~ /^PostgreSQL (\d+)/ ? $1 : 0 }

my ($bindir) = run_command([ 'pg_config', '--bindir' ]);
chomp $bindir;
my $here = major($bindir);
my @older = sort { major($a) <=> major($b) }
  grep { -x "$_/postgres" && -e "$_/../lib/idem.so" && major($_) < $here } glob '/usr/lib/postgresql/*/bin';

sub cluster
{
    my ($name, $from) = @_;
    my $node = PostgreSQL::Test::Cluster->new($name =~ tr/A-Za-z0-9/_/cr, install_path => $from =~ s{/bin$}{}r);
    $node->init(extra => ['--data-checksums']);
    $node->append_conf('postgresql.conf', $settings);
    return $node;
}

# REQUIRES: both are stopped.
sub upgrade
{
    my ($old, $from, $new, $to, $name) = @_;
    my $sockets = PostgreSQL::Test::Utils::tempdir_short();
    chdir $new->basedir or die "could not enter the new cluster's directory: $!";
    command_ok(
        [
            "$to/pg_upgrade", '--no-sync',
            '--old-datadir', $old->data_dir, '--new-datadir', $new->data_dir,
            '--old-bindir', $from, '--new-bindir', $to,
            '--old-port', $old->port, '--new-port', $new->port,
            '--socketdir', $sockets,
        ],
        $name);
    # pg_upgrade only names the file that says why.
    diag "$_:\n" . substr(slurp_file($_), -3000) for glob $new->data_dir . '/pg_upgrade_output.d/*/log/*';
}

# The options that a server has given to columns. A server whose minor release is older than that of the one before may not know one,
# and then cannot be upgraded to.
sub column_options
{
    my ($node) = @_;
    return split /\n/, $node->safe_psql('shop', q{SELECT DISTINCT split_part(o, '=', 1) FROM pg_attribute, unnest(attoptions) AS o ORDER BY 1});
}

sub unknown_options
{
    my ($new, @options) = @_;
    return unless @options;
    $new->start;
    my @unknown = grep {
        my ($status, undef, $error) = $new->psql('postgres', "BEGIN; CREATE TABLE t (c int); ALTER TABLE t ALTER c SET ($_ = 0); ROLLBACK");
        $error =~ /unrecognized parameter/
    } @options;
    $new->stop;
    return @unknown;
}

my @servers = (@older, $bindir);
WAY: foreach my $i (0 .. $#servers)
{
    my @way = @servers[ $i .. $#servers ];
    push @way, $bindir if @way == 1;
    my $name = 'from ' . join(' to ', map { major($_) } @way);

    my $from = shift @way;
    my $node = cluster($name, $from);
    $node->start;
    $node->safe_psql('postgres', 'CREATE DATABASE shop; CREATE ROLE tenant; CREATE ROLE stranger');
    $node->safe_psql('shop', q{CREATE EXTENSION idem; SELECT idem_grant('tenant'), idem_grant('stranger')});
    my $keys = fill_ring($node, 'shop');
    my $data = fill($node, 'shop');
    my @options = column_options($node);
    $node->stop;

    foreach my $to (@way)
    {
        my $new = cluster("$name at " . major($to), $to);
        if (my @unknown = unknown_options($new, @options))
        {
            SKIP: { skip "$name: the server of " . major($to) . " is older than the minor release of the other: it does not know @unknown", 1 }
            next WAY;
        }
        upgrade($node, $from, $new, $to, "$name: pg_upgrade to " . major($to));
        $new->start;
        is($new->safe_psql('shop', q{SELECT idem_try_claim('claimed'), idem_try_claim('leased')}), 'completed|in_flight', "$name: it knows its keys");
        are_kept($new, "$name: the ring", $keys, 'shop');
        like(states($new, 'shop'), major($to) >= 15 ? qr/^sealed\+ sealed\+ open empty$/ : qr/^sealed\+? sealed\+? open empty$/,
            "$name: the windows of the ring");
        $new->stop;
        ($node, $from) = ($new, $to);
    }

    $node->start;
    check_data($node, 'shop', $data, 1);
    rotate($node, 'shop');
    is(states($node, 'shop'), 'sealed+ sealed+ sealed+ open', "$name: the ring goes on");
    are_kept($node, "$name: the ring, rotated", $keys, 'shop');
    is($node->safe_psql('shop', q{SELECT string_agg(check_name, ',') FILTER (WHERE level <> 'ok') FROM idem_health()}), '',
        "$name: all is well");
    check_indexes($node, $_, "$name: the indexes of $_", 'shop') foreach qw(idem_keys idem_tokens idem_locks);
    $node->stop;
}

done_testing();
