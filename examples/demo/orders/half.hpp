// The two ways to move an order on, and what they have in common. How a worker learns that an event has been handled
// already, or comes too late, is not here: that is all that naive.cpp and guarded.cpp differ in.
#pragma once

#include <chrono>
#include <string>

#include "libpqxx.hpp"

namespace demo::orders {

// What a worker did about one event. Spelt as idem_transition's outcomes; `moved` is the only one that has an effect.
using Answer = std::string;

// The states, and which may follow which:
//   created -> paid -> shipped -> delivered;  created -> cancelled;  paid -> cancelled
// `to` is the state that the event asks for.
struct Event {
    int order;
    const char *to;
    std::chrono::microseconds work_time;
};

// One event in the hands of one worker.
class Job {
  public:
    Job(pqxx::connection &connection, const Event &event) : connection_{connection}, event_{event} {}

    // The statement that do_work() runs.
    static void prepare(pqxx::connection &connection);

    const Event &event() const { return event_; }
    pqxx::connection &connection() const { return connection_; }

    // Charges the card, packs the parcel, gives the money back: about a millisecond, and a row in `effects`.
    void do_work(pqxx::work &transaction) const;

  private:
    pqxx::connection &connection_;
    const Event &event_;
};

struct Half {
    const char *name;
    const char *schema;                            // where its orders and effects are
    void (*guard)(pqxx::work &transaction);        // what it needs of the table, which is still empty; may be null
    void (*prepare)(pqxx::connection &connection); // its own statements
    Answer (*handle)(const Job &job);              // one event, start to end
};

// SELECT the status, check it in the program, UPDATE it.
extern const Half kNaive;

// idem_transition, and the machine attached to the table.
extern const Half kGuarded;

} // namespace demo::orders
