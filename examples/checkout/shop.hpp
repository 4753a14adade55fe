// What all schemes have in common: the cart, the order that is made of it, the stock that it takes, and the diary in which
// the panel reads what idem answered.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <idem/idem.hpp>
#include <nlohmann/json.hpp>

namespace checkout {

using namespace std::chrono_literals;

// What the shop remembers of each scheme's last answers. Thread-safe.
class Diary {
  public:
    struct Entry {
        std::int64_t seq;
        std::chrono::system_clock::time_point at;
        std::string call;   // idem_token_redeem
        std::string answer; // duplicate
        std::string order;  // empty: none
    };

    void note(const std::string &scheme, std::string call, std::string answer, std::string order = "");
    // Newest first.
    std::vector<Entry> entries(const std::string &scheme) const;
    void clear();

  private:
    mutable std::mutex mutex_;
    std::map<std::string, std::deque<Entry>> entries_;
    std::int64_t seq_ = 0;
};

struct Settings {
    std::string pages;                      // the directory of templates, style and scripts
    std::string gateway;                    // http://127.0.0.1:PORT
    std::string url{};                      // the shop's own, for callbacks
    std::chrono::milliseconds hold{30'000}; // how long the stock is kept for an order that is not paid
    bool test = false;                      // knobs and endpoints that only tests may use
};

struct Shop {
    Settings settings;
    idem::client db;
    Diary diary{};
};

// What is in the form on every page.
struct Cart {
    int quantity = 1;
    std::string note{};
    nlohmann::json gateway = nlohmann::json::object(); // delay, callbacks, lose, decline
    std::chrono::milliseconds hold{};
};

// One click on "Pay", as the browser sent it.
struct Submission {
    const char *scheme;
    std::string visitor; // who: a random number in a cookie
    Cart cart;
    std::map<std::string, std::string> fields{}; // the scheme's own, hidden in the form

    // Empty: it is not there.
    const std::string &field(const char *name) const;
};

enum class Outcome { ordered, already, in_flight, expired, invalid, conflict, sold_out, mismatch, busy, error };
const char *name(Outcome outcome);

// What became of a submission.
struct Answer {
    Outcome outcome;
    std::string order{}; // ordered, already: which
    std::string call{};  // the function of idem that decided
    std::string said{};  // and its word
};

// Thrown inside a transaction, so that all of it is rolled back: the token, key or number is good again.
struct SoldOut : std::runtime_error {
    SoldOut() : std::runtime_error{"sold out"} {}
};

// --- Inside the scheme's transaction -----------------------------------------------------------------------------------------

// Inserts the order, reserved, and returns its number. `ref` is what a duplicate will be recognised by.
std::string insert_order(idem::transaction &tx, const Submission &submission, const std::string &ref);
// Takes the units off the shelf, in one statement that never goes below zero. Throws SoldOut.
void take_stock(idem::transaction &tx, const std::string &scheme, int quantity);
void put_back_stock(idem::transaction &tx, const std::string &scheme, int quantity);
// The two together.
std::string place_order(idem::transaction &tx, const Submission &submission, const std::string &ref);

// The order that this visitor made with `ref`; empty: none.
std::string order_of(idem::transaction &tx, const Submission &submission, const std::string &ref);
std::string order_of(Shop &shop, const Submission &submission, const std::string &ref);

// --- Keys of rows, as idem's row flows take them
// ------------------------------------------------------------------------------

inline constexpr const char *kStock = "checkout.stock";
inline constexpr const char *kOrders = "checkout.orders";
idem::row stock_key(const std::string &scheme);
idem::row order_key(const std::string &id);

// --- For the pages
// ------------------------------------------------------------------------------------------------------------

struct OrderView {
    std::string id, scheme, status, note;
    int quantity, amount;
    std::optional<std::int64_t> hold_left_ms; // reserved only
};

// Nothing: there is no such order of this visitor and scheme.
std::optional<OrderView> find_order(Shop &shop, const std::string &scheme, const std::string &visitor, const std::string &id);
// Empties the tables and fills the shelves.
void reset(Shop &shop, int stock);

// Digits only, and not too many: what may be compared with a bigint.
bool is_number(const std::string &text);
// 32 hexadecimal digits that nobody guesses.
std::string random_hex();

} // namespace checkout
