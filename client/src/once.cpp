#include <idem/once.hpp>

#include <algorithm>
#include <thread>

#include "bounded.hpp"
#include "client_state.hpp"
#include "key_statements.hpp"
#include "session.hpp"

namespace idem {

namespace detail {

namespace {

constexpr statement lookup_statement{"idem_lookup_own", "SELECT is_owner FROM @idem@.idem_lookup($1, $2, $3)", true};

} // namespace

once_flow::once_flow(client &db, const request &about, const once_options &options)
    : request_(about), flow_(db, options), owner_(make_nonce()) {}

std::optional<answer> once_flow::begin() {
    const row ticket = flow_.begin(begin_command(request_, std::nullopt, owner_, flow_.wait(request_.wait()))).at(0);
    const std::string &what = *ticket[outcome];
    if (what == "acquired" || what == "taken_over") {
        attempt_ = static_cast<int>(to_integer(ticket[attempt]));
        flow_.settled(); // so no attempt before this one committed
        return std::nullopt;
    }
    if (what == "completed") {
        bool own = false;
        if (flow_.unknown()) {
            const rows known = tx().call({&lookup_statement, {request_.key(), owner_, request_.scope()}});
            own = !known.empty() && known[0][0] == "t";
        }
        flow_.cancel();
        return answer_of(ticket, !own);
    }
    if (what == "in_doubt")
        try {
            flow_.commit(); // it is written down by whoever is told of it
        } catch (const outcome_unknown &) {
            // As true as before; the next to ask will write it down.
        }
    refuse(ticket, request_);
}

answer once_flow::complete(response outcome) {
    const std::vector<rows> stored = flow_.commit({complete_command(request_, outcome, std::nullopt)});
    answer fresh;
    fresh.json = stored.at(0).at(0).at(0);
    fresh.status_code = outcome.status_code;
    fresh.attempt = attempt_;
    return fresh;
}

} // namespace detail

namespace {

constexpr std::chrono::milliseconds kAskAgain{20};

} // namespace

answer once_statement(client &db, const request &about, const std::string &statement,
                      const std::vector<std::optional<std::string>> &arguments, const once_options &options) {
    const detail::command command = detail::execute_command(about, statement, arguments);
    const retry_policy retry = options.retry ? *options.retry : db.options().retry;
    std::optional<duration> wait = about.wait().bound;
    auto since = std::chrono::steady_clock::now();
    bool sent = false, unknown = false;
    const auto failed = [&](retry_loop &loop) {
        try {
            loop.failed(std::current_exception());
        } catch (const error &e) {
            if (unknown)
                detail::throw_unless_it_tells(e, command.about);
            throw;
        }
    };
    for (retry_loop loop{retry};;) {
        try {
            sent = false;
            detail::session_lease session = db.state().take();
            db.state().resolve(*command.what, *session);
            sent = true;
            for (;;) {
                const detail::row ticket = session->run({command}).at(0).at(0);
                const std::string &what = *ticket[detail::outcome];
                if (what == "acquired" || what == "taken_over" || what == "completed")
                    return detail::answer_of(ticket, what == "completed");
                // idem_execute never waits.
                if (what != "in_flight" || (wait && std::chrono::steady_clock::now() - since >= detail::bounded(*wait)))
                    detail::refuse(ticket, about);
                std::this_thread::sleep_for(kAskAgain);
            }
        } catch (const connection_lost &) {
            db.state().drop_idle();
            // The first run may still be under way in its backend.
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
