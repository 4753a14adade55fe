// The shop's tables, and what they say when the last form has been sent.
#pragma once

#include <cstdint>
#include <map>
#include <pqxx/pqxx>
#include <string>
#include <vector>

#include "load.hpp"
#include "way.hpp"

namespace demo::forms {

// A click, and what the customer was told.
struct Sent {
    Click click;
    Answer answer;
};

// Every figure is counted by SQL over forms, orders and answers.
struct Ledger {
    std::int64_t clicks = 0;
    std::int64_t declined = 0;                     // of the accepted ones, those whose card was declined
    std::map<std::string, std::int64_t> answers{}; // clicks by what was told
    std::int64_t due = 0;                          // forms that ought to make an order
    std::int64_t orders = 0;
    std::int64_t doubled = 0;     // orders beyond a form's first
    std::int64_t lost = 0;        // forms that ought to have made an order and did not
    std::int64_t illegal = 0;     // orders of forms that must not make one
    std::int64_t right_forms = 0; // forms with exactly the order and the answers of idem_token_redeem that they ought to have
    std::int64_t redeemed = 0;    // rows in idem_tokens
};

// How far the server has come. What is written in between by anybody shows as a difference of two marks.
struct Mark {
    std::int64_t wal_bytes = 0;
    std::int64_t transaction_ids = 0;
    std::int64_t tokens = 0; // rows in form_tokens or idem_tokens

    bool operator==(const Mark &) const = default;
};

// Makes the way's schema anew: orders, and, which the shop itself never sees, `forms` with the load and `answers`.
void create_shop(pqxx::connection &connection, const Load &load, const Way &way);

// REQUIRES, as all below: a session of shop_conninfo.
Mark read_mark(pqxx::connection &connection, const Way &way);
Mark operator-(const Mark &later, const Mark &earlier);

void store_answers(pqxx::connection &connection, const std::vector<Sent> &sent);
Ledger read_ledger(pqxx::connection &connection);

} // namespace demo::forms
