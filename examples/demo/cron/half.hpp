// The two ways to start a nightly job on three hosts and have it done once, and what they have in common: the job, and the
// mishaps. How a host learns that it must not do the job is not here: that is all that naive.cpp and guarded.cpp differ in.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <pqxx/pqxx>
#include <stop_token>
#include <string>

#include "nights.hpp"
#include "session.hpp"

namespace demo::cron {

// What became of one host's part in one night:
//   ran      it did the job
//   done     it found the job done
//   died     its connection broke, and nothing that it wrote stayed
//   refused  it was late with its write, and its fence was stale
//   lost     it was late with its renewal, and stopped
//   busy     it never got the lock
using Answer = std::string;

// What the hosts of one night have to do with each other, besides the database. Thread-safe.
struct Meanwhile {
    std::atomic<bool> has_begun = false;      // somebody is the first
    std::atomic<std::size_t> hosts_ended = 0; // are through with the night
};

// One host on one night.
class Shift {
  public:
    Shift(Session &session, int number, const Night &night, Meanwhile &meanwhile, std::stop_token stop)
        : session_{session}, number_{number}, night_{night}, meanwhile_{meanwhile}, stop_{std::move(stop)} {}

    // The statements that the job runs.
    static void prepare(pqxx::connection &connection);

    pqxx::connection &connection() const { return session_.connection(); }

    // What the table last_run says.
    bool is_done() const;

    // Computes the interest: some milliseconds, one night twice the lease, outside any transaction. Calls `go_on` every
    // now and then, and gives up when that says no. A host that is to be paused is paused at the end. False: given up.
    bool compute(
        std::optional<std::int64_t> fence = {}, const std::function<bool()> &go_on = [] { return true; });

    // Credits every account, and sets last_run.
    void credit(pqxx::work &transaction);

    // The mishap that has struck this host.
    Mishap mishap() const { return mishap_; }

    // The database's words for a stale fence.
    void refused(const pqxx::sql_error &error) { refusal_ = std::string(error.sqlstate()) + "  " + error.what(); }
    const std::string &refusal() const { return refusal_; }

  private:
    void stand_still() const;

    Session &session_;
    int number_;
    const Night &night_;
    Meanwhile &meanwhile_;
    std::stop_token stop_;
    Mishap mishap_ = Mishap::none;
    std::string refusal_{};
};

struct Half {
    const char *name;
    const char *schema;                            // where its accounts and runs are
    void (*prepare)(pqxx::connection &connection); // its own statements
    Answer (*run)(Shift &shift);                   // one host on one night, start to end
};

// SELECT last_run, do the job, UPDATE last_run.
extern const Half kNaive;

// The same code between idem_lock and idem_unlock, with idem_assert_fence before the write.
extern const Half kGuarded;

} // namespace demo::cron
