// The proof, in parts: payments that are asked for twice, the last units of a stock, orders on their way through their
// states, forms that are sent twice, and a nightly job on three hosts. Each is done the usual way and with idem. Exit
// status: 0 the proof holds, 1 it does not or something broke, 2 wrong usage.
#include <array>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "cron/proof.hpp"
#include "forms/proof.hpp"
#include "orders/proof.hpp"
#include "payments/proof.hpp"
#include "session.hpp"
#include "stock/proof.hpp"

namespace {

constexpr const char *kHelp = R"(Usage: idem-demo [--only PART] [--seed N] [--requests N]

Does the same work the usual way and with idem, with many clients at once, and counts what became
of it.

  payments  Payment requests from 16 connections, a third of them duplicates: double clicks,
            retries after a lost reply, retries while the first request is still running, retries
            after a connection died mid-transaction, and keys that are used again with another
            amount. "Look, then insert" against idem_begin and idem_complete.
  stock     More buyers than units, 32 at once. "SELECT, then UPDATE" against conditional_adjust,
            optimistic_update and pessimistic_lock.
  orders    Two workers that both get every event of every order: paid, shipped, cancelled,
            delivered. "SELECT, then UPDATE" against idem_transition; and a stray script that
            updates the table behind its back.
  forms     Order forms with a one-time token, 10,000 handed out and 1,000 sent: some twice at the
            same moment, some again after the card was declined, some expired, altered, or another
            customer's. A table of tokens, in two ways, against idem_token_issue and
            idem_token_redeem.
  cron      A nightly job that three hosts start at once. Some die in the middle, some are paused
            and come back late. A look at last_run against idem_lock and idem_assert_fence.

  --only PART   payments, stock, orders, forms or cron (default: all five)
  --seed N      what the loads are made of (default 1); the same seed makes the same loads
  --requests N  about how many payment requests to send (default 9000, at least 90)
  --help        this text

The database is the one that PGHOST, PGPORT, PGUSER and PGDATABASE say, and the user a superuser.
It needs the extension idem in schema idem. The program drops and creates its schemas (shop_*, stock_*,
orders_*, forms_*, cron_*), defines the machine "demo_order", takes the lock "credit-interest" in
the scope "cron", and deletes what an earlier run left in idem's tables: keys in the scope
"payments", rows of the transition log, and redeemed tokens in the scope "forms".

Exit status 0: idem charged every payment once, lost none, and every replay equals the first
response; it sold every unit once; each order passed each of its states once; each form made the
one order that it ought to, and handing it out wrote nothing; the job ran once a night; and the
usual way got each of these wrong. 1: anything else. 2: wrong usage.
)";

struct Options {
    std::string_view only{};
    std::uint64_t seed = 1;
    std::size_t requests = 9000;
};

struct Part {
    std::string_view name;
    bool (*prove)(const Options &options);
};

constexpr std::array<Part, 5> kParts{{
    {"payments", [](const Options &options) { return demo::payments::prove(options.seed, options.requests); }},
    {"stock", [](const Options &options) { return demo::stock::prove(options.seed); }},
    {"orders", [](const Options &options) { return demo::orders::prove(options.seed); }},
    {"forms", [](const Options &options) { return demo::forms::prove(options.seed); }},
    {"cron", [](const Options &options) { return demo::cron::prove(options.seed); }},
}};

std::uint64_t number(std::string_view option, const char *text) {
    char *end = nullptr;
    const auto value = text ? std::strtoull(text, &end, 10) : 0;
    if (!text || end == text || *end != '\0' || *text == '-')
        throw std::invalid_argument{std::string{option} + " needs a number"};
    return value;
}

std::string_view name_of_part(const char *text) {
    for (const Part &part : kParts)
        if (text && part.name == text)
            return part.name;
    throw std::invalid_argument{"--only needs payments, stock, orders, forms or cron"};
}

// Nothing: --help was asked for. Throws std::invalid_argument.
std::optional<Options> parse(int argc, char **argv) {
    Options options;
    for (int i = 1; i < argc; ++i) {
        const std::string_view option = argv[i];
        if (option == "--help")
            return std::nullopt;
        // argv ends with a null pointer, so the value of a last option is one.
        if (option == "--only")
            options.only = name_of_part(argv[++i]);
        else if (option == "--seed")
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

// Better said before the first part has run than after it.
void require_idem(pqxx::connection &connection) {
    pqxx::read_transaction transaction{connection};
    if (transaction.exec("SELECT FROM pg_proc WHERE oid = to_regprocedure('idem.idem_version()')").empty())
        throw std::runtime_error{"neither the extension nor the portable edition is in schema idem of database \"" +
                                 std::string{connection.dbname()} +
                                 "\"; run CREATE SCHEMA idem; CREATE EXTENSION idem SCHEMA idem"};
}

// All of them, also after one that failed.
bool prove(const Options &options) {
    require_idem(demo::Session{""}.connection());
    bool proved = true;
    const char *blank_line = "";
    for (const Part &part : kParts) {
        if (!options.only.empty() && options.only != part.name)
            continue;
        std::fputs(blank_line, stdout);
        proved &= part.prove(options);
        blank_line = "\n";
    }
    return proved;
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
