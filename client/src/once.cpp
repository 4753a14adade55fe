#include <idem/once.hpp>

#include <algorithm>
#include <thread>

#include "access.hpp"
#include "bounded.hpp"
#include "client_state.hpp"
#include "key_statements.hpp"
#include "session.hpp"
#include "stored_text.hpp"

namespace idem {

namespace detail {

namespace {

constexpr statement owner_statement{"idem_is_owner", "SELECT @idem@.idem_is_owner($1, $2, $3)", true};

} // namespace

once_flow::once_flow(client &db, const request &about, const once_options &options)
    : request_(about), flow_(db, options), owner_(make_nonce()) {}

std::optional<once_result> once_flow::try_begin() {
    const ticket claimed = ticket_of(flow_.begin(begin_command(request_, std::nullopt, owner_, flow_.wait(request_.wait()))));
    if (claimed.is_acquired()) {
        claimed_ = claimed.outcome;
        attempt_ = claimed.attempt;
        flow_.earlier_attempts_rolled_back();
        return std::nullopt;
    }
    if (claimed.outcome == key_outcome::completed) {
        bool own = false;
        if (flow_.commit_unknown())
            own = call(tx(), {&owner_statement, {request_.key(), owner_, request_.scope()}}).at(0).at(0) == "t";
        flow_.cancel();
        return once_result{own ? claimed_ : key_outcome::completed, answer_of(claimed, !own)};
    }
    if (claimed.outcome == key_outcome::in_doubt)
        try {
            flow_.commit(); // the call that reports in_doubt also records it
        } catch (const outcome_unknown &) {
            // The key is in doubt all the same. If that was not recorded, the next caller records it.
        }
    if (flow_.commit_unknown() && claimed.outcome == key_outcome::in_flight)
        throw_rejection(claimed.outcome, claimed.retry_after, request_); // failed() makes it outcome_unknown
    flow_.cancel();
    return once_result{claimed.outcome, std::nullopt, claimed.retry_after};
}

std::optional<answer> once_flow::begin() {
    std::optional<once_result> known = try_begin();
    if (!known)
        return std::nullopt;
    if (!known->answer)
        throw_rejection(known->outcome, known->retry_after, request_);
    return std::move(known->answer);
}

answer once_flow::complete(const response &outcome) {
    const std::vector<rows> stored = flow_.commit({complete_command(request_, outcome, std::nullopt)});
    answer known;
    known.response = result_of(stored.at(0).at(0).at(0));
    known.status_code = outcome.status_code;
    known.response_omitted = stored.at(0).at(0).at(1) == "f";
    known.attempt = attempt_;
    return known;
}

} // namespace detail

namespace {

constexpr std::chrono::milliseconds kPollInterval{20};

} // namespace

answer once_statement(client &db, const request &about, const std::string &statement,
                      const std::vector<std::optional<std::string>> &args, const once_options &options) {
    const detail::command command = detail::execute_command(about, statement, args);
    const retry_policy retry = options.retry ? *options.retry : db.options().retry;
    std::optional<duration> wait = about.wait().bound;
    auto since = std::chrono::steady_clock::now();
    bool sent = false, unknown = false;
    const auto failed = [&](retry_loop &loop) {
        try {
            loop.failed(std::current_exception());
        } catch (const error &e) {
            if (unknown)
                detail::throw_if_inconclusive(e, command.about);
            throw;
        }
    };
    for (retry_loop loop{retry};;) {
        try {
            sent = false;
            detail::pooled_session session = detail::state_of(db).take();
            detail::state_of(db).resolve(*command.what, *session);
            sent = true;
            for (;;) {
                const detail::ticket executed = detail::ticket_of(session->run({command}).at(0));
                const bool replayed = executed.outcome == key_outcome::completed;
                if (executed.is_acquired() || replayed)
                    return detail::answer_of(executed, replayed);
                // idem_execute does not wait by itself.
                if (executed.outcome != key_outcome::in_flight ||
                    (wait && std::chrono::steady_clock::now() - since >= detail::bounded(*wait)))
                    detail::throw_rejection(executed.outcome, executed.retry_after, about);
                std::this_thread::sleep_for(kPollInterval);
            }
        } catch (const connection_lost &) {
            detail::state_of(db).drop_idle();
            // The backend of the lost connection may still run the statement.
            since = std::chrono::steady_clock::now();
            if (wait)
                wait = std::max(*wait, options.recovery_wait);
            unknown = unknown || sent;
            failed(loop);
        } catch (...) {
            failed(loop);
        }
    }
}

} // namespace idem
