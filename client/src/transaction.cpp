#include <idem/transaction.hpp>

#include "access.hpp"
#include "client_state.hpp"
#include "session.hpp"

namespace idem {

namespace {

using detail::command;
using detail::rows;
using detail::statement;

constexpr statement begin_statements[] = {
    {"idem_tx_read_committed", "BEGIN ISOLATION LEVEL READ COMMITTED"},
    {"idem_tx_repeatable_read", "BEGIN ISOLATION LEVEL REPEATABLE READ"},
    {"idem_tx_serializable", "BEGIN ISOLATION LEVEL SERIALIZABLE"},
};
constexpr statement commit_statement{"idem_tx_commit", "COMMIT"};

/// Runs `run`; when the connection is lost, also closes the pool's idle ones, which are probably broken too.
template <typename F> auto dropping_idle_on_loss(client &db, F &&run) {
    try {
        return run();
    } catch (const connection_lost &) {
        detail::state_of(db).drop_idle();
        throw;
    }
}

} // namespace

transaction::transaction(client &db, isolation level, const std::vector<command> &first)
    : transaction(dropping_idle_on_loss(db, [&] { return detail::state_of(db).take(); }), db, level, first) {}

transaction::transaction(detail::pooled_session taken, client &db, isolation level, const std::vector<command> &first)
    : IDEM_PQXX_TRANSACTION(taken->adopted()), db_(db), session_(std::move(taken)) {
    try {
        std::vector<command> commands{{&begin_statements[static_cast<int>(level)], {}}};
        commands.insert(commands.end(), first.begin(), first.end());
        opening_ = dropping_idle_on_loss(db, [&] { return session_->run(commands); });
    } catch (...) {
        shut(); // the destructor will not run
        session_->abandon();
        throw;
    }
    opening_.erase(opening_.begin());
}

transaction::~transaction() {
    shut();
    if (open_)
        session_->abandon();
}

// After a failed write libpq reports the connection as good until the next read.
bool transaction::lost() const noexcept { return session_->closed_by_server(); }

void transaction::throw_if_ended() const {
    if (session_->between_transactions())
        throw pqxx::usage_error("a statement of the work has ended the transaction");
}

rows transaction::call(const command &command) {
    throw_if_ended();
    return std::move(dropping_idle_on_loss(db_, [&] { return session_->run({command}); }).front());
}

std::vector<rows> transaction::finish(const std::vector<command> &last) {
    last_ = &last;
    commit();
    return std::move(closing_);
}

void transaction::commit_now() {
    if (last_ == nullptr)
        throw pqxx::usage_error("only the flow that opened this transaction commits it");
    if (lost()) // COMMIT was not sent, so the outcome is known
        throw connection_lost("08006", "the connection was lost before commit");
    throw_if_ended();
    std::vector<command> commands = *std::exchange(last_, nullptr);
    const subject about = commands.empty() ? subject{} : commands.front().about;
    commands.push_back({&commit_statement, {}});
    try {
        closing_ = dropping_idle_on_loss(db_, [&] { return session_->run(commands); });
    } catch (const connection_lost &e) {
        throw outcome_unknown("08007", std::string("the connection was lost during commit: ") + e.what(), about);
    }
    open_ = false;
    if (!closing_.back().empty()) // session::run returns a row for a ROLLBACK only
        throw rolled_back("25P02", "COMMIT was answered with ROLLBACK: an error inside the transaction was ignored", about);
    closing_.pop_back();
}

// The server's transaction ends with this object and not before: libpqxx does not check whether its transaction is over before
// a statement with parameters, which would then run, and commit, by itself.
void transaction::abort_now() {}

} // namespace idem
