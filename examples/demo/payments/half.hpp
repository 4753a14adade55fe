// The two ways to answer a payment request.
#pragma once

#include <pqxx/pqxx>

#include "checkout.hpp"

namespace demo::payments {

struct Half {
    const char *name;
    const char *schema;                            // where its orders and charges are
    void (*prepare)(pqxx::connection &connection); // its own statements, on a fresh connection
    Answer (*pay)(Checkout &checkout);             // one request, start to end
};

// "Look, then insert": SELECT the request id, charge when there is none.
extern const Half kNaive;

// The same code with idem_begin and idem_complete around it.
extern const Half kGuarded;

} // namespace demo::payments
