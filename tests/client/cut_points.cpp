#include "cut_points.hpp"

#include <cstdlib>
#include <iostream>
#include <memory>

#include <gtest/gtest.h>

#include "server.hpp"

namespace test {

int cut_repetitions() {
    const char *given = std::getenv("IDEM_CUT_REPETITIONS");
    return given && *given ? std::atoi(given) : 1;
}

idem::retry_policy swift() {
    idem::retry_policy policy;
    policy.first_pause = std::chrono::milliseconds(1);
    policy.longest_pause = std::chrono::milliseconds(2);
    return policy;
}

void at_every_cut_point(const flow &run, const cut_options &options) {
    proxy between;
    idem::client_options through = options.client;
    through.dsn = between.dsn();
    if (!options.application_name.empty())
        through.dsn += " application_name=" + options.application_name;
    std::unique_ptr<idem::client> db;
    const auto prepare = [&] {
        if (!options.warm)
            db.reset(); // its last message is not part of the flow
        if (!db)
            db = std::make_unique<idem::client>(through);
        if (options.warm)
            run(*db, unique_key("warm"), true);
    };

    prepare();
    between.count();
    run(*db, unique_key("calm"), true);
    const std::string messages[] = {between.seen(side::frontend), between.seen(side::backend)};
    int points = 0, runs = 0, cuts = 0;
    for (const side by : {side::frontend, side::backend}) {
        const std::string &sent = messages[static_cast<int>(by)];
        for (int nth = 1; nth <= static_cast<int>(sent.size()); ++nth)
            for (const moment when : {moment::before, moment::after}) {
                const cut here{by, nth, when, options.unnoticed};
                ++points;
                for (int i = 0; i < cut_repetitions(); ++i, ++runs) {
                    SCOPED_TRACE(to_string(here) + " of " + sent + ", run " + std::to_string(i + 1));
                    prepare();
                    between.arm(here);
                    run(*db, unique_key("cut"), false);
                    // The last message may still be inside the proxy when the flow has its answer.
                    if (options.sends_all && !eventually([&] { return between.has_cut(); }))
                        ADD_FAILURE() << "the cut was not made: seen " << between.seen(by);
                    cuts += between.has_cut();
                    if (testing::Test::HasFailure())
                        return;
                }
            }
    }
    std::cout << points << " cut points, " << runs << " runs, " << cuts << " cut: frontend " << messages[0] << ", backend "
              << messages[1] << '\n';
}

} // namespace test
