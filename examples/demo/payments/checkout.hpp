// What the two halves of the demo have in common: the shop's own work for one payment request, and the mishaps. How a
// duplicate is recognised is not here: that is all that naive.cpp and guarded.cpp differ in.
#pragma once

#include <atomic>
#include <pqxx/pqxx>
#include <string>

#include "requests.hpp"
#include "session.hpp"

namespace demo::payments {

// What the client is told.
enum class Outcome {
    charged,   // this request made the order and the charge
    replayed,  // a duplicate: the response of an earlier request
    mismatch,  // 422: the key was used for another request
    no_answer, // the connection broke; the client cannot know what became of its request
};

struct Answer {
    Outcome outcome = Outcome::no_answer;
    std::string response{};
    int in_flight_answers = 0; // how often the client was told 409 before
};

// The order of the two requests of one payment. Thread-safe.
class Rendezvous {
  public:
    void first_is_running() { advance(Stage::running); }
    void first_has_ended() { advance(Stage::ended); }

    // Blocks until both requests have arrived.
    void wait_for_both();
    void wait_until_running() { wait_for(Stage::running); }
    void wait_until_ended() { wait_for(Stage::ended); }

    // Ends all waits, because the run is given up.
    void abandon();

  private:
    enum class Stage { not_started, running, ended };

    void advance(Stage stage);
    void wait_for(Stage stage);

    std::atomic<Stage> stage_ = Stage::not_started;
    std::atomic<int> arrived_ = 0;
};

class Checkout {
  public:
    // `killer` is a connection of its own, used for pg_terminate_backend only.
    Checkout(Session &session, Session &killer, const Request &request, Mishap mishap, Rendezvous &rendezvous)
        : session_{session}, killer_{killer}, request_{request}, mishap_{mishap}, rendezvous_{rendezvous} {}

    // The statements that charge() runs.
    static void prepare(pqxx::connection &connection);

    const Request &request() const { return request_; }
    pqxx::connection &connection() { return session_.connection(); }

    // The gateway's time, then the order and the charge: money is what is in `charges`. (A gateway that moves it outside
    // the database is called under a lease, between two transactions; this is the transactional mode.) Returns the
    // response, as the database spells jsonb.
    std::string charge(pqxx::work &transaction);

    // Throws in_doubt_error or another pqxx::failure, and leaves the connection closed, where the story wants it.
    void commit(pqxx::work &transaction);

    // The response that charge() made, even where the client never got it.
    const std::string &response() const { return response_; }

  private:
    void kill_backend();

    Session &session_;
    Session &killer_;
    const Request &request_;
    Mishap mishap_;
    Rendezvous &rendezvous_;
    std::string response_;
};

} // namespace demo::payments
