#include <idem/error.hpp>

#include <string_view>

namespace idem {

error::error(std::string sqlstate, const std::string &message, subject about)
    : std::runtime_error(message), details_(std::make_shared<const details>(details{std::move(sqlstate), std::move(about)})) {}

in_flight::in_flight(std::string sqlstate, const std::string &message, subject about,
                     std::optional<std::chrono::milliseconds> retry_after)
    : error(std::move(sqlstate), message, std::move(about)), retry_after_(retry_after) {}

namespace {

using thrower = void (*)(const std::string &, const std::string &, const subject &);

template <typename Error> void raise(const std::string &sqlstate, const std::string &message, const subject &about) {
    throw Error(sqlstate, message, about);
}

struct entry {
    std::string_view prefix; // of the SQLSTATE
    thrower raise;
};

// The first entry that matches counts: whole codes before classes.
constexpr entry table[] = {
    {"ID001", raise<stale_fence>},
    {"ID002", raise<mismatch>},
    {"ID003", raise<not_allowed>},
    {"ID004", raise<stale_version>},
    {"ID005", raise<in_flight>},
    {"ID006", raise<done_before>},
    {"25P01", raise<bad_input>},
    {"25000", raise<response_unstored>},
    {"40001", raise<transient>},
    {"40P01", raise<transient>},
    {"55P03", raise<busy>},
    {"57014", raise<cancelled>},
    {"25006", raise<read_only>},
    {"25P02", raise<rolled_back>},
    {"42501", raise<denied>},
    {"P0002", raise<not_found>},
    {"3F000", raise<not_installed>},
    {"42883", raise<not_installed>},
    {"42P01", raise<bad_input>},
    {"57P01", raise<connection_lost>},
    {"57P02", raise<connection_lost>},
    {"57P03", raise<connection_lost>},
    {"57P05", raise<connection_lost>},
    {"25P03", raise<connection_lost>},
    {"08007", raise<outcome_unknown>},
    {"08", raise<connection_lost>},
    {"22", raise<bad_input>},
    {"23", raise<bad_input>},
    {"42", raise<bad_input>},
};

} // namespace

void throw_error(const std::string &sqlstate, const std::string &message, subject about) {
    for (const entry &each : table)
        if (sqlstate.compare(0, each.prefix.size(), each.prefix) == 0)
            each.raise(sqlstate, message, about);
    throw error(sqlstate, message, std::move(about));
}

} // namespace idem
