// The proof: some thousand payment requests, a third of them duplicates, answered once by "look, then insert" and once
// with idem. Exit status: 0 the proof holds, 1 it does not or something broke, 2 wrong usage.
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "half.hpp"
#include "report.hpp"
#include "requests.hpp"
#include "run.hpp"
#include "session.hpp"
#include "shop.hpp"

namespace {

constexpr const char *kHelp = R"(Usage: idem-demo [--seed N] [--requests N]

Sends the same payment requests to a shop twice, from 16 connections at once: to one that looks for the request id and
inserts when there is none, and to one that guards the same code with idem. A third of the requests are duplicates:
double clicks, retries after a lost reply, retries while the first request is still running, retries after a connection
died mid-transaction, and keys that are used again with another amount. Then it counts the charges.

  --seed N      what the requests are made of (default 1); the same seed makes the same requests
  --requests N  about how many requests to send (default 9000, at least 90)
  --help        this text

The database is the one that PGHOST, PGPORT, PGUSER and PGDATABASE say. It needs the extension idem in schema
public. The program makes the schemas shop_naive and shop_idem anew, and forgets its own keys in the scope "payments".

Exit status 0: idem charged every payment once, lost none, and every replay equals the first response, while the other
half did charge some payments twice. 1: anything else. 2: wrong usage.
)";

struct Options {
    std::uint64_t seed = 1;
    std::size_t requests = 9000;
};

std::uint64_t number(std::string_view option, const char *text) {
    char *end = nullptr;
    const auto value = text ? std::strtoull(text, &end, 10) : 0;
    if (!text || end == text || *end != '\0' || *text == '-')
        throw std::invalid_argument{std::string{option} + " needs a number"};
    return value;
}

// Nothing: --help was asked for. Throws std::invalid_argument.
std::optional<Options> parse(int argc, char **argv) {
    Options options;
    for (int i = 1; i < argc; ++i) {
        const std::string_view option = argv[i];
        if (option == "--help")
            return std::nullopt;
        // argv ends with a null pointer, so the value of a last option is one.
        if (option == "--seed")
            options.seed = number(option, argv[++i]);
        else if (option == "--requests")
            options.requests = number(option, argv[++i]);
        else
            throw std::invalid_argument{"unknown option " + std::string{option}};
    }
    if (options.requests < 90)
        throw std::invalid_argument{"--requests must be at least 90"};
    return options;
}

// Better said before the first half has run than after it.
void require_idem(pqxx::connection &connection) {
    pqxx::read_transaction transaction{connection};
    if (transaction.exec("SELECT FROM pg_extension WHERE extname = 'idem'").empty())
        throw std::runtime_error{"the extension is not in database \"" + std::string{connection.dbname()} +
                                 "\"; run CREATE EXTENSION idem"};
}

void forget_keys(pqxx::connection &connection) {
    pqxx::work transaction{connection};
    transaction.exec("SELECT count(*) FROM due WHERE idem_forget(request_id, scope => 'payments')");
    transaction.commit();
}

demo::Result play(const demo::Load &load, const demo::Half &half) {
    demo::Session session{demo::shop_conninfo(half.schema)};
    demo::create_shop(session.connection(), half.schema, load);
    if (&half == &demo::kGuarded)
        forget_keys(session.connection());

    const auto tally = demo::run_load(load, half, demo::progress_of(half.name, load.requests.size()));
    return {tally, demo::read_ledger(session.connection())};
}

bool prove(const Options &options) {
    const auto load = demo::make_load(options.seed, options.requests);
    require_idem(demo::Session{""}.connection());
    demo::print_load(load, options.seed);
    const auto naive = play(load, demo::kNaive);
    const auto guarded = play(load, demo::kGuarded);
    demo::print_table(load, naive, guarded);
    return demo::print_verdict(naive, guarded);
}

} // namespace

int main(int argc, char **argv) {
    // A connection that is closed on purpose would otherwise end the program.
    std::signal(SIGPIPE, SIG_IGN);
    try {
        const auto options = parse(argc, argv);
        if (!options) {
            std::fputs(kHelp, stdout);
            return 0;
        }
        return prove(*options) ? 0 : 1;
    } catch (const std::invalid_argument &error) {
        std::fprintf(stderr, "idem-demo: %s\n%s", error.what(), kHelp);
        return 2;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "idem-demo: %s\n", error.what());
        return 1;
    }
}
