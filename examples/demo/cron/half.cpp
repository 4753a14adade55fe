#include "half.hpp"

#include <algorithm>
#include <thread>

namespace demo::cron {
namespace {

using namespace std::chrono_literals;

// How long the job computes without asking whether it may go on: much shorter than the lease.
constexpr std::chrono::milliseconds kStep = kLease / 4;

} // namespace

void Shift::prepare(pqxx::connection &connection) {
    connection.prepare("is_done", "SELECT night >= $1 FROM last_run");
    connection.prepare("note_begin", "INSERT INTO begun (night, fence) VALUES ($1, $2)");
    connection.prepare("note_run", "INSERT INTO runs (night) VALUES ($1)");
    connection.prepare("credit", "UPDATE accounts SET balance_cents = balance_cents + 100");
    connection.prepare("set_last_run", "UPDATE last_run SET night = $1");
}

bool Shift::is_done() const {
    pqxx::nontransaction look{connection()};
    return one_row(exec_prepared(look, "is_done", number_))[0].as<bool>();
}

bool Shift::compute(std::optional<std::int64_t> fence, const std::function<bool()> &go_on) {
    {
        pqxx::nontransaction note{connection()};
        exec_prepared(note, "note_begin", number_, fence);
    }
    if (!meanwhile_.has_begun.exchange(true))
        mishap_ = night_.mishap;

    for (auto rest = night_.work_time; rest > 0ms; rest -= kStep) {
        std::this_thread::sleep_for(std::min(rest, kStep));
        if (!go_on())
            return false;
    }
    if (mishap_ == Mishap::paused)
        stand_still();
    return true;
}

void Shift::credit(pqxx::work &transaction) {
    exec_prepared(transaction, "note_run", number_);
    exec_prepared(transaction, "credit");
    exec_prepared(transaction, "set_last_run", number_);
    if (mishap_ == Mishap::dies)
        session_.close_socket();
}

void Shift::stand_still() const {
    while (meanwhile_.hosts_ended < kHosts - 1 && !stop_.stop_requested())
        std::this_thread::sleep_for(1ms);
}

} // namespace demo::cron
