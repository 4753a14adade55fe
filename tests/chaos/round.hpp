// What the threads of one round share.
#pragma once

#include <atomic>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "board.hpp"
#include "check.hpp"
#include "figures.hpp"
#include "history.hpp"
#include "server.hpp"

namespace chaos {

struct Options {
    int clients = 8;
    std::set<std::string> nemeses;
    bool is_portable = false; // the portable edition: it has no rings, and no worker
    bool has(const char *nemesis) const { return nemeses.contains(nemesis); }
};

// What the harness itself finds, without looking at the history. Thread-safe.
class Findings {
  public:
    void add(Violation violation);
    // The transaction in which it was seen, alone.
    void add(const std::string &guarantee, const std::string &key, const std::string &explanation, const Transaction &seen_in);
    std::vector<Violation> all() const;

  private:
    mutable std::mutex lock_;
    std::vector<Violation> found_;
};

struct Round {
    Round(std::uint64_t round_seed, const Options &chosen, Server &run_server, Figures &run_figures)
        : seed(round_seed), options(chosen), server(run_server), figures(run_figures), board("r" + std::to_string(seed)) {}

    const std::uint64_t seed;
    const Options &options;
    Server &server;
    Figures &figures;
    Board board;
    Findings findings;
    std::atomic<bool> stopping{false};
    std::atomic<std::uint64_t> next_transaction{1};
};

} // namespace chaos
