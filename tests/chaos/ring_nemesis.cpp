#include "ring_nemesis.hpp"

#include <algorithm>
#include <atomic>
#include <csignal>
#include <vector>

#include "calls.hpp"

namespace chaos {

namespace {

constexpr std::uint64_t kStream = 1'000'005;
// For the clients that come late. The longest is shorter than the sweep's wait_limit for a map that a paused session has
// locked.
constexpr Nanoseconds kPause = 8 * kMillisecond, kLongestPause = 40 * kMillisecond;
// What the opening needs before its rush: the updates that make it due, and the list of sessions.
constexpr Nanoseconds kNotice = 10 * kMillisecond;
// How long a rush is searched for a session between the map and the window, and how long all go on between two looks.
constexpr Nanoseconds kSearch = 6 * kMillisecond, kStep = 150 * kMicrosecond;
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

std::vector<pid_t> pids(const Answer &answer) {
    std::vector<pid_t> found;
    for (const auto &row : answer.rows)
        found.push_back(static_cast<pid_t>(std::stol(*row[0])));
    return found;
}

std::vector<pid_t> sessions_of_clients(Connection &connection) {
    return pids(connection.run("SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'chaos-client%'"));
}

// Those that have read a map and not yet inserted their keys.
std::vector<pid_t> sessions_at_maps(Connection &connection) {
    return pids(connection.run("SELECT pid FROM pg_locks WHERE relation IN ('idem_ring_1'::regclass, 'idem_ring_2'::regclass) "
                               "AND mode = 'RowExclusiveLock' AND granted"));
}

void signal_all(const std::vector<pid_t> &sessions, int signal) {
    for (const pid_t each : sessions)
        ::kill(each, signal);
}

// Sessions that stand still, but not for longer than kLongestPause: one may hold what the nemesis itself waits for.
class Standstill {
  public:
    explicit Standstill(const std::vector<pid_t> &sessions) : sessions_(sessions) {
        signal_all(sessions_, SIGSTOP);
        watching_ = std::thread([this] {
            for (const Nanoseconds until = now() + kLongestPause; !is_over_ && now() < until;)
                sleep_for(200 * kMicrosecond);
            signal_all(sessions_, SIGCONT);
        });
    }
    ~Standstill() {
        is_over_ = true;
        watching_.join();
    }
    Standstill(const Standstill &) = delete;
    Standstill &operator=(const Standstill &) = delete;

    void let_go_all_but(const std::vector<pid_t> &kept) const {
        for (const pid_t each : sessions_)
            if (std::find(kept.begin(), kept.end(), each) == kept.end())
                ::kill(each, SIGCONT);
    }

  private:
    const std::vector<pid_t> sessions_;
    std::atomic<bool> is_over_ = false;
    std::thread watching_;
};

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

// Opens the next windows while the clients rush and all stand still, one of them, if it can be caught there, with a map that it
// has read and keys that it has not yet inserted. The others go on first. A sweep before that does everything else that is due,
// so that the second one begins with the opening. The rush is chosen after it: it takes long on a busy machine.
void RingNemesis::rotate_once(Connection &connection) {
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
    const std::vector<pid_t> sessions = sessions_of_clients(connection);
    sleep_until(rush + 300 * kMicrosecond);
    for (bool is_open = false; !is_open; sleep_for(kStep)) {
        const Standstill standstill(sessions);
        const std::vector<pid_t> caught = sessions_at_maps(connection);
        if (caught.empty() && now() < rush + kSearch)
            continue;
        if (ask(connection, kRotator, "CALL idem_sweep()"))
            round_.figures.rotations++;
        is_open = true;
        standstill.let_go_all_but(caught);
        if (!caught.empty())
            sleep_for(kPause);
    }
}

void RingNemesis::rotate() {
    Connection connection;
    while (!stopping_)
        rotate_once(connection);
}

void RingNemesis::move_scopes() {
    Random random(round_.seed, kStream);
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
