# Pages of a ring's filter that the disk lost, with and without data checksums: no key that was claimed is granted again, claims go on by
# the windows' indexes, and idem_ring_rebuild_filter and the sweeper bring the filter back.

use strict;
use warnings;

use IdemCluster;
use IdemRings;
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

my $seed = srand($ENV{IDEM_SEED} // time);
note("IDEM_SEED=$seed");
my $page_size = 8192;

sub garbage { my ($bytes) = @_; return join '', map { chr int rand 256 } 1 .. $bytes }

# Each changes the contents of the file, whose page 0 is the filter's head. `lost`: the filter covers no window afterwards.
my @damages = (
    {
        name => 'pages of zeros, of garbage, and halves of pages',
        change => sub {
            my ($file) = @_;
            substr($$file, 1 * $page_size, $page_size) = "\0" x $page_size;
            substr($$file, 2 * $page_size, $page_size) = garbage($page_size);
            substr($$file, 3 * $page_size, $page_size / 2) = "\0" x ($page_size / 2);
            substr($$file, 4.5 * $page_size, $page_size / 2) = "\0" x ($page_size / 2);
        },
    },
    { name => 'no last page', lost => 1, change => sub { my ($file) = @_; substr($$file, -$page_size) = '' } },
    { name => 'half of the last page', lost => 1, change => sub { my ($file) = @_; substr($$file, -$page_size / 2) = '' } },
    { name => 'no page', lost => 1, change => sub { my ($file) = @_; $$file = '' } },
    { name => 'zeros as page 0', lost => 1, change => sub { my ($file) = @_; substr($$file, 0, $page_size) = "\0" x $page_size } },
    { name => 'garbage as page 0', lost => 1, change => sub { my ($file) = @_; substr($$file, 0, $page_size) = garbage($page_size) } },
    { name => 'a sector of page 0', lost => 1, change => sub { my ($file) = @_; substr($$file, 512, 512) = garbage(512) } });

sub path_of_filter
{
    my ($node) = @_;
    return $node->data_dir . '/' . $node->safe_psql('postgres', q{SELECT pg_relation_filepath('idem_ring_1_filter')});
}

sub write_file
{
    my ($path, $contents) = @_;
    open my $file, '>:raw', $path or die "could not open \"$path\": $!";
    print $file $contents;
    close $file or die "could not write \"$path\": $!";
    return;
}

# The numbers of the pages that do not begin with the tag of a filter's page.
sub damaged_pages
{
    my ($file) = @_;
    my @pages = unpack "(a$page_size)*", $file;
    return grep { index(substr($pages[$_], 0, 64), pack('LL', 0x1de3f117, $_)) < 0 } 0 .. $#pages;
}

foreach my $checksums (1, 0)
{
    my $kind = $checksums ? 'with checksums' : 'without checksums';
    my $node = PostgreSQL::Test::Cluster->new($checksums ? 'checksums' : 'plain');
    $node->init(extra => $checksums ? ['--data-checksums'] : []);
    $node->append_conf('postgresql.conf', "fsync = off\nautovacuum = off\nfull_page_writes = on\n");
    $node->start;
    $node->safe_psql('postgres', 'CREATE EXTENSION idem');
    my $keys = fill_ring($node);

    foreach my $damage (@damages)
    {
        my $name = "$kind, $damage->{name}";
        my $path = path_of_filter($node);
        $node->stop;
        my $file = slurp_file($path);
        is_deeply([ length($file) / $page_size, damaged_pages($file) ], [5], "$name: five pages were there");
        $damage->{change}->(\$file);
        write_file($path, $file);
        $node->start;
        are_kept($node, $name, $keys);
        is(states($node), $damage->{lost} ? 'sealed sealed open empty' : 'sealed+ sealed+ open empty', "$name: the windows that it covers");
        is(claim_keys($node, $name, 10), 10, "$name: new keys are granted");
        is(claim_keys($node, $name, 10), 0, "$name: once");

        $node->safe_psql('postgres', q{SELECT idem_ring_rebuild_filter('events')});
        are_kept($node, "$name, rebuilt", $keys);
        sweep($node);
        is(states($node), 'sealed+ sealed+ open empty', "$name: swept");
        are_kept($node, "$name, swept", $keys);
        is(claim_keys($node, $name, 10), 0, "$name: nor is any of those granted again");
    }

    # A crash in the midst of writing pages. Every page of the filter was changed after the checkpoint, and so is in the log as a whole.
    $node->safe_psql('postgres', 'CHECKPOINT');
    rotate($node);
    is(claim_keys($node, 'fourth', 10), 10, "$kind, torn: keys after the last change of the filter");
    $keys->{fourth} = 10;
    my $path = path_of_filter($node);
    $node->stop('immediate');
    my $file = slurp_file($path);
    substr($file, ($_ + 0.5) * $page_size, $page_size / 2) = garbage($page_size / 2) foreach 0 .. length($file) / $page_size - 1;
    write_file($path, $file);
    $node->start;
    is(states($node), 'sealed+ sealed+ sealed+ open', "$kind, torn: the filter is as it was");
    are_kept($node, "$kind, torn", $keys);
    $node->stop;
    is_deeply([ damaged_pages(slurp_file($path)) ], [], "$kind, torn: no page stayed torn");
}

done_testing();
