#include "nemesis.hpp"

#include <algorithm>
#include <csignal>
#include <exception>

#include "calls.hpp"

namespace chaos {

namespace {

constexpr std::uint64_t kStream = 1'000'002;
constexpr Nanoseconds kSweepInterval = 150 * kMillisecond;
const std::vector<std::string> kVacuumed{"idem_keys", "idem_locks", "idem_ring_1_0", "idem_ring_2_3"};
const std::vector<std::string> kVacuumedWithoutRings{"idem_keys", "idem_locks"};

} // namespace

const std::vector<std::string> &Nemesis::names() {
    static const std::vector<std::string> kNames{"cancel",     "terminate", "cut",      "crash", "kill",
                                                 "checkpoint", "vacuum",    "prepared", "rings"};
    return kNames;
}

Nemesis::Nemesis(Round &round) : round_(round), random_(round.seed, kStream) {
    Figures &figures = round.figures;
    const auto count = [](const Answer &answer) { return answer.ok() && answer.field() == "t" ? 1U : 0U; };
    add("cancel", 10 * kMillisecond, 120 * kMillisecond, [this, &figures, count] {
        figures.cancels += count(ask("SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE state = 'active' AND "
                                     "application_name LIKE 'chaos-c%' ORDER BY random() LIMIT 1"));
    });
    add("terminate", 150 * kMillisecond, 1000 * kMillisecond, [this, &figures, count] {
        figures.terminations += count(ask("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE "
                                          "application_name LIKE 'chaos-c%' ORDER BY random() LIMIT 1"));
    });
    add("checkpoint", 200 * kMillisecond, 2500 * kMillisecond,
        [this, &figures] { figures.checkpoints += ask("CHECKPOINT").ok(); });
    const bool is_portable = round_.options.is_portable;
    add("vacuum", 300 * kMillisecond, 3000 * kMillisecond, [this, &figures, is_portable] {
        figures.vacuums += ask("VACUUM " + random_.pick(is_portable ? kVacuumedWithoutRings : kVacuumed)).ok();
    });
    add("crash", 3000 * kMillisecond, 8000 * kMillisecond, [this] { crash(); });
    add("kill", 4000 * kMillisecond, 12000 * kMillisecond, [this] { kill_backend(); });
    if (is_portable && random_.chance(0.5)) // in some rounds, as the worker
        add("worker", kSweepInterval, kSweepInterval, [this] { sweep(); });
    if (round_.options.has("rings") && !is_portable)
        rings_.emplace(round_);
    thread_ = std::thread([this] { work(); });
}

Nemesis::~Nemesis() {
    stopping_ = true;
    thread_.join();
}

void Nemesis::add(const char *name, Nanoseconds least, Nanoseconds most, std::function<void()> make) {
    if (round_.options.has(name))
        troubles_.push_back({least, most, std::move(make), now() + random_.between(least, most)});
}

Answer Nemesis::ask(const std::string &sql) {
    if (!connection_.is_open())
        connection_.open(round_.server.dsn("chaos-nemesis"));
    return connection_.run(sql);
}

void Nemesis::crash() {
    connection_.close();
    round_.server.kill();
    round_.figures.crashes++;
    if (random_.chance(0.3)) // prepared transactions, leases and clients wait for a while
        sleep_for(random_.between(1, 300) * kMillisecond);
    round_.server.start();
}

// The postmaster throws everybody out, and recovers.
void Nemesis::kill_backend() {
    const Answer victim =
        ask("SELECT pid FROM pg_stat_activity WHERE application_name LIKE 'chaos-c%' ORDER BY random() LIMIT 1");
    if (!victim.ok() || !victim.field())
        return;
    connection_.close();
    const auto pid = static_cast<pid_t>(std::stol(*victim.field()));
    if (::kill(pid, SIGKILL) == 0)
        round_.figures.backend_kills++;
    for (const Nanoseconds until = now() + 10 * kSecond; ::kill(pid, 0) == 0 && now() < until;)
        sleep_for(kMillisecond); // until the postmaster knows
    round_.server.await();
}

// In the place of a worker, where there is none.
void Nemesis::sweep() {
    const Answer answer = ask("CALL idem_sweep()");
    if (!answer.sqlstate.empty() && !is_farewell(answer.sqlstate))
        round_.findings.add({"unexpected_error", "", answer.sqlstate + ": " + answer.message + ", from a sweep", {}});
}

void Nemesis::work() {
    try {
        while (!stopping_) {
            for (Trouble &trouble : troubles_)
                if (now() >= trouble.due && !stopping_) {
                    trouble.make();
                    trouble.due = now() + random_.between(trouble.least, trouble.most);
                }
            sleep_for(5 * kMillisecond);
        }
        round_.server.await();
    } catch (const std::exception &error) {
        round_.findings.add({"server", "", error.what(), {}});
    }
}

} // namespace chaos
