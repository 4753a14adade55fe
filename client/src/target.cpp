#include <idem/target.hpp>

#include "access.hpp"
#include "client_state.hpp"
#include "session.hpp"

namespace idem {

using detail::rows;

namespace detail {

rows call_alone(client &db, const command &command) {
    client_state &state = detail::state_of(db);
    bool sent = false;
    try {
        pooled_session session = state.take();
        state.resolve(*command.what, *session);
        sent = true;
        return std::move(session->run({command}).front());
    } catch (const connection_lost &e) {
        state.drop_idle();
        if (sent && !command.what->repeatable)
            throw outcome_unknown("08007", std::string("the connection was lost before the answer arrived: ") + e.what(),
                                  command.about);
        throw;
    }
}

rows call(const target &at, const command &command) { return access::call(at, command); }

} // namespace detail

rows target::call(const detail::command &command) const {
    if (own_)
        return detail::access::call(*own_, command);
    detail::client_state &state = detail::state_of(*db_);
    if (foreign_) {
        detail::reject_unsendable(command);
        const detail::resolved_statement *known = state.resolved(*command.what);
        const std::string &text = (known ? *known : state.resolve(*command.what, *state.take())).text;
        try {
            rows all;
            for (const auto &each : detail::exec_with(*foreign_, text, command.values)) {
                all.emplace_back();
                for (const auto &field : each)
                    all.back().push_back(field.is_null() ? std::nullopt : std::optional<std::string>(field.c_str()));
            }
            return all;
        } catch (const std::exception &e) {
            // The statement is the library's own, so its errors are idem's too.
            if (const std::string sqlstate = detail::sqlstate_of(e); !sqlstate.empty())
                throw_error(sqlstate, e.what(), command.about);
            throw;
        }
    }
    for (retry_loop loop{db_->options().retry};;) {
        try {
            return detail::call_alone(*db_, command);
        } catch (...) {
            loop.failed(std::current_exception());
        }
    }
}

} // namespace idem
