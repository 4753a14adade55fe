// With idem, in its transactional mode: the claim, the order, the charge and the response commit together or not at all.
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>

#include "half.hpp"

namespace demo::payments {
namespace {

using namespace std::chrono_literals;

constexpr auto kWaitLimit = 30s;

void prepare(pqxx::connection &connection) {
    connection.prepare("begin",
                       "SELECT outcome, response FROM idem_begin(key => $1, fingerprint => idem_fingerprint($2::jsonb),"
                       " wait => '10 ms', scope => 'payments')");
    connection.prepare("complete", "SELECT idem_complete(key => $1, response => $2::jsonb, status_code => 201,"
                                   " scope => 'payments')");
}

struct Ticket {
    std::string outcome;
    std::string response;
};

Ticket begin(pqxx::work &transaction, const Request &request) {
    const auto row = one_row(exec_prepared(transaction, "begin", request.key, request.body()));
    return {row["outcome"].as<std::string>(), row["response"].as<std::string>(std::string{})};
}

Answer pay(Checkout &checkout) {
    const Request &request = checkout.request();
    const auto give_up = std::chrono::steady_clock::now() + kWaitLimit;

    for (int in_flight = 0;; ++in_flight) {
        pqxx::work transaction{checkout.connection()};
        auto ticket = begin(transaction, request);

        if (ticket.outcome == "completed")
            return {Outcome::replayed, std::move(ticket.response), in_flight};
        if (ticket.outcome == "mismatch")
            return {Outcome::mismatch, {}, in_flight};

        if (ticket.outcome == "acquired") {
            auto response = checkout.charge(transaction);
            exec_prepared(transaction, "complete", request.key, response);
            checkout.commit(transaction);
            return {Outcome::charged, std::move(response), in_flight};
        }

        if (ticket.outcome != "in_flight")
            throw std::runtime_error{"idem_begin: unexpected outcome " + ticket.outcome};
        if (std::chrono::steady_clock::now() > give_up)
            throw std::runtime_error{request.key + " stays in flight"};
        transaction.abort();
        std::this_thread::sleep_for(10ms);
    }
}

} // namespace

const Half kGuarded{.name = "idem", .schema = "shop_idem", .prepare = prepare, .pay = pay};

} // namespace demo::payments
