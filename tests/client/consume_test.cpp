// The inbox. transact_test.cpp tests the behaviour that it shares with other flows.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include <idem/consume.hpp>
#include <idem/keys.hpp>

#include "server.hpp"

namespace {

using test::effects;
using test::leave_effect;
using test::unique_key;

class Inbox : public testing::Test {
  protected:
    idem::client db_ = test::make_client();
    const std::string id_ = unique_key();
};

TEST_F(Inbox, KeysAreTheServers) {
    for (const char *consumer : {"", "plain", "a:b", "a\\", "\\:", "it's \"\n\xC3\xA9", " "})
        for (const char *id : {"", ":", "b:c", "\\", "\xE6\xBC\xA2"})
            EXPECT_EQ(idem::detail::inbox_key(consumer, id),
                      test::ask("SELECT idem.idem_key($1::text, $2::text)", {consumer, id}));
}

TEST_F(Inbox, OneEffectPerConsumerAndMessage) {
    const auto handle = [&](const std::string &consumer) {
        return consume(db_, consumer, id_, [&](idem::transaction &tx) { leave_effect(tx, id_); });
    };
    EXPECT_TRUE(handle("mail"));
    EXPECT_FALSE(handle("mail"));
    EXPECT_TRUE(handle("stock"));
    EXPECT_EQ(effects(id_), 2);
    EXPECT_TRUE(idem::lookup(db_, "mail:" + id_, "inbox"));
}

TEST_F(Inbox, EightWorkersOneEffect) {
    std::atomic<int> done{0};
    std::vector<std::thread> workers;
    for (int i = 0; i < 8; ++i)
        workers.emplace_back([&] {
            if (consume(db_, "mail", id_, [&](idem::transaction &tx) { leave_effect(tx, id_); }))
                ++done;
            EXPECT_EQ(effects(id_), 1) << "a duplicate may be told only of what has committed";
        });
    for (std::thread &each : workers)
        each.join();
    EXPECT_EQ(done, 1);
}

TEST_F(Inbox, NeedNotWait) {
    consume(db_, "mail", id_, [&](idem::transaction &) {
        idem::consume_options options;
        options.wait = idem::duration(0);
        EXPECT_THROW(consume(db_, "mail", id_, options, [](idem::transaction &) { ADD_FAILURE() << "twice"; }),
                     idem::in_flight);
    });
}

TEST_F(Inbox, BatchRunsWithTheNewOnes) {
    const std::string odd = unique_key("it's {\"odd\"}:\\,"), seen = unique_key();
    EXPECT_TRUE(consume(db_, "mail", seen, [](idem::transaction &) {}));
    const auto handle = [&](const std::vector<std::string> &ids) {
        return consume_many(db_, "mail", ids, [&](idem::transaction &tx, const std::vector<std::string> &fresh) {
            for (const std::string &each : fresh)
                leave_effect(tx, each);
        });
    };
    EXPECT_EQ(handle({odd, seen, id_, odd}), (std::vector<std::string>{odd, id_}));
    EXPECT_TRUE(handle({odd, seen, id_}).empty());
    EXPECT_TRUE(handle({}).empty());
    EXPECT_FALSE(consume(db_, "mail", odd, [](idem::transaction &) {})) << "batch and single share their keys";
    EXPECT_EQ(effects(odd), 1);
    EXPECT_EQ(effects(id_), 1);
    EXPECT_EQ(effects(seen), 0);
}

TEST_F(Inbox, BatchRollsBackAsOne) {
    struct own_error {};
    const std::string other = unique_key();
    EXPECT_THROW(consume_many(db_, "mail", {id_, other},
                              [&](idem::transaction &tx, const std::vector<std::string> &) {
                                  leave_effect(tx, id_);
                                  throw own_error();
                              }),
                 own_error);
    EXPECT_EQ(effects(id_), 0);
    EXPECT_TRUE(consume(db_, "mail", other, [](idem::transaction &) {}));
}

TEST_F(Inbox, BatchesInOppositeOrderDoNotDeadlock) {
    std::vector<std::string> ids, reversed;
    for (int i = 0; i < 50; ++i)
        ids.push_back(unique_key());
    reversed.assign(ids.rbegin(), ids.rend());
    std::atomic<std::size_t> done{0};
    std::vector<std::thread> workers;
    for (int i = 0; i < 8; ++i)
        workers.emplace_back([&, i] {
            idem::consume_options options;
            options.flow.retry = idem::retry_policy{};
            options.flow.retry->attempts = 1;
            done += consume_many(db_, "mail", i % 2 ? ids : reversed, options,
                                 [](idem::transaction &, const std::vector<std::string> &) {})
                        .size();
        });
    for (std::thread &each : workers)
        each.join();
    EXPECT_EQ(done, 50u);
}

} // namespace
