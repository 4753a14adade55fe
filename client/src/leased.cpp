#include <idem/leased.hpp>

#include <algorithm>

#include "bounded.hpp"
#include "client_state.hpp"
#include "heartbeat.hpp"
#include "key_statements.hpp"
#include "repeat.hpp"

namespace idem {

namespace detail {

namespace {

using std::chrono::steady_clock;

constexpr statement checkpoint_statement{"idem_checkpoint",
                                         "SELECT FROM @idem@.idem_checkpoint($1, $2, $3::pg_catalog.int8, $4)", true};
constexpr statement release_statement{"idem_release", "SELECT FROM @idem@.idem_release($1, $2::pg_catalog.int8, $3)", true};
constexpr statement lookup_statement{"idem_lookup_outcome",
                                     "SELECT state, attempt, status_code, response::pg_catalog.text, response_omitted "
                                     "FROM @idem@.idem_lookup($1, $2, $3) WHERE is_owner",
                                     true};

// When the scope's lease is wanted: until it is known.
constexpr duration kFirstLease{30'000};
// After a connection broke: for the server to notice it and give the claim back, or to commit it.
constexpr duration kRecovery{30'000}, kRecoveryStep{50};
// A key is let go as a courtesy: not for longer than this.
constexpr duration kLongestRelease{2'000};

bool granted(const row &ticket) { return ticket[outcome] == "acquired" || ticket[outcome] == "taken_over"; }

} // namespace

/// What the flow and the lease share.
class lease_state {
  public:
    lease_state(client &db, const request &about, const leased_options &options)
        : client_(db), about_(about), options_(options), retry_(options.retry ? *options.retry : db.options().retry) {}
    ~lease_state() { finish(); }

    std::optional<answer> begin();
    void checkpoint(const target &in, const std::string &point);
    void complete_in(const target &in, const response &outcome);
    answer complete(const response &outcome);
    answer failed(const std::exception_ptr &problem);

    bool lost() const noexcept { return beat_ && heart_->lost(*beat_); }
    [[noreturn]] void throw_lost(const char *why) const {
        throw lease_lost("ID001", "the lease of key \"" + about_.key() + "\" is lost: " + why, about());
    }
    subject about() const { return {about_.key(), about_.scope()}; }

    client client_; // a copy: the heart lives as long as this
    const request about_;
    const leased_options options_;
    const retry_policy retry_;
    heart *heart_ = nullptr;
    std::shared_ptr<beat> beat_;
    int attempt_ = 1;
    std::optional<std::string> recovery_point_;

  private:
    row claim(holding &of);
    bool refresh(holding &of);
    void finish() noexcept {
        if (beat_)
            heart_->finish(*beat_);
    }
    parameter fence_text() const { return std::to_string(beat_->held.fence); }
    std::optional<answer> own_answer();
    bool let_go(bool keep);
    bool worth_trying(const std::exception_ptr &problem, steady_clock::time_point began) const;
    answer stored(const response &outcome, const rows &answer) const;

    std::optional<answer> completed_; // by the work, in a transaction of its own
    bool completed_in_transaction_ = false;
    bool done_ = false;    // the work has returned
    bool unknown_ = false; // whether the response is stored
};

row lease_state::claim(holding &of) {
    const parameter lease = interval_text(about_.lease() ? *about_.lease() : kFirstLease);
    const auto began = steady_clock::now();
    std::optional<steady_clock::time_point> lost_at;
    for (;;) {
        const row ticket = repeat(client_.state(), retry_, [&](session &on) {
            patience wait = left_of(about_.wait(), began);
            if (lost_at && wait.bound)
                wait.bound = std::max(*wait.bound, kRecoveryStep);
            of.granted_at = lease_clock::now();
            try {
                return on.run({begin_command(about_, lease, of.owner, wait)}).at(0).at(0);
            } catch (const connection_lost &) {
                lost_at = steady_clock::now();
                throw;
            }
        });
        // In flight without a lease: a transaction has not ended, and it may be the one whose connection broke.
        if (!lost_at || ticket[outcome] != "in_flight" || ticket[retry_after_ms] ||
            steady_clock::now() >= *lost_at + std::min(kRecovery, retry_.deadline.value_or(kRecovery)))
            return ticket;
    }
}

bool lease_state::refresh(holding &of) {
    try {
        return repeat(client_.state(), retry_, [&](session &on) {
            const auto sent = lease_clock::now();
            const std::optional<duration> left = renewed(on.run({renew_command(of)}).at(0), of);
            if (!left)
                return false;
            of.granted_at = sent;
            of.granted = *left;
            return true;
        });
    } catch (const stale_fence &) {
        return false;
    }
}

std::optional<answer> lease_state::begin() {
    holding of;
    of.name = about_.key();
    of.scope = about_.scope();
    of.owner = make_nonce();
    of.lease = about_.lease();
    const row ticket = claim(of);
    if (!granted(ticket)) {
        if (ticket[outcome] == "completed")
            return answer_of(ticket, true);
        refuse(ticket, about_);
    }
    of.fence = to_integer(ticket[fence]);
    of.granted = duration(to_integer(ticket[lease_ms]));
    attempt_ = static_cast<int>(to_integer(ticket[detail::attempt]));
    recovery_point_ = ticket[recovery_point];
    // The claim may have waited for another holder, and its lease have begun long after it was sent.
    if ((!of.lease || of.granted_at + of.granted / 3 < lease_clock::now()) && !refresh(of))
        throw_lost("it was taken over before the work began");
    heart_ = &client_.state().heartbeat();
    try {
        beat_ = heart_->start(of);
    } catch (...) {
        beat_ = std::make_shared<beat>(of);
        let_go(false);
        throw;
    }
    return std::nullopt;
}

void lease_state::checkpoint(const target &in, const std::string &point) {
    if (lost())
        throw_lost("it was not renewed in time, or taken over");
    try {
        in.call({&checkpoint_statement, {about_.key(), point, fence_text(), about_.scope()}, about()});
    } catch (const stale_fence &) {
        heart_->lose(*beat_);
        throw_lost("it was taken over");
    }
}

answer lease_state::stored(const response &outcome, const rows &text) const {
    answer fresh;
    fresh.json = text.at(0).at(0);
    fresh.status_code = outcome.status_code;
    fresh.attempt = attempt_;
    return fresh;
}

void lease_state::complete_in(const target &in, const response &outcome) {
    if (!heart_->begin_completion(*beat_))
        throw_lost("it was not renewed in time, or taken over");
    try {
        const rows text = in.call(complete_command(about_, outcome, fence_text()));
        if (in.in_transaction())
            completed_in_transaction_ = true;
        else
            completed_ = stored(outcome, text);
        heart_->end_completion(*beat_, true);
    } catch (const stale_fence &) {
        heart_->end_completion(*beat_, true);
        if (!completed_in_transaction_ && !completed_)
            heart_->lose(*beat_);
        throw_lost("it was taken over, or completed with another response");
    } catch (const connection_lost &) {
        unknown_ = unknown_ || !in.in_transaction();
        heart_->end_completion(*beat_, true);
        throw;
    } catch (...) {
        heart_->end_completion(*beat_, completed_in_transaction_ || completed_ || unknown_);
        throw;
    }
}

/// What is stored, if this call stored it.
std::optional<answer> lease_state::own_answer() {
    rows found;
    try {
        found = repeat(client_.state(), retry_, [&](session &on) {
            return on.run({{&lookup_statement, {about_.key(), beat_->held.owner, about_.scope()}, about()}}).at(0);
        });
    } catch (const error &e) {
        throw_unless_it_tells(e, about());
        throw;
    }
    if (found.empty() || found[0][0] != "completed")
        return std::nullopt;
    answer known;
    known.attempt = static_cast<int>(to_integer(found[0][1]));
    if (found[0][2])
        known.status_code = static_cast<int>(to_integer(found[0][2]));
    known.json = found[0][3];
    known.omitted = found[0][4] == "t";
    return known;
}

// Work that is done is worth more patience than the policy may have.
bool lease_state::worth_trying(const std::exception_ptr &problem, steady_clock::time_point began) const {
    if (steady_clock::now() >= began + bounded(retry_.deadline.value_or(beat_->held.granted)))
        return false;
    try {
        std::rethrow_exception(problem);
    } catch (const pool_exhausted &) {
        return true;
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
        if (std::optional<answer> known = own_answer())
            return *std::move(known);
        if (lost())
            throw_lost("it was not renewed in time, or taken over");
        throw rolled_back("25P02", "the transaction in which key \"" + about_.key() + "\" was completed did not commit",
                          about());
    }
    done_ = true;
    if (!heart_->begin_completion(*beat_))
        throw_lost("it was not renewed in time, or taken over");
    const command complete = complete_command(about_, outcome, fence_text());
    const auto began = steady_clock::now();
    for (;;) {
        try {
            const rows text = repeat(client_.state(), retry_, [&](session &on) {
                try {
                    return on.run({complete}).at(0);
                } catch (const connection_lost &) {
                    unknown_ = true;
                    throw;
                }
            });
            finish();
            return stored(outcome, text);
        } catch (const stale_fence &) {
            if (unknown_) {
                if (std::optional<answer> known = own_answer())
                    return *std::move(known);
            }
            heart_->lose(*beat_);
            throw_lost("it was taken over");
        } catch (...) {
            if (worth_trying(std::current_exception(), began))
                continue;
            heart_->end_completion(*beat_, unknown_);
            if (!unknown_)
                throw;
            try {
                throw;
            } catch (const error &e) {
                throw_unless_it_tells(e, about());
                throw;
            }
        }
    }
}

/// Gives the key back, or makes sure that it is still held; either waits for the transaction that may be completing it. False:
/// it is no longer in progress with this fence.
bool lease_state::let_go(bool keep) {
    retry_policy policy = retry_;
    policy.attempts = std::min(policy.attempts, 3);
    const command change =
        keep ? renew_command(beat_->held) : command{&release_statement, {about_.key(), fence_text(), about_.scope()}, about()};
    const auto deadline = steady_clock::now() + 2 * kLongestRelease;
    try {
        repeat(client_.state(), policy, [&](session &on) {
            on.run({lock_timeout_command(kLongestRelease), change}, deadline);
            return true;
        });
    } catch (const stale_fence &) {
        return false;
    } catch (...) {
        // The lease ends by itself.
    }
    return true;
}

answer lease_state::failed(const std::exception_ptr &problem) {
    const bool lease_is_lost = lost();
    finish();
    if (completed_)
        std::rethrow_exception(problem);
    const bool undecided = judge(problem) == verdict::commit_unknown;
    if (undecided && completed_in_transaction_) {
        // Whether that transaction committed decides.
        if (!let_go(lease_is_lost || options_.exception == leased_options::on_exception::keep))
            if (std::optional<answer> known = own_answer())
                return *std::move(known);
    } else if (!lease_is_lost && !unknown_ && !done_ && options_.exception == leased_options::on_exception::release) {
        let_go(false);
    }
    std::rethrow_exception(problem);
}

leased_flow::leased_flow(client &db, const request &about, const leased_options &options)
    : state_(std::make_unique<lease_state>(db, about, options)), held_(*state_) {}
leased_flow::~leased_flow() = default;
std::optional<answer> leased_flow::begin() { return state_->begin(); }
answer leased_flow::complete(const response &outcome) { return state_->complete(outcome); }
answer leased_flow::failed(const std::exception_ptr &problem) { return state_->failed(problem); }

} // namespace detail

const std::string &lease::key() const noexcept { return state_->about_.key(); }
const std::string &lease::scope() const noexcept { return state_->about_.scope(); }
std::int64_t lease::fence() const noexcept { return state_->beat_->held.fence; }
int lease::attempt() const noexcept { return state_->attempt_; }
const std::optional<std::string> &lease::recovery_point() const noexcept { return state_->recovery_point_; }
void lease::checkpoint(const std::string &recovery_point) { state_->checkpoint(state_->client_, recovery_point); }
void lease::checkpoint(const target &in, const std::string &recovery_point) { state_->checkpoint(in, recovery_point); }
stop_token lease::stop() const noexcept { return stop_token(state_->beat_->stop); }
bool lease::lost() const noexcept { return state_->lost(); }
duration lease::time_left() const noexcept { return state_->heart_->time_left(*state_->beat_); }
void lease::complete(const target &in, const response &outcome) { state_->complete_in(in, outcome); }

void lease::throw_if_lost() const {
    if (lost())
        state_->throw_lost("it was not renewed in time, or taken over");
}

} // namespace idem
