// once and once_statement, case by case.
#include <gtest/gtest.h>

#include <idem/once.hpp>

#include "server.hpp"

namespace {

using test::effects;
using test::leave_effect;
using test::unique_key;

TEST(Once, FirstRunsAndDuplicateReplays) {
    idem::client db = test::make_client();
    const std::string key = unique_key();
    int runs = 0;
    const auto pay = [&] {
        return idem::once(db, idem::request{key}.of_json(R"({"amount": 1})"), [&](idem::transaction &tx) {
            ++runs;
            leave_effect(tx, key);
            return idem::response{201, R"({"b":1,   "a": 1.0})"};
        });
    };
    const idem::answer first = pay(), second = pay();
    EXPECT_EQ(first.json, R"({"a": 1.0, "b": 1})");
    EXPECT_EQ(first.status_code, 201);
    EXPECT_FALSE(first.replayed);
    EXPECT_EQ(first.attempt, 1);
    EXPECT_EQ(second.json, first.json);
    EXPECT_EQ(second.status_code, 201);
    EXPECT_TRUE(second.replayed);
    EXPECT_EQ(runs, 1);
    EXPECT_EQ(effects(key), 1);
}

} // namespace
