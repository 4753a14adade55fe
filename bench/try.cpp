// How long a call takes while another transaction holds the key.
//
//   idem-bench-try ROUNDS CLIENTS HOLD_MS NAME=CLAIM_FILE,PROBE_FILE...
//
// In each round, and for each contender in turn, a holder claims a key, keeps its transaction open for HOLD_MS and commits,
// five times with five keys; CLIENTS others ask for the same key all the while, a millisecond between two calls.
// One line per round: contender, round, p99 in ms, maximum in ms, number of calls.
#include "contender.hpp"

#include <idem/pqxx_compat.hpp>

#include <pqxx/pqxx>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <random>
#include <thread>
#include <vector>

namespace {

using idem::detail::exec_prepared;
using Clock = std::chrono::steady_clock;
using Milliseconds = std::chrono::duration<double, std::milli>;

constexpr int kHoldsPerRound = 5;

struct Contender {
    std::string name, claim_file, probe_file;

    explicit Contender(const std::string &argument) {
        const auto equals = argument.find('='), comma = argument.find(',');
        if (equals == std::string::npos || comma == std::string::npos)
            throw std::runtime_error("\"" + argument + "\" is not NAME=CLAIM_FILE,PROBE_FILE");
        name = argument.substr(0, equals);
        claim_file = argument.substr(equals + 1, comma - equals - 1);
        probe_file = argument.substr(comma + 1);
    }
};

std::string new_key() {
    static std::mt19937_64 bits{std::random_device{}()};
    return "held-" + std::to_string(bits());
}

struct Client {
    pqxx::connection connection;
    pqxx::nontransaction autocommit{connection};

    explicit Client(const Contender &contender) {
        connection.prepare("probe", bench::statement_from(contender.probe_file));
        // The first call of a session loads catalogs and libraries; that is no part of the question.
        probe(new_key());
    }

    pqxx::result probe(const std::string &key) { return exec_prepared(autocommit, "probe", key); }
};

// A held key must never be given to anybody else.
void refuse_acquired(const Contender &contender, const pqxx::result &answer) {
    const bool refused = answer.empty() ? answer.affected_rows() == 0 : answer[0][0].as<std::string>() != "acquired";
    if (!refused)
        throw std::runtime_error(contender.name + " was given a key that is held");
}

// Calls that start while `held` is set; the last one may outlive it, which for a waiting contender is the point.
std::vector<double> probe_while(const std::atomic<bool> &held, const Contender &contender, Client &client,
                                const std::string &key) {
    std::vector<double> latencies;
    while (held) {
        const auto start = Clock::now();
        const auto answer = client.probe(key);
        latencies.push_back(Milliseconds(Clock::now() - start).count());
        refuse_acquired(contender, answer);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return latencies;
}

std::vector<double> one_hold(const Contender &contender, pqxx::connection &holder,
                             std::vector<std::unique_ptr<Client>> &clients, std::chrono::milliseconds hold) {
    const auto key = new_key();
    pqxx::work transaction(holder);
    exec_prepared(transaction, "claim", key);

    std::atomic<bool> held = true;
    std::vector<std::vector<double>> latencies(clients.size());
    std::vector<std::exception_ptr> failures(clients.size());
    std::vector<std::thread> threads;
    for (std::size_t i = 0; i < clients.size(); i++)
        threads.emplace_back([&, i] {
            try {
                latencies[i] = probe_while(held, contender, *clients[i], key);
            } catch (...) {
                failures[i] = std::current_exception();
            }
        });
    std::this_thread::sleep_for(hold);
    held = false;
    transaction.commit();
    for (auto &thread : threads)
        thread.join();
    for (const auto &failure : failures)
        if (failure)
            std::rethrow_exception(failure);

    std::vector<double> all;
    for (const auto &part : latencies)
        all.insert(all.end(), part.begin(), part.end());
    return all;
}

void one_round(const Contender &contender, int round, int client_count, std::chrono::milliseconds hold) {
    pqxx::connection holder;
    holder.prepare("claim", bench::statement_from(contender.claim_file));
    std::vector<std::unique_ptr<Client>> clients;
    for (int i = 0; i < client_count; i++)
        clients.push_back(std::make_unique<Client>(contender));

    std::vector<double> latencies;
    for (int i = 0; i < kHoldsPerRound; i++) {
        const auto some = one_hold(contender, holder, clients, hold);
        latencies.insert(latencies.end(), some.begin(), some.end());
    }
    std::sort(latencies.begin(), latencies.end());
    std::printf("%s\t%d\t%.3f\t%.3f\t%zu\n", contender.name.c_str(), round, latencies[(latencies.size() - 1) * 99 / 100],
                latencies.back(), latencies.size());
    std::fflush(stdout);
}

void run(int argc, char **argv) {
    if (argc < 5)
        throw std::runtime_error("usage: idem-bench-try ROUNDS CLIENTS HOLD_MS NAME=CLAIM_FILE,PROBE_FILE...");
    const std::vector<Contender> contenders(argv + 4, argv + argc);
    for (int round = 1; round <= std::atoi(argv[1]); round++)
        for (const auto &contender : contenders)
            one_round(contender, round, std::atoi(argv[2]), std::chrono::milliseconds(std::atoi(argv[3])));
}

} // namespace

int main(int argc, char **argv) {
    try {
        run(argc, argv);
    } catch (const std::exception &error) {
        std::cerr << "idem-bench-try: " << error.what() << '\n';
        return 1;
    }
}
