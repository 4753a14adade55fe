#include "run.hpp"

#include <barrier>
#include <deque>
#include <stop_token>
#include <thread>

#include "crew.hpp"
#include "session.hpp"

namespace demo::cron {
namespace {

Answer run(Session &session, Shift &shift, const Half &half) {
    try {
        return half.run(shift);
    } catch (const pqxx::failure &) {
        if (shift.mishap() != Mishap::dies || !session.broken())
            throw;
        session.reconnect(); // for the next night
        return "died";
    }
}

} // namespace

Course run_load(const Load &load, const Half &half) {
    std::vector<Session> sessions;
    for (std::size_t host = 0; host < kHosts; ++host)
        sessions.emplace_back(shop_conninfo(half.schema), [&half](pqxx::connection &connection) {
            Shift::prepare(connection);
            half.prepare(connection);
        });

    std::deque<Meanwhile> meanwhiles(load.size());
    std::barrier<> midnight{kHosts};
    std::array<Course, kHosts> courses;
    const auto start = std::chrono::steady_clock::now();
    run_together(kHosts, [&](std::size_t host, std::stop_token stop) {
        BarrierPlace place{midnight};
        for (std::size_t i = 0; i < load.size() && !stop.stop_requested(); ++i) {
            place.wait();
            std::this_thread::sleep_for(load[i].late_by[host]);
            Shift shift{sessions[host], static_cast<int>(i + 1), load[i], meanwhiles[i], stop};
            const Answer answer = run(sessions[host], shift, half);
            ++meanwhiles[i].hosts_ended;
            courses[host].parts.push_back({static_cast<int>(i + 1), host, shift.mishap(), answer});
            if (courses[host].refusal.empty())
                courses[host].refusal = shift.refusal();
        }
    });

    Course course{.parts = {}, .time = std::chrono::steady_clock::now() - start};
    for (const Course &of_host : courses) {
        course.parts.insert(course.parts.end(), of_host.parts.begin(), of_host.parts.end());
        if (course.refusal.empty())
            course.refusal = of_host.refusal;
    }
    return course;
}

} // namespace demo::cron
