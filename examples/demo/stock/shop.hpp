// The shop's tables, and what they say when everybody has been served.
#pragma once

#include <cstdint>
#include <pqxx/pqxx>
#include <vector>

#include "flow.hpp"

namespace demo::stock {

inline constexpr int kUnits = 1000;

// Every figure is counted by SQL over stock, sales and told.
struct Ledger {
    std::int64_t attempts = 0;
    std::int64_t sold = 0; // to buyers who were told so
    std::int64_t retries = 0;
    std::int64_t sales = 0;
    std::int64_t left = 0;
    std::int64_t unexplained = 0; // buyers who were told something else than their sales say
};

// Makes the flow's schema anew: stock with its one row, sales, and the table `told` for what the buyers were told.
void create_shop(pqxx::connection &connection, const Flow &flow);

// The buyer of attempt number i was told answers[i]. REQUIRES, as read_ledger: a session of shop_conninfo.
void store_answers(pqxx::connection &connection, const std::vector<Answer> &answers);
Ledger read_ledger(pqxx::connection &connection);

} // namespace demo::stock
