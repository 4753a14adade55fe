// The library's initialization: settings and callbacks. It is the same at server start (preloaded) and on first use.
#include "core/snowflake.hpp"
#include "operations/worker.hpp"
#include "rows/row_statement.hpp"
#include "server/compat.hpp"
#include "server/extension.hpp"
#include "server/pg.hpp"
#include "server/settings.hpp"
#include "server/transaction_block.hpp"
#include "statistics/stats.hpp"
#include "storage/member.hpp"
#include "storage/ring.hpp"

namespace idem::settings {

int default_ttl = 24 * 60 * 60;
int default_lease = 30 * 1000;
int max_lease = 24 * 60 * 60;
int max_response_size = 1024 * 1024;
bool require_registered_scope = false;
int node_id = 0;
int sweep_start_delay = 0;
int sweep_interval = 10 * 60 * 1000;
int sweep_pause = 2;
int sweep_workers = 1;
char *databases = nullptr;
int outbox_max_attempts = 16;
bool outbox_notify = true;
bool index_descent = true;

} // namespace idem::settings

namespace {

bool check_databases(char **value, void **, GucSource) {
    char *list = pstrdup(*value);
    List *names;
    const bool is_list = SplitIdentifierString(list, ',', &names);
    if (!is_list)
        GUC_check_errdetail("List syntax is invalid.");
    list_free(names);
    pfree(list);
    return is_list;
}

void define_settings() {
    using namespace idem;
    using namespace idem::settings;
    DefineCustomIntVariable("idem.default_ttl", "How long a key stays unique when neither the call nor its scope says so.",
                            nullptr, &default_ttl, default_ttl, 1, INT_MAX, PGC_USERSET, GUC_UNIT_S, nullptr, nullptr, nullptr);
    DefineCustomIntVariable("idem.default_lease", "How long a lease lasts when neither the call nor its scope says so.",
                            nullptr, &default_lease, default_lease, 1, INT_MAX, PGC_USERSET, GUC_UNIT_MS, nullptr, nullptr,
                            nullptr);
    DefineCustomIntVariable("idem.max_lease", "The longest lease that a call or a scope may ask for.",
                            "A number in the wrong unit would otherwise hold a key or a lock for years.", &max_lease, max_lease,
                            1, INT_MAX, PGC_USERSET, GUC_UNIT_S, nullptr, nullptr, nullptr);
    DefineCustomIntVariable("idem.max_response_size", "The largest response that is stored, unless its scope says otherwise.",
                            "A larger one is answered to its first caller only; the key counts as completed all the same.",
                            &max_response_size, max_response_size, 0, MaxAllocSize, PGC_USERSET, GUC_UNIT_BYTE, nullptr,
                            nullptr, nullptr);
    DefineCustomBoolVariable("idem.require_registered_scope", "Refuse scopes that idem_scope_set has not registered.", nullptr,
                             &require_registered_scope, require_registered_scope, PGC_SUSET, 0, nullptr, nullptr, nullptr);
    DefineCustomIntVariable("idem.node_id", "The node that idem_next_id puts into its numbers.",
                            "Databases whose numbers meet need different ones.", &node_id, node_id, 0, core::kNodes - 1,
                            PGC_SUSET, 0, nullptr, nullptr, nullptr);
    DefineCustomIntVariable("idem.sweep_start_delay", "How long after the server's start nothing is swept.",
                            "Leaves expired rows alone after a downtime, in which no client could send its messages again.",
                            &sweep_start_delay, sweep_start_delay, 0, INT_MAX, PGC_USERSET, GUC_UNIT_S, nullptr, nullptr,
                            nullptr);
    DefineCustomIntVariable("idem.sweep_pause", "How long the background worker rests after each batch of 200 rows.", nullptr,
                            &sweep_pause, sweep_pause, 0, 60 * 1000, PGC_SIGHUP, GUC_UNIT_MS, nullptr, nullptr, nullptr);
    DefineCustomIntVariable("idem.sweep_interval",
                            "How long after a sweep of a database the background worker begins the next.", nullptr,
                            &sweep_interval, sweep_interval, 100, INT_MAX, PGC_SIGHUP, GUC_UNIT_MS, nullptr, nullptr, nullptr);
    DefineCustomIntVariable("idem.sweep_workers", "How many databases the background worker sweeps at the same time.",
                            "Each takes one of max_worker_processes.", &sweep_workers, sweep_workers, 1, kMaxDatabases,
                            PGC_SIGHUP, 0, nullptr, nullptr, nullptr);
    DefineCustomStringVariable("idem.databases", "The databases that the background worker sweeps.",
                               "There is one when idem is in shared_preload_libraries.", &databases, "", PGC_SIGHUP,
                               GUC_LIST_INPUT, check_databases, nullptr, nullptr);
    DefineCustomIntVariable("idem.outbox_max_attempts", "How many failures park a message of the outbox.",
                            "Asked when an attempt fails: by the session that gives the message back, or takes it back.",
                            &outbox_max_attempts, outbox_max_attempts, 1, INT_MAX, PGC_SUSET, 0, nullptr, nullptr, nullptr);
    DefineCustomBoolVariable("idem.outbox_notify", "Wake relays by NOTIFY when messages are published.",
                             "Transactions that notify commit one after the other, and cannot be prepared.", &outbox_notify,
                             outbox_notify, PGC_USERSET, 0, nullptr, nullptr, nullptr);
    DefineCustomBoolVariable("idem.index_descent", "Find keys by idem's own descent of the B-tree.",
                             "Off: by the server's index scan, which is slower.", &index_descent, index_descent, PGC_SUSET, 0,
                             nullptr, nullptr, nullptr);
    MarkGUCPrefixReserved("idem");
}

} // namespace

extern "C" {

PG_MODULE_MAGIC_EXT(.name = "idem", .version = IDEM_VERSION);

PGDLLEXPORT void _PG_init();

void _PG_init() {
    idem::stats::initialize();
    define_settings();
    idem::extension_initialize();
    idem::members_initialize();
    idem::rings_initialize();
    idem::row_statement_initialize();
    idem::transaction_block_initialize();
    idem::worker_initialize();
}

} // extern "C"
