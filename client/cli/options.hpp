// The option tree of the subcommands. --help, the man page and the shell completion are generated from it.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <idem/client.hpp>
#include <idem/request.hpp>

#include "http_test/options.hpp"

namespace CLI {
class App;
}

namespace idem::cli {

struct settings;

struct context {
    const settings &given;
    const CLI::App &tree;
    client &db;
};

/// A subcommand; returns the exit code. May throw any exception that report() handles.
using action = int (*)(context &);

struct settings {
    std::string dsn;
    bool quiet = false;
    bool json = false;

    std::string key; ///< also the name of a lock, a step or a machine, the token, the table
    std::string scope;
    std::optional<duration> ttl, lease;
    wait_limit wait;
    std::vector<std::string> command;
    bool store_output = false;
    std::size_t max_output = 256 * 1024;
    bool complete_failures = false;
    bool any_command = false;
    std::optional<std::string> reconcile;
    duration grace{10'000};

    std::string subject;
    int count = 1;
    std::string row_key, to_state;
    std::optional<std::string> from_state;
    int batch = 10000;
    duration pause{0};
    std::string shell;
    http_test_options http;

    action run = nullptr;
};

/// Parsing fills `given`.
std::unique_ptr<CLI::App> make_tree(settings &given);

/// The words before and after the `--` of `run`, `lock` and `step`; for other subcommands all words are `before`.
struct split_words {
    std::vector<std::string> before, command;
    bool split = false;
};
split_words split_command(int argc, const char *const *argv);

} // namespace idem::cli
