#include <idem/locks.hpp>

#include <algorithm>
#include <utility>

#include "heartbeat.hpp"
#include "repeat.hpp"

namespace idem {

using namespace detail;

namespace {

using std::chrono::steady_clock;

constexpr statement lock_statement{"idem_lock",
                                   "SELECT @idem@.idem_lock($1, $2::pg_catalog.interval, $3, $4::pg_catalog.interval, $5)",
                                   true}; // under the owner's nonce
constexpr statement unlock_statement{"idem_unlock", "SELECT @idem@.idem_unlock($1, $2::pg_catalog.int8, $3)", true};
constexpr statement assert_statement{"idem_assert_fence", "SELECT FROM @idem@.idem_assert_fence($1, $2::pg_catalog.int8, $3)",
                                     true};

// After a connection broke, the lock may be held by what runs on at its other end: busy is not said before this.
constexpr duration kRecovery{2'000};
// A destructor does not wait for longer than this.
constexpr duration kLongestFarewell{2'000};

} // namespace

struct held_lock::state {
    explicit state(client &db) : client_(db) {}

    bool unlock();
    void abandon() noexcept;
    command unlock_command() const {
        return {
            &unlock_statement, {beat_->held.name, std::to_string(beat_->held.fence), beat_->held.scope}, beat_->held.about()};
    }
    [[noreturn]] void throw_lost(const char *why) const {
        throw lease_lost("ID001", "lock \"" + beat_->held.name + "\" is lost: " + why, beat_->held.about());
    }

    idem::client client_; // a copy: the heart lives as long as this
    retry_policy retry_;
    heart *heart_ = nullptr;
    std::shared_ptr<beat> beat_;
};

// Nothing: somebody else holds it.
std::unique_ptr<held_lock::state> held_lock::take(client &db, const std::string &name, const lock_options &options,
                                                  const patience &wait) {
    auto fresh = std::make_unique<state>(db);
    fresh->retry_ = options.retry ? *options.retry : db.options().retry;
    holding of;
    of.what = holding::kind::lock;
    of.name = name;
    of.scope = options.scope;
    of.owner = make_nonce();
    of.lease = of.granted = options.lease;
    const auto began = steady_clock::now();
    bool lost = false;
    for (bool fresh_enough = false; !fresh_enough;) {
        const parameter fence = repeat(db.state(), fresh->retry_, [&](session &on) {
            patience left = left_of(wait, began);
            if (lost && left.bound)
                left.bound = std::max(*left.bound, kRecovery);
            of.granted_at = lease_clock::now();
            const parameters values{name, interval_text(options.lease), of.owner, interval_text(left.bound), options.scope};
            try {
                return on.run({{&lock_statement, values, of.about()}}).at(0).at(0).at(0);
            } catch (const connection_lost &) {
                lost = true;
                throw;
            }
        });
        if (!fence)
            return nullptr;
        // After a wait nobody knows when the lease began: the same owner gets it anew.
        fresh_enough = lease_clock::now() < of.granted_at + of.granted / 3 || of.fence == to_integer(fence);
        of.fence = to_integer(fence);
    }
    fresh->heart_ = &db.state().heartbeat();
    try {
        fresh->beat_ = fresh->heart_->start(of);
    } catch (...) {
        fresh->beat_ = std::make_shared<beat>(of);
        fresh->abandon();
        throw;
    }
    return fresh;
}

bool held_lock::state::unlock() {
    heart_->finish(*beat_);
    bool repeated = false;
    return repeat(client_.state(), retry_, [&](session &on) {
        const bool again = std::exchange(repeated, true);
        if (on.run({unlock_command()}).at(0).at(0).at(0) == "t")
            return true;
        // The first call, whose answer was lost, may have freed it, and nobody else can have had it so far.
        return again && lease_clock::now() < beat_->valid_until;
    });
}

void held_lock::state::abandon() noexcept {
    heart_->finish(*beat_);
    try {
        retry_.attempts = std::min(retry_.attempts, 3);
        const auto deadline = steady_clock::now() + 2 * kLongestFarewell;
        repeat(client_.state(), retry_, [&](session &on) {
            return on.run({lock_timeout_command(kLongestFarewell), unlock_command()}, deadline);
        });
    } catch (...) {
        // The lease ends by itself.
    }
}

held_lock::held_lock(std::unique_ptr<state> of) noexcept : state_(std::move(of)) {}
held_lock::held_lock(held_lock &&) noexcept = default;

held_lock &held_lock::operator=(held_lock &&other) noexcept {
    held_lock old(std::move(*this)); // unlocked at the end
    state_ = std::move(other.state_);
    return *this;
}

held_lock::~held_lock() {
    if (state_)
        state_->abandon();
}

const std::string &held_lock::name() const noexcept { return state_->beat_->held.name; }
const std::string &held_lock::scope() const noexcept { return state_->beat_->held.scope; }
std::int64_t held_lock::fence() const noexcept { return state_->beat_->held.fence; }
stop_token held_lock::stop() const noexcept { return stop_token(state_->beat_->stop); }
bool held_lock::lost() const noexcept { return !state_ || state_->heart_->lost(*state_->beat_); }
duration held_lock::time_left() const noexcept { return state_->heart_->time_left(*state_->beat_); }

void held_lock::throw_if_lost() const {
    if (!state_)
        throw lease_lost("ID001", "the lock is not held any more");
    if (lost())
        state_->throw_lost("it was not renewed in time, or taken over");
}

void held_lock::assert_fence(const target &in) const {
    throw_if_lost();
    const holding &held = state_->beat_->held;
    try {
        in.call({&assert_statement, {held.name, std::to_string(held.fence), held.scope}, held.about()});
    } catch (const stale_fence &) {
        state_->heart_->lose(*state_->beat_);
        state_->throw_lost("it was taken over");
    }
}

bool held_lock::unlock() {
    if (!state_)
        throw lease_lost("ID001", "the lock is not held any more");
    const std::unique_ptr<state> last = std::move(state_);
    return last->unlock();
}

std::optional<held_lock> try_lock(client &db, const std::string &name, const lock_options &options) {
    if (std::unique_ptr<held_lock::state> held = held_lock::take(db, name, options, duration::zero()))
        return held_lock(std::move(held));
    return std::nullopt;
}

held_lock lock(client &db, const std::string &name, const lock_options &options) {
    if (std::unique_ptr<held_lock::state> held = held_lock::take(db, name, options, options.wait))
        return held_lock(std::move(held));
    throw busy("55P03", "lock \"" + name + "\" is held by somebody else", {name, options.scope});
}

} // namespace idem
