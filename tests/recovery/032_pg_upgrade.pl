# pg_upgrade takes everything along: from this very version of the server, and from each older one on this machine that idem is
# installed for. Nothing is dumped but the catalog: tables, secrets and the marks of fences and numbers are the old files.

use strict;
use warnings;

use IdemCluster;
use IdemData;
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

foreach my $from (@older, $bindir)
{
    my $name = "from PostgreSQL " . major($from);
    my $old = PostgreSQL::Test::Cluster->new($name =~ tr/A-Za-z0-9/_/cr, install_path => $from =~ s{/bin$}{}r);
    $old->init(extra => ['--data-checksums']);
    $old->append_conf('postgresql.conf', $settings);
    $old->start;
    $old->safe_psql('postgres', 'CREATE DATABASE shop; CREATE ROLE tenant; CREATE ROLE stranger');
    $old->safe_psql('shop', q{CREATE EXTENSION idem; SELECT idem_grant('tenant'), idem_grant('stranger')});
    my $data = fill($old, 'shop');
    $old->stop;

    # Transaction ids, OIDs and files' numbers that the old cluster did not have.
    my $new = PostgreSQL::Test::Cluster->new($name =~ tr/A-Za-z0-9/_/cr . '_to');
    $new->init(extra => ['--data-checksums']);
    $new->append_conf('postgresql.conf', $settings);
    my $sockets = PostgreSQL::Test::Utils::tempdir_short();
    chdir $new->basedir or die "could not enter the new cluster's directory: $!";
    command_ok(
        [
            'pg_upgrade', '--no-sync',
            '--old-datadir', $old->data_dir, '--new-datadir', $new->data_dir,
            '--old-bindir', $from, '--new-bindir', $bindir,
            '--old-port', $old->port, '--new-port', $new->port,
            '--socketdir', $sockets,
        ],
        "$name: pg_upgrade");
    $new->start;
    check_data($new, 'shop', $data, 1);
    is($new->safe_psql('shop', q{SELECT string_agg(check_name, ',') FILTER (WHERE NOT ok) FROM idem_health()}), '',
        "$name: all is well");
    check_indexes($new, $_, "$name: the indexes of $_", 'shop') foreach qw(idem_keys idem_tokens idem_locks);
    $new->stop;
}

done_testing();
