// The command `idem`.
#include <cstdlib>
#include <exception>

#include <fcntl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include "commands.hpp"
#include "exit_code.hpp"
#include "options.hpp"
#include "table.hpp"
#include "usage.hpp"

namespace idem::cli {

namespace {

/// Opens the standard streams that are closed, so that no socket gets their numbers.
void open_standard_streams() {
    int fd;
    do
        fd = open("/dev/null", O_RDWR);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

client_options connection_options(const settings &given) {
    client_options options;
    options.dsn = given.dsn;
    if (const char *surrounding = std::getenv("IDEM_DSN");
        surrounding != nullptr && given.run == take_step && given.dsn.empty())
        options.dsn = surrounding;
    options.max_connections = 2;
    options.prepare = false; // each statement runs once
    if (std::getenv("PGCONNECT_TIMEOUT") != nullptr)
        options.connect_timeout = std::chrono::seconds(0);
    options.on_notice = [&given](const std::string &severity, const std::string &message) {
        if (!given.quiet)
            complain(severity + ": " + message);
    };
    return options;
}

/// The deepest subcommand that was given, for the hint.
std::string path_of(const CLI::App &root) {
    std::string path = root.get_name();
    for (const CLI::App *at = &root; !at->get_subcommands().empty();) {
        at = at->get_subcommands().front();
        path += " " + at->get_name();
    }
    return path;
}

int parse_and_run(int argc, const char *const *argv) {
    settings given;
    const std::unique_ptr<CLI::App> tree = make_tree(given);
    split_words words = split_command(argc, argv);
    try {
        std::vector<std::string> reversed(words.before.rbegin(), words.before.rend());
        tree->parse(reversed);
    } catch (const usage_error &problem) {
        const int code = report(problem, given.quiet);
        return path_of(*tree) == "idem http-test" ? kNotTested : code;
    } catch (const CLI::ParseError &problem) {
        if (problem.get_exit_code() == 0) { // --help, --version
            tree->exit(problem);
            return kDone;
        }
        complain(std::string(problem.what()));
        const std::string path = path_of(*tree);
        complain("try \"" + path + " --help\"");
        return path == "idem http-test" ? kNotTested : kUsage;
    }
    given.command = std::move(words.command);
    try {
        if ((given.run == run_once || given.run == run_locked || given.run == take_step) && given.command.empty())
            throw usage_error("there is no command to run; write it after --");
        client db(connection_options(given));
        context c{given, *tree, db};
        return given.run(c);
    } catch (const std::exception &problem) {
        return report(problem, given.quiet);
    }
}

} // namespace

} // namespace idem::cli

int main(int argc, char **argv) {
    idem::cli::open_standard_streams();
    try {
        return idem::cli::parse_and_run(argc, argv);
    } catch (const std::exception &problem) {
        return idem::cli::report(problem, false);
    }
}
