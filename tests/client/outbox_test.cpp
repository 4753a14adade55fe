// The outbox by single calls: publish in a transaction, take, ack, nack.
#include <gtest/gtest.h>

#include <idem/outbox.hpp>
#include <idem/transact.hpp>

#include "scratch.hpp"

namespace {

TEST(Outbox, PublishedWithTheTransaction) {
    idem::client db = test::make_client();
    const std::string topic = test::unique_key();
    struct own_error {};
    EXPECT_THROW(idem::transact(db,
                                [&](idem::transaction &tx) {
                                    publish(tx, {topic, "1"});
                                    throw own_error();
                                }),
                 own_error);
    EXPECT_TRUE(take(db, topic).messages.empty());
    const auto id = idem::transact(db, [&](idem::transaction &tx) {
        return publish(tx, {topic, R"({"order": "it's \"7\""})", "key", R"({"h": [1]})"});
    });
    const idem::batch taken = take(db, topic);
    ASSERT_EQ(taken.messages.size(), 1u);
    EXPECT_GT(taken.fence, 0);
    EXPECT_EQ(taken.ids(), std::vector<std::int64_t>{id});
    EXPECT_EQ(taken.messages[0].topic, topic);
    EXPECT_EQ(taken.messages[0].key, "key");
    EXPECT_EQ(taken.messages[0].payload, R"({"order": "it's \"7\""})");
    EXPECT_EQ(taken.messages[0].headers, R"({"h": [1]})");
    EXPECT_EQ(taken.messages[0].attempt, 1);
    EXPECT_TRUE(take(db, topic).messages.empty()) << "it is out";
    EXPECT_EQ(ack(db, taken.ids(), taken.fence), 1);
    EXPECT_EQ(ack(db, taken.ids(), taken.fence), 0);
}

TEST(Outbox, OrderOfAKeyAndTheWayBack) {
    idem::client db = test::make_client();
    const std::string topic = test::unique_key();
    const auto first = publish(db, {topic, "1", "key"}), second = publish(db, {topic, "2", "key"}),
               other = publish(db, {topic, "3"});
    EXPECT_EQ(take(db, topic, 1).ids(), std::vector<std::int64_t>{first});
    const idem::batch taken = take(db, topic, 100, std::chrono::milliseconds(1));
    EXPECT_EQ(taken.ids(), std::vector<std::int64_t>{other});
    EXPECT_TRUE(taken.messages[0].key == std::nullopt && taken.messages[0].headers == std::nullopt);
    idem::batch again;
    EXPECT_TRUE(test::eventually([&] { return !(again = take(db, topic)).messages.empty(); })) << "the lease ran out";
    EXPECT_EQ(again.ids(), std::vector<std::int64_t>{other});
    EXPECT_EQ(again.messages[0].attempt, 2);
    EXPECT_EQ(nack(db, taken.ids(), taken.fence), 0) << "a stale fence";
    EXPECT_EQ(nack(db, again.ids(), again.fence, std::chrono::milliseconds(0)), 1);
    EXPECT_EQ(take(db, topic).messages.at(0).attempt, 3);
    EXPECT_LT(first, second);
    EXPECT_THROW(take(db, ""), idem::bad_input);
    EXPECT_THROW(publish(db, {topic, "no JSON"}), idem::bad_input);
}

} // namespace
