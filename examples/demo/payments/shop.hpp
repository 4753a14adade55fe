// The shop's tables, and what they say when the load is over.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "libpqxx.hpp"
#include "requests.hpp"

namespace demo::payments {

// Every figure is counted by SQL over orders, charges and due.
struct Ledger {
    std::int64_t orders = 0;
    std::int64_t charges = 0;
    std::int64_t duplicate_charges = 0; // beyond the first of a key
    std::int64_t overcharged_cents = 0; // the money in them
    std::int64_t lost_payments = 0;     // keys that were due and have no charge
    std::int64_t wrong_amounts = 0;     // charges of an amount that was not due
    std::map<std::string, std::int64_t> duplicate_charges_by_story{};
};

// Makes `schema` anew: orders, charges, and the table `due` with the load's payments, which the shop itself never sees.
void create_shop(pqxx::connection &connection, const std::string &schema, const Load &load);

// REQUIRES: a session of shop_conninfo.
Ledger read_ledger(pqxx::connection &connection);

} // namespace demo::payments
