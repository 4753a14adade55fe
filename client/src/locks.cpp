#include <idem/locks.hpp>

#include <algorithm>
#include <utility>

#include "access.hpp"
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

// After a connection broke, its backend may still take the lock: it is not reported as busy before this has passed.
constexpr duration kRecoveryWait{2'000};
// The longest wait of a destructor for a row lock.
constexpr duration kUnlockTimeout{2'000};

} // namespace

struct held_lock::state {
    explicit state(client &db) : client_(db) {}

    bool unlock();
    void unlock_briefly() noexcept;
    command unlock_command() const {
        return {&unlock_statement,
                {lease_->grant.name, std::to_string(lease_->grant.fence), lease_->grant.scope},
                lease_->grant.about()};
    }
    [[noreturn]] void throw_lost(const char *why) const {
        throw lease_lost("ID001", "lock \"" + lease_->grant.name + "\" is lost: " + why, lease_->grant.about());
    }

    idem::client client_; // a copy, which keeps the heartbeat alive
    retry_policy retry_;
    heartbeat *heartbeat_ = nullptr;
    std::shared_ptr<renewed_lease> lease_;
};

// Null: another caller holds it.
std::unique_ptr<held_lock::state> held_lock::acquire(client &db, const std::string &name, const lock_options &options,
                                                     const wait_limit &wait) {
    auto taken = std::make_unique<state>(db);
    taken->retry_ = options.retry ? *options.retry : db.options().retry;
    granted_lease lease;
    lease.resource = granted_lease::resource_kind::lock;
    lease.name = name;
    lease.scope = options.scope;
    lease.owner = make_nonce();
    lease.wanted = lease.length = options.ttl;
    taken->heartbeat_ = &detail::state_of(db).shared_heartbeat();
    const auto began = steady_clock::now();
    lease_term term(options.ttl);
    lease_clock::time_point sent;
    auto ask = [&, lost = false](const wait_limit &limit) mutable {
        const auto asked = steady_clock::now();
        return repeat(detail::state_of(db), taken->retry_, [&](session &on) {
            wait_limit left = left_of(limit, asked);
            if (lost && left.bound)
                left.bound = std::max(*left.bound, kRecoveryWait);
            sent = lease_clock::now();
            const parameters values{name, interval_text(options.ttl), lease.owner, wait_text(left), options.scope};
            try {
                return on.run({{&lock_statement, values, lease.about()}}).at(0).at(0).at(0);
            } catch (const connection_lost &) {
                lost = true;
                throw;
            }
        });
    };
    for (auto next = lease_term::request::nothing; next != lease_term::request::work;) {
        const parameter fence =
            wait_for_holder(detail::state_of(db), left_of(wait, began), ask, [](const parameter &answer) { return !answer; });
        if (!fence)
            return nullptr;
        // After a wait it is not known when the lease began: the same owner acquires it again, which renews it.
        const bool is_renewed = lease.fence == to_integer(fence);
        lease.fence = to_integer(fence);
        term.claim(sent);
        next = term.acquired(lease_clock::now());
        if (is_renewed && next == lease_term::request::renew) {
            term.send(sent);
            next = term.renewed(lease_clock::now());
        }
        if (is_renewed && next == lease_term::request::lost_expired) {
            taken->lease_ = std::make_shared<renewed_lease>(lease, term);
            taken->unlock_briefly();
            taken->throw_lost("it ended before the answer arrived");
        }
    }
    try {
        taken->lease_ = taken->heartbeat_->add(lease, term);
    } catch (...) {
        taken->lease_ = std::make_shared<renewed_lease>(lease, term);
        taken->unlock_briefly();
        throw;
    }
    return taken;
}

bool held_lock::state::unlock() {
    heartbeat_->remove(*lease_);
    bool repeated = false;
    return repeat(detail::state_of(client_), retry_, [&](session &on) {
        const bool again = std::exchange(repeated, true);
        if (on.run({unlock_command()}).at(0).at(0).at(0) == "t")
            return true;
        // The first call, whose answer was lost, may have freed it, and no other caller can have held it before until().
        return again && lease_clock::now() < lease_->term.until();
    });
}

void held_lock::state::unlock_briefly() noexcept {
    heartbeat_->remove(*lease_);
    try {
        retry_.attempts = std::min(retry_.attempts, 3);
        const auto deadline = steady_clock::now() + 2 * kUnlockTimeout;
        repeat(detail::state_of(client_), retry_, [&](session &on) {
            return on.run({lock_timeout_command(kUnlockTimeout), unlock_command()}, deadline);
        });
    } catch (...) {
        // The lock becomes free when its lease ends.
    }
}

held_lock::held_lock(std::unique_ptr<state> held) noexcept : state_(std::move(held)) {}
held_lock::held_lock(held_lock &&) noexcept = default;

held_lock &held_lock::operator=(held_lock &&other) noexcept {
    held_lock old(std::move(*this)); // unlocked at the end
    state_ = std::move(other.state_);
    return *this;
}

held_lock::~held_lock() {
    if (state_)
        state_->unlock_briefly();
}

const std::string &held_lock::name() const noexcept { return state_->lease_->grant.name; }
const std::string &held_lock::scope() const noexcept { return state_->lease_->grant.scope; }
std::int64_t held_lock::fence() const noexcept { return state_->lease_->grant.fence; }
stop_token held_lock::stop() const noexcept { return detail::token_of(state_->lease_->stop); }
bool held_lock::lost() const noexcept { return !state_ || state_->heartbeat_->is_lost(*state_->lease_); }
duration held_lock::time_left() const noexcept { return state_->heartbeat_->time_left(*state_->lease_); }

void held_lock::throw_if_lost() const {
    if (!state_)
        throw lease_lost("ID001", "the lock is no longer held");
    if (lost())
        state_->throw_lost("it was not renewed in time, or taken over");
}

void held_lock::assert_fence(const target &in) const {
    throw_if_lost();
    const granted_lease &held = state_->lease_->grant;
    try {
        detail::call(in, {&assert_statement, {held.name, std::to_string(held.fence), held.scope}, held.about()});
    } catch (const stale_fence &) {
        state_->heartbeat_->mark_lost(*state_->lease_);
        state_->throw_lost("it was taken over");
    }
}

bool held_lock::unlock() {
    if (!state_)
        throw lease_lost("ID001", "the lock is no longer held");
    const std::unique_ptr<state> last = std::move(state_);
    return last->unlock();
}

std::optional<held_lock> try_lock(client &db, const std::string &name, const lock_options &options) {
    if (std::unique_ptr<held_lock::state> held = held_lock::acquire(db, name, options, duration::zero()))
        return held_lock(std::move(held));
    return std::nullopt;
}

held_lock lock(client &db, const std::string &name, const lock_options &options) {
    if (std::unique_ptr<held_lock::state> held = held_lock::acquire(db, name, options, options.wait))
        return held_lock(std::move(held));
    throw busy("55P03", "lock \"" + name + "\" is held by another caller", {name, options.scope});
}

} // namespace idem
