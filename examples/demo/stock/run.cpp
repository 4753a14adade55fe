#include "run.hpp"

#include <atomic>
#include <random>
#include <stop_token>

#include "crew.hpp"
#include "session.hpp"

namespace demo::stock {

Load make_load(std::uint64_t seed) {
    std::mt19937_64 random{seed};
    std::uniform_int_distribution work_time{500, 1500};
    Load load;
    for (std::size_t attempt = 0; attempt < kAttempts; ++attempt)
        load.emplace_back(work_time(random));
    return load;
}

// Everybody is connected before the first one buys: the time is the flow's alone.
Course run_flow(const Flow &flow, const Load &load) {
    std::vector<Session> sessions;
    for (std::size_t place = 0; place < kConnections; ++place)
        sessions.emplace_back(shop_conninfo(flow.schema), [&flow](pqxx::connection &connection) {
            Attempt::prepare(connection);
            flow.prepare(connection);
        });

    Course course{.answers = std::vector<Answer>(load.size())};
    std::atomic<std::size_t> next = 0;
    const auto start = std::chrono::steady_clock::now();
    run_together(kConnections, [&](std::size_t place, std::stop_token stop) {
        for (std::size_t i = next++; i < load.size() && !stop.stop_requested(); i = next++)
            course.answers[i] = flow.buy(Attempt{sessions[place].connection(), static_cast<int>(i), load[i]});
    });
    course.time = std::chrono::steady_clock::now() - start;
    return course;
}

} // namespace demo::stock
