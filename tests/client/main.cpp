#include <gtest/gtest.h>

#include <cstdlib>
#include <iostream>

#include "server.hpp"

namespace {

struct shared_server : testing::Environment {
    void SetUp() override { test::prepare_database(test::dsn()); }
};

} // namespace

int main(int argc, char **argv) {
    testing::InitGoogleTest(&argc, argv);
    // Otherwise libpq would connect to any server of this machine. CTest counts a test that prints this word as skipped.
    if (std::getenv("PGHOST") == nullptr && !testing::GTEST_FLAG(list_tests)) {
        std::cout << "[  SKIPPED ] no server: eval \"$(scripts/cluster.sh env NAME)\" says which\n";
        return 0;
    }
    testing::AddGlobalTestEnvironment(new shared_server);
    return RUN_ALL_TESTS();
}
