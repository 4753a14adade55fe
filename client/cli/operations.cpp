// stats, in-flight, backlog, health, sweep
#include <algorithm>
#include <charconv>
#include <cstdio>
#include <optional>

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "duration.hpp"
#include "exit_code.hpp"
#include "progress.hpp"
#include "queries.hpp"

namespace idem::cli {

namespace {

constexpr detail::statement stats_statement{
    "idem_cli_stats", "SELECT pg_catalog.row_to_json(r)::pg_catalog.text FROM @idem@.idem_stats r ORDER BY scope", true};
constexpr detail::statement in_flight_statement{
    "idem_cli_in_flight", "SELECT pg_catalog.row_to_json(r)::pg_catalog.text FROM @idem@.idem_in_flight() r ORDER BY since",
    true};
constexpr detail::statement backlog_statement{
    "idem_cli_backlog", "SELECT pg_catalog.row_to_json(r)::pg_catalog.text FROM @idem@.idem_outbox_backlog() r ORDER BY topic",
    true};
constexpr detail::statement health_statement{
    "idem_cli_health", "SELECT pg_catalog.row_to_json(r)::pg_catalog.text FROM @idem@.idem_health() r", true};
constexpr detail::statement sweep_statement{"idem_cli_sweep",
                                            "CALL @idem@.idem_sweep($1::pg_catalog.int4, $2::pg_catalog.interval)", true};
constexpr detail::statement swept_statement{
    "idem_cli_swept",
    "SELECT pg_catalog.row_to_json(r)::pg_catalog.text FROM (SELECT DISTINCT ON (table_name) table_name AS \"table\", state, "
    "rows_deleted, "
    "rows_redacted, rows_held, batches, finished_at FROM @idem@.idem_sweep_progress ORDER BY table_name, updated_at DESC) r",
    true};

} // namespace

int show_stats(context &c) {
    const auto rows = query(c, stats_statement);
    if (rows.empty() && !c.given.quiet)
        complain(
            "nothing has been counted: nothing was asked, \"idem\" is not in shared_preload_libraries, or this is the portable "
            "edition, which does not count");
    show(c, rows, {"scope", "acquired", "duplicates", "in_flight", "mismatches", "takeovers", "stale_fences", "swept"});
    return kDone;
}

int show_in_flight(context &c) {
    show(c, query(c, in_flight_statement), {"scope", "key", "mode", "pid", "since", "lease_until"});
    return kDone;
}

int show_backlog(context &c) {
    show(c, query(c, backlog_statement), {"topic", "ready", "delayed", "leased", "parked", "oldest"});
    return kDone;
}

int show_health(context &c) {
    const auto checks = query(c, health_statement);
    show(c, checks, {"check_name", "level", "detail"});
    const auto failed = [](const std::string &check) {
        const auto level = nlohmann::json::parse(check).at("level");
        return level != "ok" && level != "notice";
    };
    return std::any_of(checks.begin(), checks.end(), failed) ? kNo : kDone;
}

int sweep(context &c) {
    progress_bar bar(c.given.quiet);
    client_options options = c.db.options();
    options.on_notice = [&](const std::string &severity, const std::string &message) {
        if (severity == "NOTICE")
            bar.note(message);
        else
            complain(severity + ": " + message);
    };
    client db(options);
    context noted{c.given, c.tree, db};
    query(noted, sweep_statement, {std::to_string(c.given.batch), detail::interval_text(c.given.pause)});
    bar.clear();
    show(c, query(noted, swept_statement),
         {"table", "state", "rows_deleted", "rows_redacted", "rows_held", "batches", "finished_at"});
    return kDone;
}

} // namespace idem::cli
