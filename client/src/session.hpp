// One connection: statements in libpq's pipeline mode, and libpqxx's view of the same connection for the caller's own
// statements.
#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include <libpq-fe.h>

#include <idem/client.hpp>
#include <idem/pqxx_compat.hpp>
#include <idem/statement.hpp>

namespace idem::detail {

class client_state;
struct named_text;

/// Not thread-safe; belongs to the flow that took it from the pool.
class session {
  public:
    /// Connects; throws connection_lost.
    explicit session(client_state &owner);
    ~session();
    session(const session &) = delete;
    session &operator=(const session &) = delete;

    /// Sends all commands at once and waits for all answers: one round trip. The first error is thrown (the hierarchy of
    /// error.hpp), and the commands after it have not run; connection_lost when the connection broke or `deadline` passed (it
    /// is broken then). Outside a transaction the commands are one of their own.
    std::vector<rows> run(const std::vector<command> &commands,
                          std::optional<std::chrono::steady_clock::time_point> deadline = std::nullopt);
    /// Sends ROLLBACK and does not wait: the next run() reads the answer before its own.
    void abandon() noexcept;

    /// Whether the connection is whole, and no transaction open.
    bool between_transactions() const noexcept;

    connection &adopted() { return adopted_->get(); }
    bool broken() const noexcept;
    /// broken(), or the server has closed the connection meanwhile. Does not wait.
    bool hung_up() noexcept;
    /// Breaks the connection for good: nobody may use it again.
    void discard() noexcept;

  private:
    struct closer {
        void operator()(PGconn *raw) const noexcept { PQfinish(raw); }
    };
    struct result_freer {
        void operator()(PGresult *result) const noexcept { PQclear(result); }
    };
    using result_ptr = std::unique_ptr<PGresult, result_freer>;
    using deadline_t = std::optional<std::chrono::steady_clock::time_point>;

    /// Reads the answer to an abandoned transaction's ROLLBACK.
    void settle(const deadline_t &deadline);
    /// Reads the end of a batch.
    void synchronize(const deadline_t &deadline);
    void send(const command &command, const named_text &what, bool prepare);
    result_ptr receive(const deadline_t &deadline);
    void wait_for_socket(bool also_writable, const deadline_t &deadline);
    void flush(const deadline_t &deadline);
    [[noreturn]] void lost(const std::string &sqlstate = {}, std::string message = {});

    client_state &owner_;
    std::unique_ptr<PGconn, closer> raw_;
    std::unique_ptr<adopted_connection> adopted_; // destroyed before raw_
    std::unordered_set<const statement *> prepared_;
    bool unsettled_ = false; // a ROLLBACK is under way; pipeline mode is on
    bool running_ = false;   // left standing when run() was thrown out of in the middle
    bool discarded_ = false;
    subject about_; // of what run() sends
};

} // namespace idem::detail
