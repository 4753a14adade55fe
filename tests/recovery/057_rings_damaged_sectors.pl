# Sectors of a ring's filter that the disk lost, on a server without data checksums: the page's beginning and end are as they were. No key
# that was claimed is granted again.

use strict;
use warnings;

use IdemRings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my ($page_size, $sector) = (8192, 512);

my $node = PostgreSQL::Test::Cluster->new('plain');
$node->init;
$node->append_conf('postgresql.conf', "fsync = off\nautovacuum = off\n");
$node->start;
$node->safe_psql('postgres', 'CREATE EXTENSION idem');
my $keys = fill_ring($node);
my $path = $node->data_dir . '/' . $node->safe_psql('postgres', q{SELECT pg_relation_filepath('idem_ring_1_filter')});
$node->stop;
my $whole = slurp_file($path);

# What is read in their place: of the few slices of the head, this sector holds none.
foreach my $case ([ 'a sector of page 0', 0, "\xff", 1 ], [ 'a sector of another page', 1, "\0", 7 ], [ 'the whole inside of a page', 2, "\0", 1 .. 14 ])
{
    my ($name, $page, $byte, @sectors) = @$case;
    my $file = $whole;
    substr($file, $page * $page_size + $_ * $sector, $sector) = $byte x $sector foreach @sectors;
    ok($file ne $whole, "$name is lost");
    open my $handle, '>:raw', $path or die "could not open \"$path\": $!";
    print $handle $file;
    close $handle or die "could not write \"$path\": $!";
    $node->start;
    are_kept($node, $name, $keys);
    $node->stop;
}

done_testing();
