// The three ways to see to it that a form makes one order, and what they have in common. What a form's token is, and when
// it is used up, is not here: that is all that delete_last.cpp, delete_first.cpp and guarded.cpp differ in.
#pragma once

#include <array>
#include <chrono>
#include <string>

#include "libpqxx.hpp"

namespace demo::forms {

// What a customer is told about a click on "Send". Spelt as idem_token_redeem's outcomes; `accepted` is the only one that
// makes an order, if the card is not declined. A way that knows less says "refused" for all the others.
using Answer = std::string;

// One click.
struct Click {
    int form;
    int nth;      // 0 or 1
    int customer; // who is logged in
    std::string token;
    bool card_is_declined;
    std::chrono::microseconds work_time;
};

// One click in the hands of the shop.
class Submission {
  public:
    Submission(pqxx::connection &connection, const Click &click) : connection_{connection}, click_{click} {}

    // The statement that place_order() runs.
    static void prepare(pqxx::connection &connection);

    const Click &click() const { return click_; }
    pqxx::connection &connection() const { return connection_; }

    // Prices, stock, the order, the card: about a millisecond. False: the card was declined, so nothing may be committed.
    bool place_order(pqxx::work &transaction) const;

  private:
    pqxx::connection &connection_;
    const Click &click_;
};

struct Way {
    const char *name;
    const char *how;
    const char *schema;                            // where its orders are
    void (*guard)(pqxx::work &transaction);        // what it needs besides the shop's tables
    const char *token_table;                       // where its tokens are, if anywhere
    const char *issue;                             // the statement that makes a token for customer $1, good for $2
    void (*prepare)(pqxx::connection &connection); // the statements of submit
    Answer (*submit)(const Submission &submission);
};

extern const Way kDeleteLast;
extern const Way kDeleteFirst;
extern const Way kGuarded;

inline constexpr std::array<const Way *, 3> kWays{&kDeleteLast, &kDeleteFirst, &kGuarded};

} // namespace demo::forms
