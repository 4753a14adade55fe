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
struct resolved_statement;

/// Not thread-safe: one flow at a time takes it from the pool.
class session {
  public:
    /// Connects; throws connection_lost.
    explicit session(client_state &client);
    ~session();
    session(const session &) = delete;
    session &operator=(const session &) = delete;

    /// Sends all commands at once and waits for all answers: one round trip. Throws the first error (see error.hpp); the
    /// commands after it have not run. Throws connection_lost when the connection broke or `deadline` passed, after which it
    /// counts as broken. Outside a transaction block the commands are one transaction.
    std::vector<rows> run(const std::vector<command> &commands,
                          std::optional<std::chrono::steady_clock::time_point> deadline = std::nullopt);
    /// Sends ROLLBACK without waiting: the next run() reads the answer before its own.
    void abandon() noexcept;

    /// Whether the connection is whole, and no transaction open.
    bool between_transactions() const noexcept;

    connection &adopted() { return adopted_->get(); }
    bool broken() const noexcept;
    /// broken(), or the server has closed the connection meanwhile. Does not wait.
    bool closed_by_server() noexcept;
    /// Marks the connection as broken: it is not used again.
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

    /// The first error of a batch; no SQLSTATE: none.
    struct server_error {
        std::string sqlstate, message;
        subject about;
        bool ends_connection = false;
    };
    /// What one run() sends and receives.
    struct batch {
        const std::vector<command> &commands;
        std::vector<const resolved_statement *> texts; // of the commands
        bool by_name;                                  // statements are prepared, and executed by their names
        std::vector<bool> prepares;                    // the command is preceded by a message that prepares its statement
        std::vector<rows> answers;
        server_error failure;
    };

    std::vector<const resolved_statement *> resolve(const std::vector<command> &commands);
    void send(batch &all);
    void send(const command &command, const resolved_statement &text, bool by_name);
    void flush(const deadline_t &deadline);
    bool send_rollback();
    /// Reads the answer to the ROLLBACK that abandon() sent.
    void finish_rollback(const deadline_t &deadline);
    void receive_answers(batch &sent, const deadline_t &deadline);
    void note_failure(server_error &failure, const PGresult *result, const subject &about);
    void end_pipeline(batch &sent, const deadline_t &deadline);
    /// Reads the message that ends a pipeline's batch.
    void read_sync_point(const deadline_t &deadline);
    [[noreturn]] void throw_failure(const batch &sent);

    result_ptr receive(const deadline_t &deadline);
    void wait_for_socket(bool also_writable, const deadline_t &deadline);
    [[noreturn]] void throw_connection_lost(const std::string &sqlstate = {}, std::string message = {});

    client_state &client_;
    std::unique_ptr<PGconn, closer> raw_;
    std::unique_ptr<adopted_connection> adopted_; // destroyed before raw_
    std::unordered_set<const statement *> prepared_;
    bool rollback_pending_ = false; // a ROLLBACK was sent and not yet answered; pipeline mode is on
    int rollback_answers_ = 0;      // how many answers are still to come: its own, and that to its preparation
    bool rollback_is_prepared_ = false;
    bool running_ = false; // stays true when run() throws halfway: the connection is then broken
    bool discarded_ = false;
    subject about_; // of the commands that run() sends
};

} // namespace idem::detail
