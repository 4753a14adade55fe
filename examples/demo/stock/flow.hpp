// The four ways to sell a unit, and what they have in common. How two buyers at once are kept apart is not here: that is
// all that the flows differ in.
#pragma once

#include <array>
#include <chrono>

#include "libpqxx.hpp"

namespace demo::stock {

// What the buyer is told.
struct Answer {
    bool sold = false; // false: sold out
    int retries = 0;   // how often the flow had to start over
};

// One buyer's attempt to get one unit.
class Attempt {
  public:
    Attempt(pqxx::connection &connection, int number, std::chrono::microseconds work_time)
        : connection_{connection}, number_{number}, work_time_{work_time} {}

    // The statement that insert_sale() runs.
    static void prepare(pqxx::connection &connection);

    pqxx::connection &connection() const { return connection_; }

    // What a shop does between looking at the stock and selling: prices, taxes, a voucher. About a millisecond.
    void do_own_work() const;

    // The sale belongs to the transaction that takes the unit.
    void insert_sale(pqxx::work &transaction) const;

  private:
    pqxx::connection &connection_;
    int number_;
    std::chrono::microseconds work_time_;
};

struct Flow {
    const char *name;
    const char *how;
    const char *schema;                            // where its stock and sales are
    void (*guard)(pqxx::work &transaction);        // what the flow needs of the table; may be null
    void (*prepare)(pqxx::connection &connection); // its own statements
    Answer (*buy)(const Attempt &attempt);
};

extern const Flow kNaive;
extern const Flow kConditional;
extern const Flow kOptimistic;
extern const Flow kPessimistic;

inline constexpr std::array<const Flow *, 4> kFlows{&kNaive, &kConditional, &kOptimistic, &kPessimistic};

} // namespace demo::stock
