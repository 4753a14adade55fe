# A ring whose windows are full of keys, and what must be true of them wherever they are and whatever happened to the filter.
package IdemRings;

use strict;
use warnings;

use Exporter 'import';
use Test::More;

our @EXPORT = qw(create_ring claim_keys granted_again are_kept states sweep rotate fill_ring);

# A ring of four windows, each open for half an hour, or of so many, and scope 'ring' in it.
sub create_ring
{
    my ($node, $database, $windows) = @_;
    $windows //= 4;
    $node->safe_psql($database // 'postgres', <<"SQL");
SELECT idem_ring_create('events', '1 h', $windows);
SELECT idem_scope_set('ring', ring => 'events');
SQL
    return;
}

sub array { my ($name, $count) = @_; return "ARRAY(SELECT '$name-' || i FROM generate_series(1, $count) AS i)" }

# How many of the keys name-1 to name-count were granted.
sub claim_keys
{
    my ($node, $name, $count, $database) = @_;
    return $node->safe_psql($database // 'postgres', "SELECT count(*) FROM idem_claim_many(${\array($name, $count)}, scope => 'ring')");
}

# How many of the keys idem_lookup does not find, and how many would be granted to a batch and to single claims. Changes nothing.
sub granted_again
{
    my ($node, $name, $count, $database) = @_;
    return $node->safe_psql($database // 'postgres', query_of_granted($name, $count));
}

sub query_of_granted
{
    my ($name, $count) = @_;
    return "BEGIN;
        SELECT (SELECT count(*) FROM unnest(${\array($name, $count)}) AS k WHERE NOT EXISTS (SELECT FROM idem_lookup(k, 'ring')))
             + (SELECT count(*) FROM idem_claim_many(${\array($name, $count)}, scope => 'ring'))
             + (SELECT count(*) FROM unnest(${\array($name, $count)}) AS k WHERE idem_try_claim(k, scope => 'ring') NOT IN ('completed'));
        ROLLBACK";
}

# %keys: how many there are of each name. `node` may be a session.
sub are_kept
{
    my ($node, $name, $keys, $database) = @_;
    my %granted;
    foreach my $of (sort keys %$keys)
    {
        my $query = query_of_granted($of, $keys->{$of});
        my $granted = $node->can('query_safe') ? $node->query_safe($query) : $node->safe_psql($database // 'postgres', $query);
        $granted{$of} = $granted if $granted ne '0';
    }
    is_deeply(\%granted, {}, "$name: every key is a duplicate");
    return;
}

# The states of the windows in the order of their numbers; a + marks those that the filter covers.
sub states
{
    my ($node, $database) = @_;
    return $node->safe_psql($database // 'postgres',
        q{SELECT string_agg(state || CASE WHEN false_positives IS NULL THEN '' ELSE '+' END, ' ' ORDER BY number) FROM idem_rings});
}

sub sweep
{
    my ($node, $database) = @_;
    $node->safe_psql($database // 'postgres', 'SET client_min_messages = warning; CALL idem_sweep()');
    return;
}

# Opens the next window as if the open one had had its time, and fills the filter.
sub rotate
{
    my ($node, $database) = @_;
    $node->safe_psql($database // 'postgres', q{UPDATE idem_ring_1 SET opened_at = opened_at - interval '1 h' WHERE state = 'open'});
    sweep($node, $database);
    return;
}

# Keys in two sealed windows and in the open one; as many as need several pages of the filter. Returns how many of each name.
sub fill_ring
{
    my ($node, $database, $windows) = @_;
    my %keys = (first => 2000, second => 1500, third => 300);
    create_ring($node, $database, $windows);
    foreach my $name (qw(first second third))
    {
        rotate($node, $database);
        is(claim_keys($node, $name, $keys{$name}, $database), $keys{$name}, "keys \"$name\" are claimed");
    }
    like(states($node, $database), qr/^sealed\+ sealed\+ open empty( empty)*$/, 'two windows are sealed, and in the filter');
    return \%keys;
}

1;
