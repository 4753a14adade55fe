// Numbers and UUIDs.
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <thread>

#include <idem/ids.hpp>
#include <idem/transact.hpp>

#include "proxy.hpp"
#include "server.hpp"

namespace {

TEST(Ids, Grow) {
    idem::client db = test::make_client();
    const std::int64_t first = next_id(db);
    const std::vector<std::int64_t> more = next_ids(db, 1000);
    ASSERT_EQ(more.size(), 1000u);
    EXPECT_GT(more.front(), first);
    EXPECT_TRUE(std::is_sorted(more.begin(), more.end()));
    EXPECT_EQ(std::set<std::int64_t>(more.begin(), more.end()).size(), 1000u);
    EXPECT_TRUE(next_ids(db, 0).empty());
    struct own_error {};
    std::int64_t unused = 0;
    EXPECT_THROW(idem::transact(db,
                                [&](idem::transaction &tx) {
                                    unused = next_id(tx);
                                    throw own_error();
                                }),
                 own_error);
    EXPECT_GT(unused, more.back());
    EXPECT_GT(next_id(db), unused);
}

TEST(Ids, AreUniqueAcrossThreads) {
    idem::client db = test::make_client();
    std::vector<std::vector<std::int64_t>> drawn(8);
    std::vector<std::thread> threads;
    for (std::vector<std::int64_t> &each : drawn)
        threads.emplace_back([&db, &each] {
            for (int i = 0; i < 20; ++i)
                for (const std::int64_t id : next_ids(db, 50))
                    each.push_back(id);
        });
    std::set<std::int64_t> all;
    for (std::size_t i = 0; i < threads.size(); ++i) {
        threads[i].join();
        all.insert(drawn[i].begin(), drawn[i].end());
    }
    EXPECT_EQ(all.size(), 8000u);
}

TEST(Ids, UuidsAreOfVersionSevenAndGrow) {
    idem::client db = test::make_client();
    idem::transact(db, [](idem::transaction &tx) {
        const std::string first = uuid_v7(tx), second = uuid_v7(tx);
        EXPECT_EQ(first.size(), 36u);
        EXPECT_EQ(first[14], '7');
        EXPECT_LT(first, second);
    });
}

// A number may stay unused, so the call is retried after a lost reply.
TEST(Ids, AreDrawnAgainAfterALostReply) {
    test::proxy between;
    idem::client_options options;
    options.dsn = between.dsn();
    idem::client db = test::make_client(options);
    const std::int64_t first = next_id(db);
    between.arm({test::side::backend, 1, test::moment::before});
    EXPECT_GT(next_id(db), first);
    EXPECT_TRUE(between.has_cut());
}

// A function of another release, or a user's own function of that name.
TEST(Ids, AnAnswerThatIsNoNumberIsAnError) {
    idem::client db = test::make_client();
    struct rolled_back {};
    const auto answered = [&db](const std::string &what) {
        std::string sqlstate, message;
        EXPECT_THROW(idem::transact(db,
                                    [&](idem::transaction &tx) {
                                        tx.exec("CREATE OR REPLACE FUNCTION idem.idem_next_id() RETURNS bigint LANGUAGE sql AS "
                                                "'SELECT " +
                                                what + "'");
                                        try {
                                            next_id(tx);
                                        } catch (const idem::error &e) {
                                            sqlstate = e.sqlstate();
                                            message = e.what();
                                        }
                                        throw rolled_back();
                                    }),
                     rolled_back);
        return sqlstate + ' ' + message;
    };
    EXPECT_EQ(answered("7"), " ");
    EXPECT_EQ(answered("NULL::bigint"), "XX000 the server answered NULL where a number was expected");
}

} // namespace
