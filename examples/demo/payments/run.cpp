#include "run.hpp"

#include <algorithm>
#include <atomic>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "session.hpp"
#include "shop.hpp"

namespace demo::payments {
namespace {

using Clock = std::chrono::steady_clock;
using std::chrono::duration_cast;
using std::chrono::microseconds;

struct Reply {
    Answer answer;
    std::string response; // what the request made, if it came that far; the client may not have heard
    microseconds latency{};
};

class Run {
  public:
    Run(const Load &load, const Half &half)
        : load_{load}, half_{half}, rendezvous_(load.payments.size()), replies_(load.requests.size()) {}

    void work();

    std::size_t done() const { return done_; }
    bool over(std::size_t done) const { return failed_ || done == load_.requests.size(); }

    // REQUIRES: every worker has ended.
    const std::vector<Reply> &replies() const;

  private:
    void work_through();
    void wait_for_turn(const Request &request);
    Reply send(Session &session, Session &killer, const Request &request);
    void give_up(std::exception_ptr reason);

    const Load &load_;
    const Half &half_;
    std::vector<Rendezvous> rendezvous_; // by payment
    std::vector<Reply> replies_;         // by request; each is written by the one worker that took the request
    std::atomic<std::size_t> next_ = 0;
    std::atomic<std::size_t> done_ = 0;
    std::atomic<bool> failed_ = false;
    std::mutex failure_lock_;
    std::exception_ptr failure_;
};

void Run::work() {
    try {
        work_through();
    } catch (...) {
        give_up(std::current_exception());
    }
}

// Requests are taken in the load's order, so by the time anybody waits for a first request, somebody is at it: the
// waiting cannot go round in a circle.
void Run::work_through() {
    Session session{shop_conninfo(half_.schema), [this](pqxx::connection &connection) {
                        Checkout::prepare(connection);
                        half_.prepare(connection);
                    }};
    Session killer{""};

    for (std::size_t i = next_++; i < load_.requests.size() && !failed_; i = next_++) {
        const Request &request = load_.requests[i];
        wait_for_turn(request);
        replies_[i] = send(session, killer, request);
        if (request.first)
            rendezvous_[request.payment].first_has_ended();
        if (session.broken())
            session.reconnect();
        ++done_;
    }
}

void Run::wait_for_turn(const Request &request) {
    Rendezvous &rendezvous = rendezvous_[request.payment];
    const Timing timing = line_of(load_.payments[request.payment].story).second_request;
    if (timing == Timing::same_moment)
        return rendezvous.wait_for_both();
    if (request.first)
        return;
    if (timing == Timing::while_running)
        return rendezvous.wait_until_running();
    rendezvous.wait_until_ended();
}

Reply Run::send(Session &session, Session &killer, const Request &request) {
    const Mishap mishap = request.first ? line_of(load_.payments[request.payment].story).mishap : Mishap::none;
    Checkout checkout{session, killer, request, mishap, rendezvous_[request.payment]};
    Reply reply;

    const auto start = Clock::now();
    try {
        reply.answer = half_.pay(checkout);
    } catch (const pqxx::failure &) {
        // broken_connection, in_doubt_error, or 57P01 from a backend that still found time to say so: the client knows as
        // little in each case, and what helps is the same, a retry with the same key.
        if (mishap == Mishap::none || !session.broken())
            throw;
    }
    reply.latency = duration_cast<microseconds>(Clock::now() - start);
    reply.response = checkout.response();
    return reply;
}

void Run::give_up(std::exception_ptr reason) {
    {
        const std::lock_guard guard{failure_lock_};
        if (!failure_)
            failure_ = std::move(reason);
    }
    failed_ = true;
    for (Rendezvous &rendezvous : rendezvous_)
        rendezvous.abandon();
}

const std::vector<Reply> &Run::replies() const {
    if (failure_)
        std::rethrow_exception(failure_);
    return replies_;
}

// The response made for each payment. A retry that had to charge after all made the one that counts.
std::vector<std::string> made_responses(const Load &load, const std::vector<Reply> &replies) {
    std::vector<std::string> made(load.payments.size());
    for (std::size_t i = 0; i < replies.size(); ++i)
        if (!replies[i].response.empty())
            made[load.requests[i].payment] = replies[i].response;
    return made;
}

microseconds percentile(const std::vector<microseconds> &sorted, std::size_t percent) {
    return sorted.empty() ? microseconds{} : sorted[(sorted.size() - 1) * percent / 100];
}

Tally count(const Load &load, const std::vector<Reply> &replies) {
    Tally tally;
    const auto made = made_responses(load, replies);
    std::vector<microseconds> latencies;

    for (std::size_t i = 0; i < replies.size(); ++i) {
        const Request &request = load.requests[i];
        const Answer &answer = replies[i].answer;
        const bool replayed = answer.outcome == Outcome::replayed;
        tally.in_flight_answers += answer.in_flight_answers;
        tally.replays += replayed;
        tally.foreign_replays += replayed && request.amount_cents != load.payments[request.payment].amount_cents;
        tally.unequal_replays += replayed && answer.response != made[request.payment];
        tally.mismatches += answer.outcome == Outcome::mismatch;
        tally.no_answers += answer.outcome == Outcome::no_answer;
        if (answer.outcome != Outcome::no_answer)
            latencies.push_back(replies[i].latency);
    }

    std::ranges::sort(latencies);
    tally.p50 = percentile(latencies, 50);
    tally.p99 = percentile(latencies, 99);
    return tally;
}

} // namespace

Tally run_load(const Load &load, const Half &half, const std::function<void(std::size_t)> &show_progress) {
    Run run{load, half};
    {
        std::vector<std::jthread> workers;
        for (int i = 0; i < kConnections; ++i)
            workers.emplace_back([&run] { run.work(); });
        for (auto done = run.done(); !run.over(done); done = run.done()) {
            show_progress(done);
            std::this_thread::sleep_for(std::chrono::milliseconds{100});
        }
    }
    const auto &replies = run.replies();
    show_progress(run.done());
    return count(load, replies);
}

} // namespace demo::payments
