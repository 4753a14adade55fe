// Decides, some time later, what becomes of prepared transactions; over restarts of the server and lost replies.
#pragma once

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "connection.hpp"
#include "round.hpp"

namespace chaos {

std::string prepared_name(const Transaction &transaction);

class Coordinator {
  public:
    explicit Coordinator(Round &round);
    ~Coordinator();

    // Few at a time: each may hold up everybody who wants its keys.
    bool is_busy() const;
    // `certain`: PREPARE TRANSACTION was answered. Thread-safe.
    void take(Transaction transaction, bool certain);

    // Decides the rest. REQUIRES: no client takes part any more, and the server has ended all their sessions.
    std::vector<Transaction> finish();

  private:
    struct Pending {
        Transaction transaction;
        bool certain;
        bool commits;
        bool tried; // a decision was sent, and no reply came
        Nanoseconds due;
    };
    void work();
    bool decide(Pending *pending, bool at_end);
    void settle(Pending *pending, Fate fate);

    Round &round_;
    Connection connection_;
    std::vector<Transaction> decided_; // of the thread; of `finish` afterwards
    std::atomic<bool> finishing_{false};
    mutable std::mutex lock_; // guards what follows
    Random random_;
    std::vector<Pending> pending_;
    std::thread thread_; // last: it uses all of it
};

} // namespace chaos
