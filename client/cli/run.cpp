// idem run
#include <unistd.h>

#include <idem/leased.hpp>

#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "exit_code.hpp"
#include "holding.hpp"
#include "outcome.hpp"
#include "replay.hpp"
#include "table.hpp"

namespace idem::cli {

namespace {

/// The command failed, and its key is to be released.
struct command_failed {
    child_end end;
};

std::string quoted_key(const settings &given) {
    return "key \"" + given.key + "\"" + (given.scope.empty() ? "" : " in scope \"" + given.scope + "\"");
}

/// The fingerprint of the key: the command's words.
std::string command_json(const std::vector<std::string> &command) {
    nlohmann::json words = nlohmann::json::array();
    for (const std::string &word : command)
        if (is_storable_text(word))
            words.push_back(word);
        else
            words.push_back({{"base64", base64_encode(word)}});
    return nlohmann::json{{"command", words}}.dump();
}

request make_request(const settings &given) {
    request about(given.key);
    about.in(given.scope);
    if (!given.any_command)
        about.of_json(command_json(given.command));
    if (given.ttl)
        about.ttl(*given.ttl);
    if (given.lease)
        about.lease(*given.lease);
    return about;
}

/// The command has run, but a later call with this key will not know. Not repeated: the command would run again.
[[noreturn]] void throw_not_recorded(const child_end &ran, const error &problem) {
    const std::string end = "exit code " + std::to_string(ran.exit_code());
    if (dynamic_cast<const lease_lost *>(&problem))
        throw exit_error(kLeaseLost, std::string("the lease was lost: ") + problem.what() + "; the command " + fate_of(ran) +
                                         " (" + end + "), and that is not recorded");
    throw exit_error(dynamic_cast<const stale_fence *>(&problem) ? kLeaseLost : kUnknown,
                     "the command ended with " + end + ", but that could not be recorded: " + problem.what());
}

} // namespace

int run_once(context &c) {
    const settings &given = c.given;
    signal_queue signals; // before the client's threads start
    c.db.schema();        // fails at once if there is no connection

    child_options options;
    options.command = given.command;
    options.capture = given.store_output;
    options.max_captured = given.max_output;
    options.grace = given.grace;

    std::optional<child_end> ran;
    const auto work = [&](lease &held) -> response {
        options.environment = {{"IDEM_KEY", given.key},
                               {"IDEM_SCOPE", given.scope},
                               {"IDEM_FENCE", std::to_string(held.fence())},
                               {"IDEM_ATTEMPT", std::to_string(held.attempt())}};
        if (!given.dsn.empty()) // for `idem step`
            options.environment.emplace_back("IDEM_DSN", given.dsn);
        ran = run_while_held(options, signals, held.stop());
        held.throw_if_lost();
        if (given.store_output)
            warn_of_limits(*ran, given);
        if (!ran->succeeded() && !given.complete_failures)
            throw command_failed{*ran};
        return to_response(*ran, given.store_output);
    };
    request about = make_request(given);
    leased_options terms;
    terms.retry = minute_of_retries(signals, [&ran] { return ran.has_value(); });
    try {
        const answer result = wait_in_slices(given.wait, signals, [&](const wait_limit &slice) {
            about.wait(slice);
            try {
                return leased(c.db, about, terms, work);
            } catch (const error &problem) {
                if (ran)
                    throw_not_recorded(*ran, problem);
                throw;
            }
        });
        if (!ran)
            return replay(result, quoted_key(given), given);
        throw_if_not_passed_on(*ran);
        return ran->exit_code();
    } catch (const command_failed &failure) {
        return failure.end.exit_code();
    } catch (const interrupted &by) {
        return kSignal + by.signal;
    } catch (const lease_lost &problem) {
        throw exit_error(kLeaseLost, std::string("the lease was lost: ") + problem.what());
    }
}

} // namespace idem::cli
