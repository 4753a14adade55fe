# What these tests share: a server with the extension in it, answers that are easy to compare, and a clock that can be set.
package IdemCluster;

use strict;
use warnings;

use Exporter 'import';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;
use Test::More;

our @EXPORT = qw(start_server sqlstate lines clock_library start_by_clock set_clock is_growing check_indexes);

# Makes, starts and equips a server. Options: streaming (as a primary), conf (settings).
sub start_server
{
    my ($name, %options) = @_;
    my $node = PostgreSQL::Test::Cluster->new($name);
    $node->init(allows_streaming => $options{streaming}, extra => ['--data-checksums']);
    $node->append_conf('postgresql.conf', $options{conf}) if defined $options{conf};
    $node->start;
    $node->safe_psql('postgres', 'CREATE EXTENSION idem');
    return $node;
}

# The SQLSTATE of the first error a script meets, '00000' if it meets none. Messages are free to change, states are not.
sub sqlstate
{
    my ($node, $sql, $database) = @_;
    my $stderr;
    my $status = $node->psql($database // 'postgres', $sql, stderr => \$stderr, extra_params => [ '-v', 'VERBOSITY=sqlstate' ]);
    return $1 if $stderr =~ /ERROR:  ([0-9A-Z]{5})/;
    return '00000' if $status == 0;
    return "psql exited with $status: $stderr";
}

sub lines { return join("\n", @_) }

sub is_growing
{
    my ($name, @fences) = @_;
    my @offenders = grep { !($fences[ $_ - 1 ] < $fences[$_]) } 1 .. $#fences;
    is_deeply([ map { "$fences[$_ - 1] is followed by $fences[$_]" } @offenders ], [], $name);
}

# Every index of the table must have an entry for every row, where the row says it is.
sub check_indexes
{
    my ($node, $table, $name, $database) = @_;
    $database //= 'postgres';
    $node->safe_psql($database, 'CREATE EXTENSION IF NOT EXISTS amcheck');
    my $stderr = '';
    $node->psql($database,
        "SELECT bt_index_check(indexrelid, heapallindexed => true) FROM pg_index WHERE indrelid = '$table'::regclass",
        stderr => \$stderr);
    is($stderr, '', $name);
}

# --- A clock that can be set ----------------------------------------------------------------------------------------------
#
# A server that is started with this library reads the machine's clock plus a number of seconds, which it finds in a file.
# Without it a test could not tell a fence that remembers from one that merely reads the clock.

my $clock_source = <<'C';
#define _GNU_SOURCE
#include <fcntl.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile long nothing = 0;
static volatile long *offset = &nothing;

__attribute__((constructor)) static void find_offset(void)
{
    const char *path = getenv("TEST_CLOCK_FILE");
    int fd = path ? open(path, O_RDONLY) : -1;
    void *page = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof(long), PROT_READ, MAP_SHARED, fd, 0);
    if (page != MAP_FAILED)
        offset = page;
    if (fd >= 0)
        close(fd);
}

int clock_gettime(clockid_t id, struct timespec *ts)
{
    int result = syscall(SYS_clock_gettime, id, ts);
    if (result == 0 && (id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE))
        ts->tv_sec += *offset;
    return result;
}

int gettimeofday(struct timeval *restrict tv, void *restrict tz)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    tv->tv_sec = ts.tv_sec;
    tv->tv_usec = ts.tv_nsec / 1000;
    (void) tz;
    return 0;
}

time_t time(time_t *t)
{
    struct timespec ts;
    clock_gettime(CLOCK_REALTIME, &ts);
    if (t)
        *t = ts.tv_sec;
    return ts.tv_sec;
}
C

# The path of the library, undef where there is no C compiler.
sub clock_library
{
    my $dir = PostgreSQL::Test::Utils::tempdir();
    append_to_file("$dir/clock.c", $clock_source);
    return run_log([ 'cc', '-shared', '-fPIC', '-O1', '-o', "$dir/clock.so", "$dir/clock.c" ]) ? "$dir/clock.so" : undef;
}

sub clock_file { return $_[0]->basedir . '/clock' }

# How many seconds the server's clock is ahead of the machine's, from now on.
sub set_clock
{
    my ($node, $seconds) = @_;
    my $file = clock_file($node);
    open my $handle, (-e $file ? '+<' : '>'), $file or die "could not open \"$file\": $!";
    syswrite($handle, pack('q', $seconds)) == 8 or die "could not write \"$file\": $!";
    close $handle;
}

sub start_by_clock
{
    my ($node, $library, $seconds) = @_;
    set_clock($node, $seconds);
    local $ENV{LD_PRELOAD} = $library;
    local $ENV{TEST_CLOCK_FILE} = clock_file($node);
    $node->start;
}

1;
