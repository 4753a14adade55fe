// The outbox by single calls: publish in a transaction, take, ack, nack, renew, backlog.
#include <gtest/gtest.h>

#include <idem/outbox.hpp>
#include <idem/transact.hpp>

#include "proxy.hpp"
#include "scratch.hpp"
#include "server.hpp"

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
        return publish(tx, {topic, R"({"order": "it's \"7\""})", "key", R"({"h": [1]})"}).value();
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
    const auto first = publish(db, {topic, "1", "key"}).value(), second = publish(db, {topic, "2", "key"}).value(),
               other = publish(db, {topic, "3"}).value();
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

// The topic's row of the backlog, as "ready delayed leased parked".
std::string waiting(idem::client &db, const std::string &topic) {
    for (const idem::topic_backlog &each : backlog(db))
        if (each.topic == topic)
            return std::to_string(each.ready) + ' ' + std::to_string(each.delayed) + ' ' + std::to_string(each.leased) + ' ' +
                   std::to_string(each.parked) + (each.oldest ? "" : " without a time");
    return "none";
}

idem::outgoing_message with_dedup_id(const std::string &topic, const std::string &dedup_id) {
    idem::outgoing_message message{topic, "1"};
    message.dedup_id = dedup_id;
    return message;
}

TEST(Outbox, DelayedMessagesWait) {
    idem::client db = test::make_client();
    const std::string topic = test::unique_key();
    idem::outgoing_message message{topic, "1", "key"};
    message.delay = std::chrono::hours(1);
    publish(db, message);
    publish(db, {topic, "2", "key"});
    EXPECT_TRUE(take(db, topic).messages.empty()) << "the key's next message waits for it";
    EXPECT_EQ(waiting(db, topic), "1 1 0 0");
    const auto before = std::chrono::steady_clock::now();
    const std::string soon = topic + " soon";
    publish(db, {soon, "1", {}, {}, std::chrono::milliseconds(20)});
    EXPECT_TRUE(test::eventually([&] { return !take(db, soon).messages.empty(); }));
    EXPECT_GE(std::chrono::steady_clock::now() - before, std::chrono::milliseconds(20));
    message.delay = -std::chrono::hours(1);
    EXPECT_THROW(publish(db, message), idem::bad_input);
}

TEST(Outbox, DedupIdPublishesOnce) {
    idem::client db = test::make_client();
    const std::string topic = test::unique_key();
    const auto first = publish(db, with_dedup_id(topic, "it's one"));
    ASSERT_TRUE(first);
    EXPECT_EQ(publish(db, with_dedup_id(topic, "it's one")), first);
    EXPECT_NE(publish(db, with_dedup_id(topic, "another")), first);
    EXPECT_NE(publish(db, with_dedup_id(topic + "2", "it's one")), first) << "another topic";
    EXPECT_EQ(take(db, topic).messages.size(), 2u);
    EXPECT_THROW(publish(db, with_dedup_id(topic, "")), idem::bad_input);
    EXPECT_EQ(test::ask("SELECT idem.idem_redact(idem.idem_key($1::text, 'another'::text), 'outbox')", {topic}), "t");
    EXPECT_EQ(publish(db, with_dedup_id(topic, "another")), std::nullopt) << "its id was removed";
}

TEST(Outbox, LostReplyIsRetriedOnlyWithADedupId) {
    test::proxy between;
    idem::client_options options;
    options.dsn = between.dsn();
    idem::client db = test::make_client(options);
    const std::string topic = test::unique_key();
    const auto lose_reply = [&] { between.arm({test::side::backend, 1, test::moment::before}); };
    publish(db, with_dedup_id(topic, "warm")); // connects
    lose_reply();
    EXPECT_TRUE(publish(db, with_dedup_id(topic, "one")));
    EXPECT_TRUE(between.has_cut());
    lose_reply();
    EXPECT_EQ(publish_many(db, topic, {{"1", {}, {}, {}, "two"}, {"1", {}, {}, {}, "three"}}).size(), 2u);
    EXPECT_TRUE(between.has_cut());
    EXPECT_EQ(waiting(db, topic), "4 0 0 0") << "each once";
    lose_reply();
    EXPECT_THROW(publish(db, {topic, "1"}), idem::outcome_unknown);
    publish(db, with_dedup_id(topic, "warm")); // connects again
    lose_reply();
    EXPECT_THROW(publish_many(db, topic, {{"1", {}, {}, {}, "four"}, {"1"}}), idem::outcome_unknown);
}

TEST(Outbox, PublishManyInOneCall) {
    idem::client db = test::make_client();
    const std::string topic = test::unique_key();
    const std::vector<idem::bulk_message> messages{
        {"null", "a,{}\"\\", R"({"h": "NULL"})", {}, {}},
        {R"({"text": "it's \"one\"\\"})", {}, {}, std::chrono::hours(1), "one"},
        {R"({"nothing": null})", "NULL", {}, {}, {}},
        {"3", {}, {}, {}, "one"},
    };
    const auto ids = idem::transact(db, [&](idem::transaction &tx) { return publish_many(tx, topic, messages); });
    ASSERT_EQ(ids.size(), 4u);
    EXPECT_LT(ids[0], ids[1]);
    EXPECT_LT(ids[1], ids[2]);
    EXPECT_EQ(ids[1], ids[3]) << "one dedup_id is one message, the first";
    const idem::batch taken = take(db, topic);
    ASSERT_EQ(taken.messages.size(), 2u) << "the delayed one waits";
    EXPECT_EQ(taken.messages[0].payload, "null");
    EXPECT_EQ(taken.messages[0].key, "a,{}\"\\");
    EXPECT_EQ(taken.messages[0].headers, R"({"h": "NULL"})");
    EXPECT_EQ(taken.messages[1].payload, R"({"nothing": null})");
    EXPECT_EQ(taken.messages[1].key, "NULL");
    EXPECT_EQ(taken.messages[1].headers, std::nullopt);
    EXPECT_EQ(waiting(db, topic), "0 1 2 0");
    EXPECT_TRUE(publish_many(db, topic, {}).empty());
    EXPECT_EQ(publish_many(db, topic, {{"4", {}, {}, {}, "one"}}), (std::vector{ids[1]}));
    for (const char *payload : {"", "no JSON", R"(1, "key": "x")", R"(1}, {"payload": 2)"})
        EXPECT_THROW(publish_many(db, topic, {{"1"}, {payload}}), idem::bad_input) << payload;
    EXPECT_THROW(publish_many(db, topic, {{"1", ""}}), idem::bad_input);
    EXPECT_THROW(publish_many(db, "", {}), idem::bad_input);
    EXPECT_EQ(waiting(db, topic), "0 1 2 0") << "all or none";
}

TEST(Outbox, RenewKeepsMessagesOfABatch) {
    idem::client db = test::make_client();
    const std::string topic = test::unique_key();
    publish_many(db, topic, {{"1"}, {"2"}, {"3"}});
    const idem::batch taken = take(db, topic, 3, std::chrono::milliseconds(1));
    ASSERT_EQ(taken.messages.size(), 3u);
    const std::vector<std::int64_t> kept{taken.messages[0].id, taken.messages[2].id};
    EXPECT_EQ(renew(db, kept, taken.fence, std::chrono::hours(1)), 2) << "nobody took them back";
    idem::batch next;
    EXPECT_TRUE(test::eventually([&] { return !(next = take(db, topic)).messages.empty(); }));
    EXPECT_EQ(next.ids(), std::vector<std::int64_t>{taken.messages[1].id}) << "the lease of the other ran out";
    EXPECT_EQ(renew(db, taken.ids(), taken.fence, std::chrono::hours(1)), 2) << "a stale fence renews nothing";
    EXPECT_EQ(waiting(db, topic), "0 0 3 0");
    EXPECT_EQ(ack(db, taken.ids(), taken.fence), 2);
    EXPECT_EQ(renew(db, kept, taken.fence, std::chrono::hours(1)), 0);
    EXPECT_EQ(waiting(db, topic), "0 0 1 0");
    EXPECT_EQ(ack(db, next.ids(), next.fence), 1);
    EXPECT_EQ(waiting(db, topic), "none");
    EXPECT_THROW(renew(db, kept, taken.fence, std::chrono::hours(0)), idem::bad_input);
}

} // namespace
