#include <idem/retry.hpp>

#include <algorithm>
#include <cmath>
#include <random>
#include <string_view>
#include <thread>

#include <idem/error.hpp>
#include <idem/pqxx_compat.hpp>

#include "bounded.hpp"

namespace idem {

namespace {

verdict judge_sqlstate(std::string_view sqlstate) {
    if (sqlstate == "40001" || sqlstate == "40P01")
        return verdict::transient;
    if (sqlstate == "57P01" || sqlstate == "57P02" || sqlstate == "57P03" || sqlstate == "57P05" || sqlstate == "25P03" ||
        sqlstate.substr(0, 2) == "08")
        return verdict::connection_lost;
    return verdict::final;
}

} // namespace

verdict judge(const std::exception_ptr &problem, std::string *sqlstate, std::string *message) {
    const auto report = [&](const std::string &state, const char *what) {
        if (sqlstate)
            *sqlstate = state;
        if (message)
            *message = what;
    };
    try {
        std::rethrow_exception(problem);
    } catch (const outcome_unknown &e) {
        report(e.sqlstate(), e.what());
        return verdict::commit_unknown;
    } catch (const connection_lost &e) {
        report(e.sqlstate(), e.what());
        return verdict::connection_lost;
    } catch (const transient &e) {
        report(e.sqlstate(), e.what());
        return verdict::transient;
    } catch (const error &e) {
        report(e.sqlstate(), e.what());
        return verdict::final;
    } catch (const std::exception &e) {
        const std::string state = detail::sqlstate_of(e);
        report(state, e.what());
        return judge_sqlstate(state);
    } catch (...) {
        report("", "an exception that is not derived from std::exception");
        return verdict::final;
    }
}

retry_loop::retry_loop(const retry_policy &policy) : policy_(policy), start_(std::chrono::steady_clock::now()) {
    if (policy.attempts < 1)
        throw bad_input("22023", "attempts must be at least 1");
    if (policy.first_pause.count() < 0 || policy.longest_pause.count() < 0)
        throw bad_input("22023", "pauses must not be negative");
}

std::optional<std::chrono::milliseconds> retry_loop::time_left() const {
    if (!policy_.deadline)
        return std::nullopt;
    const auto spent = std::chrono::steady_clock::now() - start_;
    return std::max(std::chrono::milliseconds::zero(),
                    *policy_.deadline - std::chrono::duration_cast<std::chrono::milliseconds>(spent));
}

void retry_loop::failed(const std::exception_ptr &problem, bool can_verify_commit) {
    std::string sqlstate, message;
    const verdict what = judge(problem, &sqlstate, &message);
    if (what == verdict::final || (what == verdict::commit_unknown && !can_verify_commit))
        std::rethrow_exception(problem);
    pause_or_throw(problem, sqlstate, message);
}

void retry_loop::conflicted(const std::string &sqlstate, const std::string &message, const std::exception_ptr &give_up) {
    pause_or_throw(give_up, sqlstate, message);
}

void retry_loop::pause_or_throw(const std::exception_ptr &give_up, const std::string &sqlstate, const std::string &message) {
    if (attempt_ >= policy_.attempts)
        std::rethrow_exception(give_up);
    // 2^40 times any first pause is beyond every longest one.
    const double longest =
        std::min(static_cast<double>(detail::bounded(policy_.longest_pause).count()),
                 static_cast<double>(policy_.first_pause.count()) * static_cast<double>(1ULL << std::min(attempt_ - 1, 40)));
    std::random_device random;
    const std::chrono::milliseconds pause(std::llround(std::uniform_real_distribution<>(0, longest)(random)));
    if (policy_.deadline && std::chrono::steady_clock::now() + pause > start_ + detail::bounded(*policy_.deadline))
        std::rethrow_exception(give_up);
    if (policy_.on_retry)
        policy_.on_retry({attempt_, sqlstate, message, pause});
    std::this_thread::sleep_for(pause);
    ++attempt_;
}

} // namespace idem
