# Faults on order: the n-th allocation of a statement fails, or the disk has no room for the n-th page that it adds.
#
# A library that the server is started with stands between it and libc; a module in the server arms it, and lets allocations from
# memory contexts fail one by one, which malloc alone would not, as contexts take their memory in large blocks.
package IdemFaults;

use strict;
use warnings;

use Exporter 'import';
use PostgreSQL::Test::Cluster;
use PostgreSQL::Test::Utils;

our @EXPORT = qw(build_faults);

my $library_source = <<'C';
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void *__libc_calloc(size_t count, size_t size);

/* Which one is to fail, from now on; those that were seen. */
static long malloc_at = -1, malloc_seen = 0;
static long extend_at = -1, extend_seen = 0;

void fault_malloc(long at) { malloc_at = at; malloc_seen = 0; }
void fault_malloc_off(long unused) { (void) unused; malloc_at = -1; }
void fault_extend(long at) { extend_at = at; extend_seen = 0; }
long fault_mallocs(void) { return malloc_seen; }
long fault_extends(void) { return extend_seen; }

/* The server's: set while newer ones begin a subtransaction, it lets any error end the session. */
extern _Bool ExitOnAnyError __attribute__((weak));

/*
 * Where the server itself does not survive a want of memory, whoever has it. Before 16 it ends a session that has none for a
 * function's own settings (ParseLongOption asks for it with FATAL). From 18 on the cache of types has two tables and takes itself for
 * made with the first of them: without the second, the next look into it is a SIGSEGV (lookup_type_cache).
 * The first look loads what looking needs, and so is taken before anything can fail.
 */
int fault_is_fatal(void)
{
    static const char *const functions[] = {"ParseLongOption", "lookup_type_cache"};
    void *frames[10];
    const int count = backtrace(frames, 10);
    Dl_info at;
    for (int i = 0; i < count; i++)
        for (int f = 0; f < 2; f++)
            if (dladdr(frames[i], &at) && at.dli_saddr != NULL && at.dli_saddr == dlsym(RTLD_DEFAULT, functions[f]))
                return 1;
    return 0;
}
static __attribute__((constructor)) void look_once(void) { fault_is_fatal(); }

/* What may not fail leaves it to the next one. */
static int fails(void)
{
    if (malloc_at < 0 || (&ExitOnAnyError && ExitOnAnyError))
        return 0;
    malloc_seen++;
    if (malloc_seen != malloc_at)
        return 0;
    if (fault_is_fatal())
    {
        malloc_at++;
        return 0;
    }
    malloc_at = -1;
    errno = ENOMEM;
    return 1;
}

void *malloc(size_t size) { return fails() ? NULL : __libc_malloc(size); }
void *calloc(size_t count, size_t size) { return fails() ? NULL : __libc_calloc(count, size); }
void *realloc(void *old, size_t size) { return fails() ? NULL : __libc_realloc(old, size); }

/* Only what makes a relation's file longer; once the disk is full it stays so. */
static int is_full(int fd, size_t length, off_t offset)
{
    struct stat file;
    char link[64], path[1024];
    ssize_t size;
    if (extend_at < 0 || fstat(fd, &file) != 0 || (off_t) (offset + length) <= file.st_size)
        return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    size = readlink(link, path, sizeof path - 1);
    if (size <= 0)
        return 0;
    path[size] = '\0';
    if (strstr(path, "/base/") == NULL)
        return 0;
    extend_seen++;
    if (extend_at == 0 || extend_seen < extend_at)
        return 0;
    errno = ENOSPC;
    return 1;
}

ssize_t pwrite(int fd, const void *data, size_t length, off_t offset)
{
    return is_full(fd, length, offset) ? -1 : syscall(SYS_pwrite64, fd, data, length, offset);
}
ssize_t pwrite64(int fd, const void *data, size_t length, off_t offset)
{
    return is_full(fd, length, offset) ? -1 : syscall(SYS_pwrite64, fd, data, length, offset);
}
C

# alloc: before the version in which the method itself raises the error.
my $module_source = <<'C';
#include "postgres.h"

#include <dlfcn.h>
#include <sys/mman.h>
#include <unistd.h>

#include "access/xact.h"
#include "fmgr.h"
#include "miscadmin.h"
#include "nodes/memnodes.h"
#include "utils/memutils.h"
#if PG_VERSION_NUM >= 170000
#include "utils/memutils_internal.h"
#endif

PG_MODULE_MAGIC;
void _PG_init(void);
PG_FUNCTION_INFO_V1(fail_palloc);
PG_FUNCTION_INFO_V1(fail_malloc);
PG_FUNCTION_INFO_V1(fail_extend);
PG_FUNCTION_INFO_V1(faults_seen);

static long palloc_at = -1, palloc_seen = 0;
static bool lasts = false; /* beyond the transaction's end */

/*
 * An error has memory that was set aside for it. And three wants the server itself does not survive, whoever has them: that of a new lock's
 * list of eight owners (LockAcquireExtended leaves an entry without one until the transaction ends), that of the statistics' next level
 * (AtEOSubXact_PgStat has unlinked the last one by then, and counters are written where it was), and that of a reference to a statistics'
 * entry (pgstat_get_entry_ref_cached has an entry by then that points anywhere). Where the server has said that any error is to end the
 * session, one does.
 */
static bool is_needed(MemoryContext context, Size size)
{
    return ExitOnAnyError || context == ErrorContext || (context == TopMemoryContext && size == 8 * 16) || (context == TopTransactionContext && size == 48)
           || strcmp(context->name, "PgStat Shared Ref") == 0;
}

static bool is_left_to_the_next(void)
{
    int (*is_fatal)(void) = (int (*)(void)) dlsym(RTLD_DEFAULT, "fault_is_fatal");
    if (is_fatal == NULL || !is_fatal())
        return false;
    palloc_at++;
    return true;
}

#if PG_VERSION_NUM >= 170000
static void *(*alloc)(MemoryContext, Size, int);
static void *failing_alloc(MemoryContext context, Size size, int flags)
#else
static void *(*alloc)(MemoryContext, Size);
static void *failing_alloc(MemoryContext context, Size size)
#endif
{
    if (palloc_at >= 0 && !is_needed(context, size) && ++palloc_seen == palloc_at && !is_left_to_the_next())
    {
        palloc_at = -1;
#if PG_VERSION_NUM >= 170000
        return MemoryContextAllocationFailure(context, size, flags);
#else
        return NULL;
#endif
    }
#if PG_VERSION_NUM >= 170000
    return alloc(context, size, flags);
#else
    return alloc(context, size);
#endif
}

static void call(const char *function, long at)
{
    void (*arm)(long) = (void (*)(long)) dlsym(RTLD_DEFAULT, function);
    if (arm == NULL)
        elog(ERROR, "the library is not loaded");
    arm(at);
}

/* What was not met by the transaction's end is not to hit another one. */
static void at_end(XactEvent event, void *arg)
{
    if (!lasts && (event == XACT_EVENT_COMMIT || event == XACT_EVENT_ABORT || event == XACT_EVENT_PREPARE))
    {
        palloc_at = -1;
        call("fault_malloc_off", 0);
    }
}

void _PG_init(void)
{
    MemoryContextMethods *methods = (MemoryContextMethods *) TopMemoryContext->methods;
    const uintptr_t size = sysconf(_SC_PAGESIZE);
    const uintptr_t from = (uintptr_t) methods / size * size;
    const uintptr_t end = (uintptr_t) (methods + 1);
    if (mprotect((void *) from, end - from, PROT_READ | PROT_WRITE) != 0)
        elog(ERROR, "could not make the methods writable: %m");
    alloc = methods->alloc;
    methods->alloc = failing_alloc;
    RegisterXactCallback(at_end, NULL);
}

Datum fail_palloc(PG_FUNCTION_ARGS)
{
    palloc_seen = 0;
    palloc_at = PG_GETARG_INT32(0);
    lasts = PG_GETARG_BOOL(1);
    PG_RETURN_VOID();
}

Datum fail_malloc(PG_FUNCTION_ARGS)
{
    call("fault_malloc", PG_GETARG_INT32(0));
    lasts = PG_GETARG_BOOL(1);
    PG_RETURN_VOID();
}

Datum fail_extend(PG_FUNCTION_ARGS)
{
    call("fault_extend", PG_GETARG_INT32(0));
    PG_RETURN_VOID();
}

Datum faults_seen(PG_FUNCTION_ARGS)
{
    const char *function = PG_GETARG_INT32(0) == 1 ? "fault_mallocs" : "fault_extends";
    if (PG_GETARG_INT32(0) == 0)
        PG_RETURN_INT32((int32) palloc_seen);
    PG_RETURN_INT32((int32) ((long (*)(void)) dlsym(RTLD_DEFAULT, function))());
}
C

# Gives the library to start the server with and the SQL that makes the functions; nothing where there is nothing to build them with.
sub build_faults
{
    my $dir = PostgreSQL::Test::Utils::tempdir();
    my ($include) = run_command([ 'pg_config', '--includedir-server' ]);
    append_to_file("$dir/library.c", $library_source);
    append_to_file("$dir/module.c", $module_source);
    return unless -e "$include/postgres.h" && run_log([ 'cc', '--version' ]);
    run_log([ 'cc', '-shared', '-fPIC', '-O1', '-fno-builtin', '-o', "$dir/library.so", "$dir/library.c" ]) or die 'library.c does not compile';
    run_log([ 'cc', '-shared', '-fPIC', '-O1', '-I', $include, '-o', "$dir/module.so", "$dir/module.c" ]) or die 'module.c does not compile';
    # 0: the next one fails is 1; 0 itself only counts.
    my $sql = join '', map { "CREATE FUNCTION $_(n int, lasts boolean = false) RETURNS void LANGUAGE c VOLATILE AS '$dir/module', '$_';\n" }
      qw(fail_palloc fail_malloc fail_extend);
    $sql .= "CREATE FUNCTION faults_seen(kind int) RETURNS int LANGUAGE c VOLATILE AS '$dir/module', 'faults_seen';\n";
    return { library => "$dir/library.so", sql => $sql };
}

1;
