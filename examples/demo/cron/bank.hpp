// The bank's tables, and what they say when the last night is over.
#pragma once

#include <cstdint>
#include <pqxx/pqxx>
#include <string>
#include <vector>

#include "half.hpp"
#include "nights.hpp"

namespace demo::cron {

inline constexpr int kAccounts = 100;

// One host's part in one night.
struct Part {
    int night;
    std::size_t host;
    Mishap mishap; // that has struck it
    Answer answer;
};

// Every figure is counted by SQL over runs, accounts, begun and answers.
struct Ledger {
    std::int64_t begun = 0; // how often a host began the job
    std::int64_t died = 0;
    std::int64_t late_writes = 0; // hosts that were paused, and wrote all the same
    std::int64_t refused = 0;
    std::int64_t never = 0; // nights by how often the job ran
    std::int64_t once = 0;
    std::int64_t twice = 0;
    std::int64_t three_times = 0;
    std::int64_t overpaid_cents = 0;

    std::int64_t taken_over = 0; // nights on which a second host began
    std::int64_t least_ms = 0;   // from one begin to the next one in the same night
    std::int64_t most_ms = 0;
    std::int64_t stale_fences = 0; // begins with a fence that is not greater than that of the begin before
};

// Makes the half's schema anew: accounts, last_run, and runs; and, which the job itself never reads, begun and answers.
void create_bank(pqxx::connection &connection, const Half &half);

void store_answers(pqxx::connection &connection, const std::vector<Part> &parts);
Ledger read_ledger(pqxx::connection &connection);

} // namespace demo::cron
