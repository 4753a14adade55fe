#include <idem/leased.hpp>

#include <algorithm>
#include <atomic>
#include <thread>

#include "access.hpp"
#include "bounded.hpp"
#include "client_state.hpp"
#include "heartbeat.hpp"
#include "key_statements.hpp"
#include "repeat.hpp"
#include "stored_text.hpp"

namespace idem {

namespace detail {

namespace {

using std::chrono::steady_clock;

constexpr statement intend_statement{"idem_step_intend", "SELECT @idem@.idem_step($1, $2::pg_catalog.int8, $3, NULL, $4)",
                                     true};
// The output is returned in jsonb's spelling, so that all attempts see the same text.
constexpr statement step_statement{"idem_step",
                                   "SELECT $4::pg_catalog.jsonb::pg_catalog.text, "
                                   "@idem@.idem_step($1, $2::pg_catalog.int8, $3, $4::pg_catalog.jsonb, $5), "
                                   "$6::pg_catalog.jsonb IS NULL",
                                   true}; // equal output: a no-op
constexpr statement output_statement{
    "idem_step_output", "SELECT (steps OPERATOR(pg_catalog.->) $2)::pg_catalog.text FROM @idem@.idem_lookup($1, $3)", true};
constexpr statement release_statement{"idem_release", "SELECT FROM @idem@.idem_release($1, $2::pg_catalog.int8, $3)", true};
constexpr statement lookup_statement{"idem_lookup_outcome",
                                     "SELECT state, attempt, status_code, response::pg_catalog.text, response_omitted "
                                     "FROM @idem@.idem_lookup($1, $3) WHERE @idem@.idem_is_owner($1, $2, $3)",
                                     true};

// Of a claim that asks for the scope's lease, until idem_renew tells how long that is.
constexpr duration kProvisionalLease{30'000};
// After a connection broke: time for the server to notice it and roll the claim back, or to commit it.
constexpr duration kRecoveryWait{30'000}, kRecoveryStep{50};
// Between two attempts to complete a key, where the server answers at once.
constexpr duration kCompletionPause{100};
// Releasing is optional, as the lease ends anyway: the longest wait for a row lock.
constexpr duration kReleaseTimeout{2'000};

/// Whether the exception that is being handled says that a result cannot be stored, now or later: it is not JSON, or too large.
bool result_is_unstorable() {
    try {
        throw;
    } catch (const bad_input &) {
        return true;
    } catch (const error &problem) {
        return problem.sqlstate() == "54000";
    } catch (...) {
        return false;
    }
}

/// Rethrows it, and says what was done if the result of that cannot be stored.
[[noreturn]] void rethrow_unstored(const std::string &done) {
    if (!result_is_unstorable())
        throw;
    try {
        throw;
    } catch (const error &problem) {
        throw_error(problem.sqlstate(), done + " could not be stored: " + problem.what(), {problem.key(), problem.scope()});
    }
}

} // namespace

/// Shared by the flow and the lease that the work gets.
class lease_state {
  public:
    lease_state(client &db, const request &about, const leased_options &options)
        : client_(db), about_(about), options_(options), retry_(options.retry ? *options.retry : db.options().retry) {}
    ~lease_state() { finish(); }

    std::optional<answer> begin();
    rows run(const command &what);
    rows run(const target &in, const command &what);
    command intend_command(const std::string &name) const;
    command step_command(const std::string &name, const std::string &output) const;
    std::optional<std::string> find_output(const target &in, const std::string &name);
    template <typename Store> std::string store_output(const std::string &name, bool may_be_undone, Store store);
    void complete_in(const target &in, const response &outcome);
    void work_returned() noexcept { work_done_ = true; }
    answer complete(const response &outcome);
    answer failed(const std::exception_ptr &problem);

    bool lost() const noexcept { return lease_ && heartbeat_->is_lost(*lease_); }
    bool is_stale() const noexcept { return lease_ && heartbeat_->is_stale(*lease_); }
    [[noreturn]] void throw_lost(const char *why) const {
        throw lease_lost("ID001", "the lease of key \"" + about_.key() + "\" is lost: " + why, about());
    }
    subject about() const { return {about_.key(), about_.scope()}; }
    std::string what_was_done() const { return "the work of key \"" + about_.key() + "\" was done, but its response"; }

    client client_; // a copy, which keeps the heartbeat alive
    const request about_;
    const leased_options options_;
    const retry_policy retry_;
    heartbeat *heartbeat_ = nullptr;
    std::shared_ptr<renewed_lease> lease_;
    int attempt_ = 1;
    std::optional<std::string> steps_;
    std::atomic<bool> kept_{false};        // a step is in doubt: the key is not released
    std::atomic<int> unstored_outputs_{0}; // of steps that have happened: the same

  private:
    ticket claim(const granted_lease &lease, lease_clock::time_point &sent);
    ticket claim_once(const granted_lease &lease, lease_clock::time_point &sent, const wait_limit &wait);
    lease_term start(const granted_lease &lease, lease_clock::time_point sent);
    std::optional<duration> renew(const granted_lease &lease, lease_clock::time_point &sent);
    void finish() noexcept {
        if (lease_)
            heartbeat_->remove(*lease_);
    }
    parameter fence_text() const { return std::to_string(lease_->grant.fence); }
    std::optional<answer> stored_answer();
    bool release_or_renew(bool keep);
    bool may_retry_completion(const std::exception_ptr &problem, steady_clock::time_point began) const;
    answer new_answer(const response &outcome, const rows &answer) const;

    std::optional<answer> completed_; // by the work, in a transaction of its own
    bool completed_in_transaction_ = false;
    bool work_done_ = false;          // the work has returned, and what it completed in a transaction was not rolled back
    bool completion_unknown_ = false; // whether the response is stored
};

ticket lease_state::claim(const granted_lease &lease, lease_clock::time_point &sent) {
    return wait_for_holder(
        detail::state_of(client_), about_.wait(), [&](const wait_limit &wait) { return claim_once(lease, sent, wait); },
        [](const ticket &claimed) { return claimed.outcome == key_outcome::in_flight; });
}

ticket lease_state::claim_once(const granted_lease &lease, lease_clock::time_point &sent, const wait_limit &limit) {
    const parameter length = interval_text(lease.wanted.value_or(kProvisionalLease));
    const auto began = steady_clock::now();
    std::optional<steady_clock::time_point> lost_at;
    for (;;) {
        ticket claimed = repeat(detail::state_of(client_), retry_, [&](session &on) {
            wait_limit wait = left_of(limit, began);
            if (lost_at && wait.bound)
                wait.bound = std::max(*wait.bound, kRecoveryStep);
            sent = lease_clock::now();
            try {
                return ticket_of(on.run({begin_command(about_, length, lease.owner, wait)}).at(0));
            } catch (const connection_lost &) {
                lost_at = steady_clock::now();
                throw;
            }
        });
        // In flight without a lease: held by an open transaction, which may be that of the broken connection.
        if (!lost_at || claimed.outcome != key_outcome::in_flight || claimed.retry_after ||
            steady_clock::now() >= *lost_at + std::min(kRecoveryWait, retry_.deadline.value_or(kRecoveryWait)))
            return claimed;
    }
}

/// The length that was granted; nothing: the fence is stale.
std::optional<duration> lease_state::renew(const granted_lease &lease, lease_clock::time_point &sent) {
    try {
        return repeat(detail::state_of(client_), retry_, [&](session &on) {
            sent = lease_clock::now();
            return time_granted(on.run({renew_command(lease)}, steady_clock::now() + bounded(lease.length)).at(0), lease);
        });
    } catch (const stale_fence &) {
        return std::nullopt;
    }
}

/// The term in which the work may begin.
lease_term lease_state::start(const granted_lease &lease, lease_clock::time_point sent) {
    const auto claimed = [&](duration length) {
        lease_term term(length);
        term.claim(sent);
        return term;
    };
    const auto throw_expired = [&] {
        lease_ = std::make_shared<renewed_lease>(lease, claimed(lease.length));
        release_or_renew(false); // no work has begun
        throw_lost("it ended before the work began");
    };
    lease_term term = claimed(lease.length);
    lease_term::request next = term.acquired(lease_clock::now());
    // The scope's lease was not asked for, and after a wait the lease may have begun long after the claim was sent.
    const bool waited = !about_.wait().bound || *about_.wait().bound > duration::zero();
    if (!lease.wanted || (waited && next != lease_term::request::work)) {
        const std::optional<duration> length = renew(lease, sent);
        if (!length)
            throw_lost("it was taken over before the work began");
        term = claimed(*length);
        next = term.acquired(lease_clock::now());
    }
    if (next == lease_term::request::renew) {
        const std::optional<duration> length = renew(lease, sent);
        if (!length)
            throw_lost("it was taken over before the work began");
        term.send(sent);
        next = term.renewed(lease_clock::now(), *length);
    }
    if (next != lease_term::request::work)
        throw_expired();
    return term;
}

std::optional<answer> lease_state::begin() {
    granted_lease lease;
    lease.name = about_.key();
    lease.scope = about_.scope();
    lease.owner = make_nonce();
    lease.wanted = about_.lease();
    lease_clock::time_point sent;
    const ticket claimed = claim(lease, sent);
    if (claimed.outcome == key_outcome::completed)
        return answer_of(claimed, true);
    if (!claimed.is_acquired())
        throw_rejection(claimed.outcome, claimed.retry_after, about_);
    lease.fence = claimed.fence.value();
    lease.length = claimed.lease_left.value();
    attempt_ = claimed.attempt;
    steps_ = claimed.steps;
    heartbeat_ = &detail::state_of(client_).shared_heartbeat();
    const lease_term term = start(lease, sent);
    try {
        lease_ = heartbeat_->add(lease, term);
    } catch (...) {
        lease_ = std::make_shared<renewed_lease>(lease, term);
        release_or_renew(false);
        throw;
    }
    return std::nullopt;
}

// Runs a fenced statement in the caller's transaction.
rows lease_state::run(const target &in, const command &what) {
    if (lost())
        throw_lost("it was not renewed in time, or taken over");
    try {
        return call(in, what);
    } catch (const stale_fence &) {
        heartbeat_->mark_lost(*lease_);
        throw_lost("it was taken over");
    }
}

// Runs a fenced statement in a transaction of its own, repeatedly if it has to be.
rows lease_state::run(const command &what) {
    if (lost())
        throw_lost("it was not renewed in time, or taken over");
    try {
        return repeat(detail::state_of(client_), retry_, [&](session &on) { return on.run({what}).at(0); });
    } catch (const stale_fence &) {
        heartbeat_->mark_lost(*lease_);
        throw_lost("it was taken over");
    }
}

command lease_state::intend_command(const std::string &name) const {
    return {&intend_statement, {about_.key(), fence_text(), name, about_.scope()}, about()};
}

command lease_state::step_command(const std::string &name, const std::string &output) const {
    const stored_text result(output);
    return {&step_statement, {about_.key(), fence_text(), name, result.text, about_.scope(), result.check}, about()};
}

/// `may_be_undone`: a step in a transaction has happened when that commits, unless its output can never be stored.
template <typename Store> std::string lease_state::store_output(const std::string &name, bool may_be_undone, Store store) {
    try {
        const rows stored = store();
        --unstored_outputs_;
        return *result_of(stored.at(0).at(0));
    } catch (...) {
        if (may_be_undone && !result_is_unstorable())
            --unstored_outputs_;
        rethrow_unstored("step \"" + name + "\" of key \"" + about_.key() + "\" was done, but its output");
    }
}

/// The output of a step that is done. idem_lookup shows no key whose lease has run out and whose retention is over, although
/// its holder still holds it: it does once the lease is renewed.
std::optional<std::string> lease_state::find_output(const target &in, const std::string &name) {
    const command find{&output_statement, {about_.key(), name, about_.scope()}, about()};
    rows found = run(in, find);
    if (found.empty()) {
        run(in, renew_command(lease_->grant));
        found = run(in, find);
    }
    if (found.empty())
        throw_lost("its retention is over");
    return found[0][0] != "null" ? result_of(found[0][0]) : std::nullopt;
}

answer lease_state::new_answer(const response &outcome, const rows &text) const {
    answer fresh;
    fresh.response = result_of(text.at(0).at(0));
    fresh.status_code = outcome.status_code;
    fresh.response_omitted = text.at(0).at(1) == "f";
    fresh.attempt = attempt_;
    return fresh;
}

void lease_state::complete_in(const target &in, const response &outcome) {
    if (!heartbeat_->begin_completion(*lease_))
        throw_lost("it was not renewed in time, or taken over");
    try {
        const rows text = call(in, complete_command(about_, outcome, fence_text()));
        if (in.in_transaction())
            completed_in_transaction_ = true;
        else
            completed_ = new_answer(outcome, text);
        heartbeat_->end_completion(*lease_, true);
    } catch (const stale_fence &) {
        heartbeat_->end_completion(*lease_, true);
        if (!completed_in_transaction_ && !completed_)
            heartbeat_->mark_lost(*lease_);
        throw_lost("it was taken over, or completed with another response");
    } catch (const connection_lost &) {
        completion_unknown_ = completion_unknown_ || !in.in_transaction();
        heartbeat_->end_completion(*lease_, true);
        throw;
    } catch (...) {
        heartbeat_->end_completion(*lease_, completed_in_transaction_ || completed_ || completion_unknown_);
        kept_ = kept_ || result_is_unstorable();
        rethrow_unstored(what_was_done());
    }
}

/// The stored answer; nothing if this call did not store it.
std::optional<answer> lease_state::stored_answer() {
    rows found;
    try {
        found = repeat(detail::state_of(client_), retry_, [&](session &on) {
            return on.run({{&lookup_statement, {about_.key(), lease_->grant.owner, about_.scope()}, about()}}).at(0);
        });
    } catch (const error &e) {
        throw_if_inconclusive(e, about());
        throw;
    }
    if (found.empty() || found[0][0] != "completed")
        return std::nullopt;
    answer known;
    known.attempt = static_cast<int>(to_integer(found[0][1]));
    if (found[0][2])
        known.status_code = static_cast<int>(to_integer(found[0][2]));
    known.response = result_of(found[0][3]);
    known.response_omitted = found[0][4] == "t";
    return known;
}

// The work is done, so the completion is tried for longer than the policy says.
bool lease_state::may_retry_completion(const std::exception_ptr &problem, steady_clock::time_point began) const {
    if (heartbeat_->is_lost(*lease_) || steady_clock::now() >= began + bounded(retry_.deadline.value_or(lease_->grant.length)))
        return false;
    try {
        std::rethrow_exception(problem);
    } catch (const pool_exhausted &) {
        return true;
    } catch (const error &e) {
        // Somebody has the row for longer than lock_timeout; the statement was canceled; the server is a standby meanwhile.
        const bool passes = e.sqlstate() == "55P03" || e.sqlstate() == "57014" || e.sqlstate() == "25006";
        if (passes)
            std::this_thread::sleep_for(kCompletionPause);
        return passes || judge(problem) != verdict::final;
    } catch (...) {
        return judge(problem) != verdict::final;
    }
}

answer lease_state::complete(const response &outcome) {
    if (completed_) {
        finish();
        return *completed_;
    }
    if (completed_in_transaction_) {
        if (std::optional<answer> known = stored_answer())
            return *std::move(known);
        if (lost())
            throw_lost("it was not renewed in time, or taken over");
        work_done_ = false;
        throw rolled_back("25P02", "the transaction in which key \"" + about_.key() + "\" was completed did not commit",
                          about());
    }
    if (!heartbeat_->begin_completion(*lease_))
        throw_lost("it was not renewed in time, or taken over");
    const command complete = complete_command(about_, outcome, fence_text());
    const auto began = steady_clock::now();
    for (;;) {
        try {
            const rows text = repeat(detail::state_of(client_), retry_, [&](session &on) {
                try {
                    return on.run({complete}).at(0);
                } catch (const connection_lost &) {
                    completion_unknown_ = true;
                    throw;
                }
            });
            finish();
            return new_answer(outcome, text);
        } catch (const stale_fence &) {
            if (completion_unknown_) {
                if (std::optional<answer> known = stored_answer())
                    return *std::move(known);
            }
            heartbeat_->mark_lost(*lease_);
            throw_lost("it was taken over");
        } catch (...) {
            if (may_retry_completion(std::current_exception(), began))
                continue;
            heartbeat_->end_completion(*lease_, completion_unknown_);
            if (!completion_unknown_ && lost() && judge(std::current_exception()) != verdict::final)
                throw_lost("it was not renewed in time, and its completion failed");
            if (!completion_unknown_)
                rethrow_unstored(what_was_done());
            try {
                throw;
            } catch (const error &e) {
                throw_if_inconclusive(e, about());
                throw;
            }
        }
    }
}

/// Releases the key, or renews it (`keep`). Either waits for the transaction that may be completing it. False: the key is no
/// longer in progress with this fence.
bool lease_state::release_or_renew(bool keep) {
    retry_policy policy = retry_;
    policy.attempts = std::min(policy.attempts, 3);
    const command change = keep ? renew_command(lease_->grant)
                                : command{&release_statement, {about_.key(), fence_text(), about_.scope()}, about()};
    const auto deadline = steady_clock::now() + 2 * kReleaseTimeout;
    try {
        repeat(detail::state_of(client_), policy, [&](session &on) {
            on.run({lock_timeout_command(kReleaseTimeout), change}, deadline);
            return true;
        });
    } catch (const stale_fence &) {
        return false;
    } catch (...) {
        // Others may take the key over when its lease ends.
    }
    return true;
}

answer lease_state::failed(const std::exception_ptr &problem) {
    const bool lease_is_stale = is_stale();
    finish();
    if (completed_)
        std::rethrow_exception(problem);
    const bool undecided = judge(problem) == verdict::commit_unknown;
    if (undecided && completed_in_transaction_) {
        // If that transaction committed, the key is completed: otherwise the work failed.
        if (!release_or_renew(lease_is_stale || options_.exception == leased_options::on_exception::keep))
            if (std::optional<answer> known = stored_answer())
                return *std::move(known);
    } else if (!kept_ && unstored_outputs_ == 0 && !lease_is_stale && !completion_unknown_ && !work_done_ &&
               options_.exception == leased_options::on_exception::release) {
        release_or_renew(false);
    }
    std::rethrow_exception(problem);
}

leased_flow::leased_flow(client &db, const request &about, const leased_options &options)
    : state_(std::make_unique<lease_state>(db, about, options)), held_(*state_) {}
leased_flow::~leased_flow() = default;
std::optional<answer> leased_flow::begin() { return state_->begin(); }
void leased_flow::work_returned() noexcept { state_->work_returned(); }
answer leased_flow::complete(const response &outcome) { return state_->complete(outcome); }
answer leased_flow::failed(const std::exception_ptr &problem) { return state_->failed(problem); }

} // namespace detail

const std::string &lease::key() const noexcept { return state_->about_.key(); }
const std::string &lease::scope() const noexcept { return state_->about_.scope(); }
std::int64_t lease::fence() const noexcept { return state_->lease_->grant.fence; }
int lease::attempt() const noexcept { return state_->attempt_; }
const std::optional<std::string> &lease::steps() const noexcept { return state_->steps_; }
stop_token lease::stop() const noexcept { return detail::token_of(state_->lease_->stop); }
bool lease::lost() const noexcept { return state_->lost(); }
duration lease::time_left() const noexcept { return state_->heartbeat_->time_left(*state_->lease_); }
void lease::complete(const target &in, const response &outcome) { state_->complete_in(in, outcome); }

lease::step_before lease::intend(const std::string &name) {
    const bool is_new = state_->run(state_->intend_command(name)).at(0).at(0) == "t";
    if (is_new)
        return {false, std::nullopt};
    return {true, state_->find_output(state_->client_, name)};
}

std::optional<std::string> lease::find_output(const target &in, const std::string &name) {
    return state_->find_output(in, name);
}

std::string lease::store_output(const std::string &name, const std::string &output) {
    return state_->store_output(name, false, [&] { return state_->run(state_->step_command(name, output)); });
}

std::string lease::store_output(const target &in, const std::string &name, const std::string &output) {
    return state_->store_output(name, in.in_transaction(), [&] { return state_->run(in, state_->step_command(name, output)); });
}

void lease::step_happened() noexcept { ++state_->unstored_outputs_; }

void lease::throw_in_doubt(const std::string &name) {
    state_->kept_ = true;
    throw idem::in_doubt("ID005",
                         "step \"" + name + "\" of key \"" + key() + "\" is in doubt: nobody can tell whether it happened",
                         state_->about());
}

void lease::throw_if_lost() const {
    if (lost())
        state_->throw_lost("it was not renewed in time, or taken over");
}

} // namespace idem
