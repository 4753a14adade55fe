// idem step
#include <cstdlib>

#include <idem/target.hpp>

#include <nlohmann/json.hpp>

#include "commands.hpp"
#include "exit_code.hpp"
#include "holding.hpp"
#include "outcome.hpp"
#include "queries.hpp"
#include "replay.hpp"

namespace idem::cli {

namespace {

constexpr detail::statement intend_statement{"idem_cli_step_intend",
                                             "SELECT @idem@.idem_step($1, $2::pg_catalog.int8, $3, NULL, $4)", true};
// The step's output in an array, which holds null for a step that is intended; no row for a key that idem_lookup does not show.
constexpr detail::statement output_statement{
    "idem_cli_step_output",
    "SELECT pg_catalog.jsonb_build_array(steps OPERATOR(pg_catalog.->) $2)::pg_catalog.text FROM @idem@.idem_lookup($1, $3)",
    true};
constexpr detail::statement renew_statement{"idem_cli_step_renew",
                                            "SELECT @idem@.idem_renew($1, $2::pg_catalog.int8, NULL, $3)", true};
constexpr detail::statement store_statement{
    "idem_cli_step", "SELECT @idem@.idem_step($1, $2::pg_catalog.int8, $3, $4::pg_catalog.jsonb, $5)", true};

/// The run within which the step is taken, as `idem run` tells its command.
struct surrounding_run {
    std::string key, scope, fence;
};

std::string variable(const char *name) {
    const char *value = std::getenv(name);
    if (value == nullptr)
        throw usage_error(std::string(name) + " is not set: a step is a part of the command of \"idem run\"");
    return value;
}

class step {
  public:
    explicit step(context &c)
        : c_(c), of_{variable("IDEM_KEY"), variable("IDEM_SCOPE"), variable("IDEM_FENCE")},
          what_("step \"" + c.given.key + "\" of key \"" + of_.key + "\"") {}

    /// Stores that the step is intended. Returns its output if it is done; `intended_earlier`: it may have been taken.
    std::optional<answer> intend(bool &intended_earlier) {
        intended_earlier = call(intend_statement, {of_.key, of_.fence, c_.given.key, of_.scope}).at(0) != "t";
        if (!intended_earlier)
            return std::nullopt;
        const nlohmann::json output = find_output();
        if (output.is_null())
            return std::nullopt;
        answer known;
        known.response = output.dump();
        known.status_code = output.is_object() ? output.value("exit_code", -1) : -1;
        return known;
    }

    void store(const child_end &end) {
        warn_of_limits(end, c_.given);
        try {
            store(to_response(end, true));
        } catch (const error &problem) {
            if (problem.sqlstate() != "54000")
                throw;
            if (!c_.given.quiet)
                complain("the output of " + what_ + " is not stored: it is over the scope's limit for responses");
            store(to_response(end, false));
        }
    }

    child_end run(const std::vector<std::string> &command, signal_queue &signals) const {
        child_options options;
        options.command = command;
        options.capture = true;
        options.max_captured = c_.given.max_output;
        options.grace = c_.given.grace;
        return run_while_held(options, signals, stop_token());
    }

    const std::string &what() const noexcept { return what_; }

  private:
    std::vector<std::string> call(const detail::statement &what, detail::parameters values) {
        return query(c_, what, std::move(values), {of_.key, of_.scope});
    }
    /// Null for a step that is intended. idem_lookup shows no key whose lease has run out and whose retention is over, although
    /// its run still holds it: it does once the lease is renewed.
    nlohmann::json find_output() {
        std::vector<std::string> found = call(output_statement, {of_.key, c_.given.key, of_.scope});
        if (found.empty()) {
            call(renew_statement, {of_.key, of_.fence, of_.scope});
            found = call(output_statement, {of_.key, c_.given.key, of_.scope});
        }
        if (found.empty())
            throw exit_error(kLeaseLost, "the retention of key \"" + of_.key + "\" is over");
        return nlohmann::json::parse(found[0]).at(0);
    }
    void store(const response &output) { call(store_statement, {of_.key, of_.fence, c_.given.key, output.json, of_.scope}); }

    context &c_;
    const surrounding_run of_;
    const std::string what_;
};

int take(context &c, signal_queue &signals) {
    step taken(c);
    bool intended_earlier = false;
    if (const std::optional<answer> known = taken.intend(intended_earlier))
        return replay(*known, taken.what(), c.given);
    std::vector<std::string> command = c.given.command;
    if (intended_earlier && c.given.reconcile) {
        const child_end found = taken.run({"/bin/sh", "-c", *c.given.reconcile}, signals);
        if (found.succeeded()) {
            taken.store(found);
            throw_if_not_passed_on(found);
            return kDone;
        }
        if (found.what != child_end::how::exited || found.value != 1)
            throw exit_error(kInDoubt, taken.what() + " is in doubt: --reconcile ended with exit code " +
                                           std::to_string(found.exit_code()));
    }
    const child_end ran = taken.run(command, signals);
    if (!ran.succeeded())
        return ran.exit_code();
    try {
        taken.store(ran);
    } catch (const error &problem) {
        throw exit_error(dynamic_cast<const stale_fence *>(&problem) ? kLeaseLost : kUnknown,
                         taken.what() + " was taken, but that could not be recorded: " + problem.what());
    }
    throw_if_not_passed_on(ran);
    return kDone;
}

} // namespace

int take_step(context &c) {
    signal_queue signals; // before the client's threads start
    try {
        return take(c, signals);
    } catch (const interrupted &by) {
        return kSignal + by.signal;
    }
}

} // namespace idem::cli
