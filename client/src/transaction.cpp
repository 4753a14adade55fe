#include <idem/transaction.hpp>

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

/// Everybody else's idle connections have likely gone the same way.
template <typename F> auto noting_loss(client &db, F &&run) {
    try {
        return run();
    } catch (const connection_lost &) {
        db.state().drop_idle();
        throw;
    }
}

} // namespace

transaction::transaction(client &db, isolation level, const std::vector<command> &first)
    : transaction(noting_loss(db, [&] { return db.state().take(); }), db, level, first) {}

transaction::transaction(detail::session_lease lease, client &db, isolation level, const std::vector<command> &first)
    : IDEM_PQXX_TRANSACTION(lease->adopted()), db_(db), session_(std::move(lease)) {
    try {
        std::vector<command> commands{{&begin_statements[static_cast<int>(level)], {}}};
        commands.insert(commands.end(), first.begin(), first.end());
        opening_ = noting_loss(db, [&] { return session_->run(commands); });
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

// After a failed write libpq still calls the connection good, until somebody reads.
bool transaction::lost() const noexcept { return session_->hung_up(); }

void transaction::refuse_if_ended() const {
    if (session_->between_transactions())
        throw pqxx::usage_error("the transaction was ended by a statement of the work's: nothing more runs in it");
}

rows transaction::call(const command &command) {
    refuse_if_ended();
    return std::move(noting_loss(db_, [&] { return session_->run({command}); }).front());
}

std::vector<rows> transaction::finish(const std::vector<command> &last) {
    last_ = &last;
    commit();
    return std::move(closing_);
}

void transaction::commit_now() {
    if (last_ == nullptr)
        throw pqxx::usage_error("this transaction is committed by the flow that opened it");
    if (lost()) // COMMIT has not been sent, so there is nothing to be in doubt of
        throw connection_lost("08006", "the connection was lost before commit");
    refuse_if_ended();
    std::vector<command> commands = *std::exchange(last_, nullptr);
    const subject about = commands.empty() ? subject{} : commands.front().about;
    commands.push_back({&commit_statement, {}});
    try {
        closing_ = noting_loss(db_, [&] { return session_->run(commands); });
    } catch (const connection_lost &e) {
        throw outcome_unknown("08007", std::string("the connection was lost during commit: ") + e.what(), about);
    }
    open_ = false;
    if (!closing_.back().empty()) // only ROLLBACK has something to say
        throw rolled_back("25P02", "COMMIT was answered with ROLLBACK: an error inside the transaction had been swallowed",
                          about);
    closing_.pop_back();
}

// Statements with parameters do not look whether libpqxx's transaction is over: they would run, and commit, by themselves. The
// server's transaction ends with this object.
void transaction::abort_now() {}

} // namespace idem
