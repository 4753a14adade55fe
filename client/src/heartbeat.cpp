#include "heartbeat.hpp"

#include <algorithm>
#include <system_error>

#include "repeat.hpp"

namespace idem::detail {

namespace {

using std::chrono::milliseconds;
using status = renewed_lease::status;

// The server computes the time left: only it knows the scope's lease.
constexpr statement renew_key_statement{
    "idem_renew",
    "SELECT pg_catalog.floor(1000 OPERATOR(pg_catalog.*) EXTRACT(epoch FROM renewed OPERATOR(pg_catalog.-) "
    "pg_catalog.clock_timestamp()))::pg_catalog.int8 "
    "FROM @idem@.idem_renew($1, $2::pg_catalog.int8, $3::pg_catalog.interval, $4) AS renewed",
    true};
constexpr statement renew_lock_statement{
    "idem_lock_renew", "SELECT @idem@.idem_lock_renew($1, $2::pg_catalog.int8, $3::pg_catalog.interval, $4)", true};
constexpr statement completed_statement{"idem_completed",
                                        "SELECT 1 FROM @idem@.idem_lookup($1, $3) WHERE @idem@.idem_is_owner($1, $2, $3) AND "
                                        "state OPERATOR(pg_catalog.=) 'completed'",
                                        true};

// Short: renewals run one after the other, and blocked ones must not delay the rest.
milliseconds lock_timeout_for(milliseconds lease) { return std::clamp(lease / 100, milliseconds(2), milliseconds(50)); }

// A renewal without an answer is sent again on another connection.
constexpr milliseconds kMinAnswerTimeout{200}, kMaxAnswerTimeout{5000};
// Condition variables wait by a clock that stands still while the machine is suspended, and leases do not.
constexpr milliseconds kLongestWait{1000};
// Between two attempts to connect.
constexpr milliseconds kMinPause{10}, kMaxPause{1000};

struct renewal_result {
    enum class outcome {
        renewed,
        rejected,
        completed, // by its holder
        blocked,   // the row is locked
        failed
    } outcome = outcome::failed;
    duration length{}; // if renewed
};

command completed_command(const granted_lease &lease) { return {&completed_statement, {lease.name, lease.owner, lease.scope}}; }

} // namespace

command renew_command(const granted_lease &lease) {
    return {lease.resource == granted_lease::resource_kind::key ? &renew_key_statement : &renew_lock_statement,
            {lease.name, std::to_string(lease.fence), interval_text(lease.wanted), lease.scope},
            lease.about()};
}

std::optional<duration> time_granted(const rows &answer, const granted_lease &lease) {
    const std::string &text = answer.at(0).at(0).value();
    if (lease.resource == granted_lease::resource_kind::key)
        return milliseconds(to_integer(text));
    if (text != "t")
        return std::nullopt;
    return *lease.wanted;
}

/// Shared by the heartbeat and its threads. A thread outlives the heartbeat briefly when its own stop callback destroys it.
struct heartbeat::shared_state {
    explicit shared_state(client_state &shared) : client(shared) {}

    using guard = std::unique_lock<std::mutex>;

    void renew_leases() noexcept;
    void signal_losses() noexcept;
    void wait(guard &held, std::condition_variable &woken, lease_clock::time_point &wakes, lease_clock::time_point until);

    renewal_result try_renew(const renewed_lease &lease, bool completing, milliseconds shortest) noexcept;
    renewal_result renew(const renewed_lease &lease, bool completing, milliseconds timeout);
    std::unique_ptr<session> connect(milliseconds shortest);
    void record(renewed_lease &lease, const renewal_result &result, status before, unsigned completions);
    /// Notices that the lease is over. While it is being completed, only the server knows.
    static bool is_lost(renewed_lease &lease) noexcept {
        if (lease.current == status::live)
            lease.term.watch(lease_clock::now());
        return lease.current != status::ended && lease.term.is_lost();
    }
    milliseconds shortest_lease() const;

    client_state &client; // not to be used when stopping

    std::mutex lock; // guards what follows, and the leases; not held during a round trip or a callback
    std::condition_variable renewer_woken, signaller_woken;
    lease_clock::time_point renewer_wakes = lease_clock::time_point::max(), signaller_wakes = lease_clock::time_point::max();
    std::vector<std::shared_ptr<renewed_lease>> leases;
    bool stopping = false;
    std::thread renewer, signaller;

    // Used by the renewer only.
    std::unique_ptr<session> renewal_session;
    milliseconds pause{0}; // before the next attempt to connect
    lease_clock::time_point connect_at;
};

heartbeat::heartbeat(client_state &client) : shared_(std::make_shared<shared_state>(client)) {}

heartbeat::~heartbeat() {
    shared_state &all = *shared_;
    {
        const std::lock_guard guard(all.lock);
        all.stopping = true;
        all.renewer_woken.notify_all();
        all.signaller_woken.notify_all();
    }
    for (std::thread *each : {&all.renewer, &all.signaller})
        if (each->get_id() == std::this_thread::get_id())
            each->detach(); // in a stop callback
        else if (each->joinable())
            each->join();
}

std::shared_ptr<renewed_lease> heartbeat::add(granted_lease grant, lease_term term) {
    auto added = std::make_shared<renewed_lease>(std::move(grant), term);

    shared_state &all = *shared_;
    const std::lock_guard guard(all.lock);
    try {
        if (!all.renewer.joinable())
            all.renewer = std::thread([all = shared_] { all->renew_leases(); });
        if (!all.signaller.joinable())
            all.signaller = std::thread([all = shared_] { all->signal_losses(); });
    } catch (const std::system_error &e) {
        throw error("53000", std::string("could not start the thread that renews leases: ") + e.what(), added->grant.about());
    }
    all.leases.push_back(added);
    // Most leases end before their first renewal: a thread that wakes earlier anyway is left asleep.
    if (term.next_renewal() < all.renewer_wakes)
        all.renewer_woken.notify_one();
    if (term.until() < all.signaller_wakes)
        all.signaller_woken.notify_one();
    return added;
}

void heartbeat::remove(renewed_lease &lease) noexcept {
    const std::lock_guard guard(shared_->lock);
    lease.current = status::ended;
    std::vector<std::shared_ptr<renewed_lease>> &leases = shared_->leases;
    const auto found = std::find_if(leases.begin(), leases.end(), [&](const auto &each) { return each.get() == &lease; });
    if (found == leases.end())
        return;
    std::swap(*found, leases.back());
    leases.pop_back();
}

bool heartbeat::is_lost(renewed_lease &lease) noexcept {
    {
        const std::lock_guard guard(shared_->lock);
        if (!shared_state::is_lost(lease))
            return false;
    }
    signal(lease);
    return true;
}

bool heartbeat::is_stale(renewed_lease &lease) noexcept {
    const std::lock_guard guard(shared_->lock);
    return lease.term.is_stale();
}

void heartbeat::mark_lost(renewed_lease &lease) noexcept {
    {
        const std::lock_guard guard(shared_->lock);
        if (lease.current == status::ended)
            return;
        lease.term.stale();
    }
    signal(lease);
}

void heartbeat::signal(renewed_lease &lease) noexcept {
    const std::shared_ptr<stop_state> stop = lease.stop; // a callback may destroy the holder of `lease`
    {
        const std::lock_guard guard(shared_->lock);
        if (lease.current == status::ended || std::exchange(lease.signalled, true))
            return;
    }
    stop->request();
}

duration heartbeat::time_left(renewed_lease &lease) noexcept {
    const std::lock_guard guard(shared_->lock);
    if (lease.term.is_lost() || lease.current == status::ended)
        return duration::zero();
    return std::max(duration::zero(), std::chrono::duration_cast<duration>(lease.term.until() - lease_clock::now()));
}

bool heartbeat::begin_completion(renewed_lease &lease) noexcept {
    is_lost(lease); // and if so, it is signalled
    const std::lock_guard guard(shared_->lock);
    if (lease.term.is_stale())
        return false;
    if (lease.current == status::live)
        lease.current = status::completing;
    lease.completions |= 1U;
    return true;
}

void heartbeat::end_completion(renewed_lease &lease, bool may_take_effect) noexcept {
    const std::lock_guard guard(shared_->lock);
    ++lease.completions;
    if (!may_take_effect && lease.current == status::completing)
        lease.current = status::live;
}

void heartbeat::shared_state::wait(guard &held, std::condition_variable &woken, lease_clock::time_point &wakes,
                                   lease_clock::time_point until) {
    wakes = until;
    if (until == lease_clock::time_point::max())
        woken.wait(held);
    else if (const auto span = until - lease_clock::now(); span.count() > 0)
        woken.wait_for(held, std::min<lease_clock::duration>(span, kLongestWait));
    wakes = lease_clock::time_point::min();
}

milliseconds heartbeat::shared_state::shortest_lease() const {
    milliseconds shortest = milliseconds::max();
    for (const auto &each : leases)
        shortest = std::min(shortest, std::chrono::duration_cast<milliseconds>(each->term.length()));
    return shortest;
}

void heartbeat::shared_state::signal_losses() noexcept {
    guard held(lock);
    while (!stopping) {
        auto until = lease_clock::time_point::max();
        std::shared_ptr<renewed_lease> lost;
        for (const auto &each : leases) {
            if (is_lost(*each) && !each->signalled)
                lost = each;
            else if (each->current == status::live && !each->term.is_lost())
                until = std::min(until, each->term.until());
        }
        if (!lost) {
            wait(held, signaller_woken, signaller_wakes, until);
            continue;
        }
        lost->signalled = true;
        held.unlock();
        lost->stop->request();
        lost.reset();
        held.lock();
    }
}

void heartbeat::shared_state::renew_leases() noexcept {
    guard held(lock);
    while (!stopping) {
        std::shared_ptr<renewed_lease> due;
        for (const auto &each : leases)
            if (const auto next = each->term.next_renewal(); next && (!due || *next < *due->term.next_renewal()))
                due = each;
        if (!due && renewal_session) {
            held.unlock();
            renewal_session.reset();
            held.lock();
            continue;
        }
        auto until = due ? *due->term.next_renewal() : lease_clock::time_point::max();
        if (due && !renewal_session)
            until = std::max(until, connect_at);
        if (lease_clock::now() < until) {
            due.reset();
            wait(held, renewer_woken, renewer_wakes, until);
            continue;
        }
        if (is_lost(*due)) { // the process or the network slept: others may hold it by now, so it is not renewed any more
            signaller_woken.notify_one();
            continue;
        }
        const status before = due->current;
        const unsigned completions = due->completions;
        const milliseconds shortest = shortest_lease();
        due->term.send(lease_clock::now());
        held.unlock();
        const renewal_result result = try_renew(*due, before == status::completing, shortest);
        held.lock();
        record(*due, result, before, completions);
    }
}

renewal_result heartbeat::shared_state::try_renew(const renewed_lease &lease, bool completing, milliseconds shortest) noexcept {
    try {
        if (!renewal_session)
            renewal_session = connect(shortest);
        return renew(lease, completing, std::clamp(shortest / 4, kMinAnswerTimeout, kMaxAnswerTimeout));
    } catch (const busy &) {
        return {renewal_result::outcome::blocked, {}};
    } catch (const transient &) {
        if (renewal_session && renewal_session->broken())
            renewal_session.reset();
    } catch (...) {
        // A new connection may reach a server that works, as after a failover.
        renewal_session.reset();
    }
    return {renewal_result::outcome::failed, {}};
}

std::unique_ptr<session> heartbeat::shared_state::connect(milliseconds shortest) {
    pause = std::min(std::max(2 * pause, kMinPause), std::clamp(shortest / 6, kMinPause, kMaxPause));
    try {
        auto connected = std::make_unique<session>(client);
        pause = {};
        return connected;
    } catch (...) {
        connect_at = lease_clock::now() + pause;
        throw;
    }
}

renewal_result heartbeat::shared_state::renew(const renewed_lease &lease, bool completing, milliseconds timeout) {
    const auto deadline = std::chrono::steady_clock::now() + timeout;
    const milliseconds lock_wait = lock_timeout_for(lease.grant.wanted.value_or(lease.grant.length));
    try {
        const std::vector<rows> answers =
            renewal_session->run({lock_timeout_command(lock_wait), renew_command(lease.grant)}, deadline);
        if (const std::optional<duration> left = time_granted(answers.at(1), lease.grant))
            return {renewal_result::outcome::renewed, *left};
    } catch (const stale_fence &) {
        if (completing && !renewal_session->run({completed_command(lease.grant)}, deadline).front().empty())
            return {renewal_result::outcome::completed, {}};
    }
    return {renewal_result::outcome::rejected, {}};
}

void heartbeat::shared_state::record(renewed_lease &lease, const renewal_result &result, status before, unsigned completions) {
    const auto now = lease_clock::now();
    switch (result.outcome) {
    case renewal_result::outcome::renewed:
        lease.term.renewed(now, result.length);
        // Sent after idem_complete had returned, and granted nevertheless: its transaction was rolled back.
        if (lease.current == status::completing && before == status::completing && lease.completions == completions &&
            completions % 2 == 0)
            lease.current = status::live;
        break;
    case renewal_result::outcome::completed:
        break; // no further renewal is sent
    case renewal_result::outcome::rejected:
        if (lease.current == before) {
            lease.term.stale();
            signaller_woken.notify_one();
        } else { // the holder began to complete it meanwhile, which may be the reason
            lease.term.failed(now, lease_clock::duration::zero());
        }
        break;
    case renewal_result::outcome::blocked:
        lease.term.failed(now, std::max<lease_clock::duration>(lease.term.length() / 6, kMinPause));
        break;
    case renewal_result::outcome::failed:
        lease.term.failed(now);
        break;
    }
}

} // namespace idem::detail
