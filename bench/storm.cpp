// Many clients make one and the same request at the same moment. One of them does the work, the others want its response.
//
//   idem-bench-storm REDIS ROUNDS CLIENTS SECONDS
//
// The work takes SECONDS. REDIS is HOST:PORT. In each round every contender gets a new key in turn. One line per round and
// contender: contender, round; then p50, p99 and maximum of the milliseconds that a duplicate still waits for its response when
// the first of all clients has heard of the commit; then the same of their whole time.
#include "in_threads.hpp"
#include "storm_contenders.hpp"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iostream>
#include <latch>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace {

using namespace bench;
using Milliseconds = std::chrono::duration<double, std::milli>;

struct Contender {
    const char *name;
    std::function<std::unique_ptr<Requester>()> connect;
};

struct Outcome {
    Answer answer;
    Clock::time_point started_at, answered_at;
};

std::string new_key() {
    static std::mt19937_64 bits{std::random_device{}()};
    return "storm-" + std::to_string(bits());
}

// Every session does a request of its own before, which takes no time: the first call of a session loads catalogs and
// libraries. None is closed before all have their answer: a backend's end would take the processor from the others.
std::vector<Outcome> storm(const Contender &contender, int clients, double seconds) {
    const auto key = new_key();
    std::vector<Outcome> outcomes(static_cast<std::size_t>(clients));
    std::vector<std::unique_ptr<Requester>> requesters(outcomes.size());
    std::latch ready(clients);
    in_threads(outcomes.size(), [&](std::size_t i) {
        std::unique_ptr<Requester> &requester = requesters[i];
        try {
            requester = contender.connect();
            requester->request(key + "-before-" + std::to_string(i), 0);
        } catch (...) {
            ready.count_down();
            throw;
        }
        ready.arrive_and_wait();
        outcomes[i].started_at = Clock::now();
        outcomes[i].answer = requester->request(key, seconds);
        outcomes[i].answered_at = Clock::now();
    });
    return outcomes;
}

const Outcome &worker_of(const Contender &contender, const std::vector<Outcome> &outcomes) {
    const auto is_new = [](const Outcome &outcome) { return outcome.answer.is_new; };
    if (std::count_if(outcomes.begin(), outcomes.end(), is_new) != 1)
        throw std::runtime_error(std::string(contender.name) + " did the work another number of times than once");
    const auto &worker = *std::find_if(outcomes.begin(), outcomes.end(), is_new);
    for (const auto &outcome : outcomes)
        if (outcome.answer.response != worker.answer.response)
            throw std::runtime_error(std::string(contender.name) + " gave " + outcome.answer.response + " instead of " +
                                     worker.answer.response);
    return worker;
}

void print(std::vector<double> waits) {
    std::sort(waits.begin(), waits.end());
    const auto last = waits.size() - 1;
    std::printf("\t%.3f\t%.3f\t%.3f", waits[last / 2], waits[last * 99 / 100], waits[last]);
}

// The worker is one of many threads that wake up at the commit, so others may hear of it before.
Clock::time_point first_news(const Outcome &worker, const std::vector<Outcome> &outcomes) {
    auto first = worker.answer.committed_at;
    for (const auto &outcome : outcomes)
        first = std::min(first, outcome.answered_at);
    return first;
}

void one_round(const Contender &contender, int round, int clients, double seconds) {
    const auto outcomes = storm(contender, clients, seconds);
    const auto committed_at = first_news(worker_of(contender, outcomes), outcomes);
    std::vector<double> after, whole;
    for (const auto &outcome : outcomes) {
        if (outcome.answer.is_new)
            continue;
        after.push_back(Milliseconds(outcome.answered_at - committed_at).count());
        whole.push_back(Milliseconds(outcome.answered_at - outcome.started_at).count());
    }
    std::printf("%s\t%d", contender.name, round);
    print(after);
    print(whole);
    std::printf("\n");
    std::fflush(stdout);
}

void run(int argc, char **argv) {
    if (argc != 5)
        throw std::runtime_error("usage: idem-bench-storm REDIS ROUNDS CLIENTS SECONDS");
    const std::string redis = argv[1];
    const std::vector<Contender> contenders{
        {"idem_begin", std::make_unique<IdemBegin>},
        {"idem_execute", std::make_unique<IdemExecute>},
        {"raw_on_conflict", std::make_unique<RawOnConflict>},
        {"plpgsql", std::make_unique<Plpgsql>},
        {"advisory_lock", std::make_unique<AdvisoryLock>},
        {"redis_polling", [&] { return std::make_unique<RedisPolling>(redis); }},
    };
    for (int round = 1; round <= std::atoi(argv[2]); round++)
        for (const auto &contender : contenders)
            one_round(contender, round, std::atoi(argv[3]), std::atof(argv[4]));
}

} // namespace

int main(int argc, char **argv) {
    try {
        run(argc, argv);
    } catch (const std::exception &error) {
        std::cerr << "idem-bench-storm: " << error.what() << '\n';
        return 1;
    }
}
