#include "ring_nemesis.hpp"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <vector>

#include "calls.hpp"

namespace chaos {

namespace {

constexpr std::uint64_t kRotations = 1'000'004, kMoves = 1'000'005;
// For the clients that come late. The longest is shorter than the sweep's patience for a map that a paused session has locked.
constexpr Nanoseconds kPause = 8 * kMillisecond, kLongestPause = 40 * kMillisecond;
// What the opening needs before its rush: the updates that make it due, and the list of sessions.
constexpr Nanoseconds kNotice = 10 * kMillisecond;
constexpr const char *kRotator = "chaos-nemesis-rings", *kMover = "chaos-nemesis-moves";

// The map of a ring is named by the ring's id, which is counted from 1.
std::string set_opened_at(std::size_t id, const char *opened_at) {
    return "UPDATE idem_ring_" + std::to_string(id) + " SET opened_at = " + opened_at + " WHERE state = 'open'";
}

std::string move(const RingScope &scope, bool into) {
    const std::string name = std::string("'") + scope.name + "'";
    return into ? "SELECT idem_scope_set(" + name + ", ring => '" + scope.ring.name + "')"
                : "SELECT idem_scope_reset(" + name + ", 'ring')";
}

Nanoseconds next_rush_of_batches(Nanoseconds after) {
    std::int64_t number = after / kRush + 1;
    while (!is_rush_of_batches(number))
        number++;
    return number * kRush;
}

std::vector<pid_t> sessions_of_clients(Connection &connection) {
    std::vector<pid_t> found;
    const Answer answer = connection.run("SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'chaos-client%'");
    for (const auto &row : answer.rows)
        found.push_back(static_cast<pid_t>(std::stol(*row[0])));
    return found;
}

// A session that is paused may have read the map and not yet inserted its keys. It goes on when the window has been open for a
// while, however long a busy machine takes to open it.
void pause(const std::vector<pid_t> &sessions, const std::atomic<bool> &is_open) {
    for (const pid_t each : sessions)
        ::kill(each, SIGSTOP);
    for (const Nanoseconds until = now() + kLongestPause - kPause; !is_open && now() < until;)
        sleep_for(200 * kMicrosecond);
    sleep_for(kPause);
    for (const pid_t each : sessions)
        ::kill(each, SIGCONT);
}

} // namespace

RingNemesis::RingNemesis(Round &round) : round_(round), rotating_([this] { rotate(); }), moving_([this] { move_scopes(); }) {}

RingNemesis::~RingNemesis() {
    stopping_ = true;
    rotating_.join();
    moving_.join();
}

bool RingNemesis::ask(Connection &connection, const char *application, const std::string &sql) {
    if (!connection.is_open() && !connection.open(round_.server.dsn(application))) {
        sleep_until(now() + 10 * kMillisecond);
        return false;
    }
    const Answer answer = connection.run(sql);
    // 55P03: the move of a scope does not get its locks in time. 40P01: it waits for a client that waits for it.
    const bool is_foreseen =
        answer.sqlstate.empty() || is_farewell(answer.sqlstate) || answer.sqlstate == "55P03" || answer.sqlstate == "40P01";
    if (!is_foreseen || answer.hung)
        round_.findings.add({"unexpected_error", "", answer.sqlstate + ": " + answer.message + ", from " + sql, {}});
    if (is_farewell(answer.sqlstate))
        connection.close();
    return answer.ok();
}

void RingNemesis::sleep_until(Nanoseconds until) const {
    for (Nanoseconds left = until - now(); left > 0 && !stopping_; left = until - now())
        sleep_for(std::min(left, 20 * kMillisecond));
}

// Opens the next windows while the clients rush and some of their sessions are paused. A sweep before that does everything else
// that is due, so that the second one begins with the opening. The rush is chosen after it: it takes long on a busy machine.
void RingNemesis::rotate_once(Connection &connection, Random &random) {
    bool is_due = true;
    for (std::size_t id = 1; id <= kRings.size(); id++)
        is_due = is_due && ask(connection, kRotator, set_opened_at(id, "clock_timestamp()"));
    is_due = is_due && ask(connection, kRotator, "CALL idem_sweep()");
    const Nanoseconds rush = next_rush_of_batches(now() + kNotice);
    sleep_until(rush - kNotice);
    for (std::size_t id = 1; id <= kRings.size(); id++)
        is_due = is_due && ask(connection, kRotator, set_opened_at(id, "opened_at - interval '1 day'"));
    if (!is_due)
        return;
    std::vector<pid_t> sessions = sessions_of_clients(connection);
    std::erase_if(sessions, [&](pid_t) { return random.chance(0.5); });
    sleep_until(rush + random.between(300, 1300) * kMicrosecond);
    std::atomic<bool> is_open = false;
    std::thread pausing([&] { pause(sessions, is_open); });
    if (ask(connection, kRotator, "CALL idem_sweep()"))
        round_.figures.rotations++;
    is_open = true;
    pausing.join();
}

void RingNemesis::rotate() {
    Random random(round_.seed, kRotations);
    Connection connection;
    while (!stopping_)
        rotate_once(connection, random);
}

void RingNemesis::move_scopes() {
    Random random(round_.seed, kMoves);
    Connection connection;
    bool is_in_ring = true;
    while (!stopping_) {
        sleep_until(now() + random.between(500, 3000) * kMillisecond);
        for (const RingScope &scope : kRingScopes)
            // Claims wait behind the move.
            if (scope.moves && !stopping_ && ask(connection, kMover, "SET lock_timeout = '300 ms'") &&
                ask(connection, kMover, move(scope, !is_in_ring))) {
                is_in_ring = !is_in_ring;
                round_.figures.moves++;
            }
    }
}

} // namespace chaos
