#include "simulation.hpp"

#include <cstdlib>
#include <sstream>

#include <gtest/gtest.h>

#include "check.hpp"

namespace chaos {
namespace {

std::string text(const Report &report) {
    std::ostringstream out;
    print(out, report);
    return out.str();
}

const std::uint64_t kSeeds = std::getenv("IDEM_CHAOS_SEEDS") != nullptr ? std::stoull(std::getenv("IDEM_CHAOS_SEEDS")) : 40;

class CorrectStore : public testing::TestWithParam<int> {};

TEST_P(CorrectStore, passes) {
    for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
        Simulation simulation;
        simulation.seed = seed + 1000 * static_cast<std::uint64_t>(GetParam());
        switch (GetParam()) {
        case 0:
            break;
        case 1: // leases run out all the time
            simulation.lease = 8'000'000;
            break;
        case 2: // and retentions
            simulation.lease = 8'000'000;
            simulation.retention = 30'000'000;
            break;
        case 3: // everybody on one name
            simulation.names = 1;
            simulation.clients = 16;
            break;
        }
        const auto history = simulate(simulation);
        const auto report = check(history);
        ASSERT_TRUE(report.clean()) << "seed " << simulation.seed << '\n' << text(report);
        EXPECT_EQ(report.undecided, 0U) << "seed " << simulation.seed << '\n' << text(report);
    }
}

INSTANTIATE_TEST_SUITE_P(Settings, CorrectStore, testing::Range(0, 4));

} // namespace
} // namespace chaos
