// A small shop with nine checkouts that differ in nothing but what keeps an order from being made twice. README.md describes
// them; scripts/checkout.sh starts it all.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "cashier.hpp"
#include "process.hpp"
#include "web.hpp"

namespace {

constexpr const char *kHelp = R"(Usage: idem-checkout --gateway URL --pages DIRECTORY [--port N] [--hold SECONDS] [--test]

Serves the shop at 127.0.0.1 and prints "ready URL".

  --gateway URL      what idem-checkout-gateway printed
  --pages DIRECTORY  examples/checkout/pages
  --port N           0: any that is free (default)
  --hold SECONDS     how long the stock is kept for an order that is not paid (default 30)
  --test             allow what only tests may do: POST /api/reset, and the gateway's knobs in forms

The database is the one that PGHOST, PGPORT, PGUSER and PGDATABASE say; it needs the extension idem, and shop.sql.
)";

struct Options {
    checkout::Settings settings;
    int port = 0;
};

int number(std::string_view option, const char *text) {
    if (!text || !checkout::is_number(text) || std::string_view{text}.size() > 6)
        throw std::invalid_argument{std::string{option} + " needs a number"};
    return std::atoi(text);
}

std::string text(std::string_view option, const char *value) {
    if (!value)
        throw std::invalid_argument{std::string{option} + " needs a value"};
    return value;
}

// Nothing: --help was asked for. Throws std::invalid_argument.
std::optional<Options> parse(int argc, char **argv) {
    Options options;
    for (int i = 1; i < argc; ++i) {
        const std::string_view option = argv[i];
        if (option == "--help")
            return std::nullopt;
        if (option == "--test")
            options.settings.test = true;
        // argv ends with a null pointer, so the value of a last option is one.
        else if (option == "--gateway")
            options.settings.gateway = text(option, argv[++i]);
        else if (option == "--pages")
            options.settings.pages = text(option, argv[++i]);
        else if (option == "--port")
            options.port = number(option, argv[++i]);
        else if (option == "--hold")
            options.settings.hold = std::chrono::seconds{number(option, argv[++i])};
        else
            throw std::invalid_argument{"unknown option " + std::string{option}};
    }
    if (options.settings.gateway.empty() || options.settings.pages.empty())
        throw std::invalid_argument{"--gateway and --pages are needed"};
    return options;
}

int run(Options options) {
    httplib::Server server;
    const checkout::OnEnd on_end{[&server] { server.stop(); }};
    // A thread per open connection, and browsers keep half a dozen.
    server.new_task_queue = [] { return new httplib::ThreadPool{64}; };
    server.set_keep_alive_timeout(2);

    const int port = options.port == 0                                ? server.bind_to_any_port("127.0.0.1")
                     : server.bind_to_port("127.0.0.1", options.port) ? options.port
                                                                      : -1;
    if (port < 0)
        throw std::runtime_error{"could not listen at port " + std::to_string(options.port)};
    options.settings.url = "http://127.0.0.1:" + std::to_string(port);

    idem::client_options database;
    database.dsn = "application_name=checkout";
    database.max_connections = 32;
    checkout::Shop shop{options.settings, idem::client{database}};
    const checkout::Pages pages{options.settings.pages};
    checkout::reset(shop, 20);
    checkout::serve(server, shop, pages);
    checkout::Cashier cashier{shop};

    std::printf("ready %s\n", options.settings.url.c_str());
    std::fflush(stdout);
    return server.listen_after_bind() ? 0 : 1;
}

} // namespace

int main(int argc, char **argv) {
    try {
        const auto options = parse(argc, argv);
        if (!options) {
            std::fputs(kHelp, stdout);
            return 0;
        }
        return run(*options);
    } catch (const std::invalid_argument &error) {
        std::fprintf(stderr, "idem-checkout: %s\n%s", error.what(), kHelp);
        return 2;
    } catch (const std::exception &error) {
        std::fprintf(stderr, "idem-checkout: %s\n", error.what());
        return 1;
    }
}
