#include "heartbeat.hpp"

#include <algorithm>
#include <system_error>

#include "repeat.hpp"

namespace idem::detail {

namespace {

using std::chrono::milliseconds;
using state = beat::state;

// The time that is left comes from the server: nobody else knows the scope's lease.
constexpr statement renew_key_statement{
    "idem_renew",
    "SELECT pg_catalog.floor(1000 OPERATOR(pg_catalog.*) EXTRACT(epoch FROM renewed OPERATOR(pg_catalog.-) "
    "pg_catalog.clock_timestamp()))::pg_catalog.int8 "
    "FROM @idem@.idem_renew($1, $2::pg_catalog.int8, $3::pg_catalog.interval, $4) AS renewed",
    true};
constexpr statement renew_lock_statement{
    "idem_lock_renew", "SELECT @idem@.idem_lock_renew($1, $2::pg_catalog.int8, $3::pg_catalog.interval, $4)", true};
constexpr statement completed_statement{
    "idem_completed",
    "SELECT 1 FROM @idem@.idem_lookup($1, $2, $3) WHERE is_owner AND state OPERATOR(pg_catalog.=) 'completed'", true};

// Short, as others wait meanwhile; many that are blocked must not take up the time of those that are not.
milliseconds longest_lock_wait(milliseconds lease) { return std::clamp(lease / 100, milliseconds(2), milliseconds(50)); }

// A renewal that is not answered is sent again on another connection.
constexpr milliseconds kShortestAnswer{200}, kLongestAnswer{5000};
// Before the next attempt, of whatever failed.
constexpr milliseconds kShortestPause{10}, kLongestPause{1000};

/// What became of a renewal, from which everything follows.
struct renewal {
    enum class outcome {
        renewed,
        refused,
        completed, // by its holder
        blocked,
        failed
    } what = outcome::failed;
    duration granted{};
};

command completed_command(const holding &held) { return {&completed_statement, {held.name, held.owner, held.scope}}; }

} // namespace

command renew_command(const holding &held) {
    return {held.what == holding::kind::key ? &renew_key_statement : &renew_lock_statement,
            {held.name, std::to_string(held.fence), interval_text(held.lease), held.scope},
            held.about()};
}

std::optional<duration> renewed(const rows &answer, const holding &held) {
    const std::string &text = answer.at(0).at(0).value();
    if (held.what == holding::kind::key)
        return milliseconds(to_integer(text));
    if (text != "t")
        return std::nullopt;
    return *held.lease;
}

/// Shared by the heart and its threads, one of which may outlive it for a moment.
struct heart::rhythm {
    explicit rhythm(client_state &owner) : client(owner) {}

    using guard = std::unique_lock<std::mutex>;

    void renew_all() noexcept;
    void tell_all() noexcept;
    void wait(guard &lock, std::condition_variable &on, lease_clock::time_point &wakes, lease_clock::time_point until);

    renewal try_renew(const beat &of, bool completing, milliseconds shortest) noexcept;
    renewal renew(const beat &of, bool completing, milliseconds longest);
    std::unique_ptr<session> connect(milliseconds shortest);
    void settle(beat &of, const renewal &answer, lease_clock::time_point sent, state before, unsigned completions);
    bool lapsed(const beat &of) const noexcept { return of.now == state::live && lease_clock::now() >= of.valid_until; }
    milliseconds shortest_lease() const;

    client_state &client; // not when stopping

    std::mutex lock; // guards what follows, and the beats; not held while waiting for anybody
    std::condition_variable renewer_woken, teller_woken;
    lease_clock::time_point renewer_wakes = lease_clock::time_point::max(), teller_wakes = lease_clock::time_point::max();
    std::vector<std::shared_ptr<beat>> beats;
    bool stopping = false;
    std::thread renewer, teller;

    // The renewing thread's own.
    std::unique_ptr<session> line;
    milliseconds pause{0}; // before the next attempt to connect
    lease_clock::time_point connect_at;
};

heart::heart(client_state &owner) : rhythm_(std::make_shared<rhythm>(owner)) {}

heart::~heart() {
    rhythm &all = *rhythm_;
    {
        const std::lock_guard guard(all.lock);
        all.stopping = true;
        all.renewer_woken.notify_all();
        all.teller_woken.notify_all();
    }
    for (std::thread *each : {&all.renewer, &all.teller})
        if (each->get_id() == std::this_thread::get_id())
            each->detach(); // in a stop callback
        else if (each->joinable())
            each->join();
}

std::shared_ptr<beat> heart::start(holding of) {
    auto fresh = std::make_shared<beat>(std::move(of));
    fresh->length = fresh->held.granted;
    fresh->valid_until = fresh->held.granted_at + fresh->length;
    fresh->next = fresh->held.granted_at + fresh->length / 3;

    rhythm &all = *rhythm_;
    const std::lock_guard guard(all.lock);
    try {
        if (!all.renewer.joinable())
            all.renewer = std::thread([all = rhythm_] { all->renew_all(); });
        if (!all.teller.joinable())
            all.teller = std::thread([all = rhythm_] { all->tell_all(); });
    } catch (const std::system_error &e) {
        throw error("53000", std::string("could not start the thread that renews leases: ") + e.what(), fresh->held.about());
    }
    all.beats.push_back(fresh);
    // Most leases are over before their first renewal: threads that sleep for less anyway are left alone.
    if (fresh->next < all.renewer_wakes)
        all.renewer_woken.notify_one();
    if (fresh->valid_until < all.teller_wakes)
        all.teller_woken.notify_one();
    return fresh;
}

void heart::finish(beat &of) noexcept {
    const std::lock_guard guard(rhythm_->lock);
    of.now = state::over;
    std::vector<std::shared_ptr<beat>> &beats = rhythm_->beats;
    const auto found = std::find_if(beats.begin(), beats.end(), [&](const auto &each) { return each.get() == &of; });
    if (found == beats.end())
        return;
    std::swap(*found, beats.back());
    beats.pop_back();
}

bool heart::lost(beat &of) noexcept {
    {
        const std::lock_guard guard(rhythm_->lock);
        if (of.now == state::lost)
            return true;
        if (!rhythm_->lapsed(of))
            return false;
    }
    lose(of);
    return true;
}

void heart::lose(beat &of) noexcept {
    const std::shared_ptr<stop_state> stop = of.stop; // a callback may destroy who holds `of`
    {
        const std::lock_guard guard(rhythm_->lock);
        if (of.now == state::over)
            return;
        of.now = state::lost;
        if (std::exchange(of.told, true))
            return;
    }
    stop->request();
}

duration heart::time_left(beat &of) noexcept {
    const std::lock_guard guard(rhythm_->lock);
    if (of.now == state::lost || of.now == state::over)
        return duration::zero();
    return std::max(duration::zero(), std::chrono::duration_cast<duration>(of.valid_until - lease_clock::now()));
}

bool heart::begin_completion(beat &of) noexcept {
    if (lost(of))
        return false;
    const std::lock_guard guard(rhythm_->lock);
    if (of.now == state::lost)
        return false;
    if (of.now == state::live)
        of.now = state::completing;
    of.completions |= 1U;
    return true;
}

void heart::end_completion(beat &of, bool may_hold) noexcept {
    const std::lock_guard guard(rhythm_->lock);
    ++of.completions;
    if (!may_hold && of.now == state::completing)
        of.now = state::live;
}

void heart::rhythm::wait(guard &held, std::condition_variable &on, lease_clock::time_point &wakes,
                         lease_clock::time_point until) {
    wakes = until;
    if (until == lease_clock::time_point::max())
        on.wait(held);
    else if (const auto span = until - lease_clock::now(); span.count() > 0)
        on.wait_for(held, span);
    wakes = lease_clock::time_point::min();
}

milliseconds heart::rhythm::shortest_lease() const {
    milliseconds shortest = milliseconds::max();
    for (const auto &each : beats)
        shortest = std::min(shortest, each->length);
    return shortest;
}

void heart::rhythm::tell_all() noexcept {
    guard held(lock);
    while (!stopping) {
        auto until = lease_clock::time_point::max();
        std::shared_ptr<beat> unlucky;
        for (const auto &each : beats) {
            if (lapsed(*each))
                each->now = state::lost;
            if (each->now == state::lost && !each->told)
                unlucky = each;
            else if (each->now == state::live)
                until = std::min(until, each->valid_until);
        }
        if (!unlucky) {
            wait(held, teller_woken, teller_wakes, until);
            continue;
        }
        unlucky->told = true;
        held.unlock();
        unlucky->stop->request();
        unlucky.reset();
        held.lock();
    }
}

void heart::rhythm::renew_all() noexcept {
    guard held(lock);
    while (!stopping) {
        std::shared_ptr<beat> due;
        for (const auto &each : beats)
            if ((each->now == state::live || each->now == state::completing) && (!due || each->next < due->next))
                due = each;
        if (!due && line) {
            held.unlock();
            line.reset();
            held.lock();
            continue;
        }
        auto until = due ? due->next : lease_clock::time_point::max();
        if (due && !line)
            until = std::max(until, connect_at);
        if (lease_clock::now() < until) {
            due.reset();
            wait(held, renewer_woken, renewer_wakes, until);
            continue;
        }
        if (lapsed(*due)) { // this process, or the network, slept: the server may still agree, but must not be asked any more
            due->now = state::lost;
            teller_woken.notify_one();
            continue;
        }
        const state before = due->now;
        const unsigned completions = due->completions;
        const milliseconds shortest = shortest_lease();
        held.unlock();
        const auto sent = lease_clock::now();
        const renewal answer = try_renew(*due, before == state::completing, shortest);
        held.lock();
        settle(*due, answer, sent, before, completions);
    }
}

renewal heart::rhythm::try_renew(const beat &of, bool completing, milliseconds shortest) noexcept {
    try {
        if (!line)
            line = connect(shortest);
        return renew(of, completing, std::clamp(shortest / 4, kShortestAnswer, kLongestAnswer));
    } catch (const busy &) {
        return {renewal::outcome::blocked, {}};
    } catch (const transient &) {
        if (line && line->broken())
            line.reset();
    } catch (...) {
        // Whatever it was, a new connection may be to a server that can do better.
        line.reset();
    }
    return {renewal::outcome::failed, {}};
}

std::unique_ptr<session> heart::rhythm::connect(milliseconds shortest) {
    pause = std::min(std::max(2 * pause, kShortestPause), std::clamp(shortest / 6, kShortestPause, kLongestPause));
    try {
        auto fresh = std::make_unique<session>(client);
        pause = {};
        return fresh;
    } catch (...) {
        connect_at = lease_clock::now() + pause;
        throw;
    }
}

renewal heart::rhythm::renew(const beat &of, bool completing, milliseconds longest) {
    const auto deadline = std::chrono::steady_clock::now() + longest;
    const milliseconds lock_wait = longest_lock_wait(of.held.lease.value_or(of.held.granted));
    try {
        const std::vector<rows> answers = line->run({lock_timeout_command(lock_wait), renew_command(of.held)}, deadline);
        if (const std::optional<duration> left = renewed(answers.at(1), of.held))
            return {renewal::outcome::renewed, *left};
    } catch (const stale_fence &) {
        if (completing && !line->run({completed_command(of.held)}, deadline).front().empty())
            return {renewal::outcome::completed, {}};
    }
    return {renewal::outcome::refused, {}};
}

void heart::rhythm::settle(beat &of, const renewal &answer, lease_clock::time_point sent, state before, unsigned completions) {
    if (of.now == state::lost || of.now == state::over)
        return;
    const auto now = lease_clock::now();
    switch (answer.what) {
    case renewal::outcome::renewed:
        of.length = answer.granted;
        of.valid_until = sent + answer.granted;
        of.next = sent + std::max(answer.granted / 3, kShortestPause);
        // Sent after idem_complete had returned and granted all the same: its transaction was rolled back.
        if (of.now == state::completing && before == state::completing && of.completions == completions && completions % 2 == 0)
            of.now = state::live;
        break;
    case renewal::outcome::completed:
        of.next = lease_clock::time_point::max();
        break;
    case renewal::outcome::refused:
        if (of.now == before) {
            of.now = state::lost;
            teller_woken.notify_one();
        } else { // completed since it was asked, perhaps by the holder
            of.next = now;
        }
        break;
    case renewal::outcome::blocked:
        of.next = now + std::max(of.length / 6, kShortestPause);
        break;
    case renewal::outcome::failed:
        of.next = now + std::clamp(of.length / 12, kShortestPause, kLongestPause);
        break;
    }
}

} // namespace idem::detail
