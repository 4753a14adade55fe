#include "run.hpp"

#include <stop_token>

#include "crew.hpp"
#include "session.hpp"

namespace demo::orders {

Course run_load(const Load &load, const Half &half) {
    std::vector<Session> sessions;
    for (std::size_t worker = 0; worker < kWorkers; ++worker)
        sessions.emplace_back(shop_conninfo(half.schema), [&half](pqxx::connection &connection) {
            Job::prepare(connection);
            half.prepare(connection);
        });

    std::array<std::vector<Handled>, kWorkers> handled;
    const auto start = std::chrono::steady_clock::now();
    for (const Round &round : load)
        run_together(kWorkers, [&](std::size_t worker, std::stop_token stop) {
            for (const Event &event : round[worker]) {
                if (stop.stop_requested())
                    return;
                handled[worker].push_back({worker, event, half.handle(Job{sessions[worker].connection(), event})});
            }
        });

    Course course{.handled = {}, .time = std::chrono::steady_clock::now() - start};
    for (const auto &of_worker : handled)
        course.handled.insert(course.handled.end(), of_worker.begin(), of_worker.end());
    return course;
}

} // namespace demo::orders
