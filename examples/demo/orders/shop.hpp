// The shop's tables, and what they say when all events have been handled.
#pragma once

#include <cstdint>
#include <pqxx/pqxx>
#include <string>
#include <vector>

#include "half.hpp"

namespace demo::orders {

// An event, who handled it and what came of it.
struct Handled {
    std::size_t worker;
    Event event;
    Answer answer;
};

// Every figure is counted by SQL over orders, effects and answers, and idem's own over idem_transition_log.
struct Ledger {
    std::int64_t events = 0; // handled
    std::int64_t moved = 0;
    std::int64_t already = 0;
    std::int64_t not_allowed = 0;
    std::int64_t repeats_not_told = 0; // the other worker moved, and this one was not told "already"

    std::int64_t charged_twice = 0;
    std::int64_t shipped_twice = 0;
    std::int64_t shipped_and_cancelled = 0;
    std::int64_t right_histories = 0; // orders that passed each of their states once
};

struct Log {
    std::int64_t rows = 0;
    std::int64_t right_histories = 0; // orders of which the log tells what was done, once and in order
};

// What became of a plain UPDATE by somebody who knows of no machine.
struct Stray {
    std::string statement;
    std::string sqlstate{}; // empty: the database let it pass
    std::string message{};
};

// Makes the half's schema anew: orders, all created, effects, and the table `answers` for what the workers did.
void create_shop(pqxx::connection &connection, const Half &half);

void store_answers(pqxx::connection &connection, const std::vector<Handled> &handled);
Ledger read_ledger(pqxx::connection &connection);
Log read_log(pqxx::connection &connection);

// Ships an order that nobody has paid, a new one. Leaves no trace.
Stray run_stray_script(pqxx::connection &connection);

} // namespace demo::orders
