// The connection breaks at every message of a flow with a key. At each point: the work's effect exists exactly once, the answer
// is the stored one, and it says `replayed` only when another caller did the work.
#include <gtest/gtest.h>

#include <future>
#include <mutex>

#include <idem/once.hpp>

#include "cut_points.hpp"
#include "server.hpp"

namespace {

using test::at_every_cut_point;
using test::cut_options;

// One connection that is not cut.
class observer {
  public:
    struct sight {
        int effects;
        std::string response, state;
    };

    sight of(const std::string &key) {
        const std::lock_guard lock(lock_);
        pqxx::nontransaction tx(db_);
        const pqxx::result seen = idem::detail::exec_with(tx,
                                                          "SELECT (SELECT count(*) FROM public.client_effect WHERE key = $1), "
                                                          "response, state FROM (VALUES (1)) one LEFT JOIN "
                                                          "idem.idem_lookup($1) ON true",
                                                          {key});
        return {seen[0][0].as<int>(), seen[0][1].is_null() ? "" : seen[0][1].c_str(),
                seen[0][2].is_null() ? "" : seen[0][2].c_str()};
    }

  private:
    std::mutex lock_;
    pqxx::connection db_{test::dsn()};
};

idem::once_options swift_once() {
    idem::once_options options;
    options.retry = test::swift();
    return options;
}

// The work answers differently each time it runs, so an answer that is not the stored one is noticed.
idem::answer work_once(idem::client &db, const std::string &key, int &runs) {
    return idem::once(db, idem::request{key}.of_json(R"({"amount": 7})"), swift_once(), [&](idem::transaction &tx) {
        test::leave_effect(tx, key);
        return idem::response{201, R"({"run": )" + std::to_string(++runs) + "}"};
    });
}

void expect_one_effect(observer &eyes, const std::string &key, const idem::answer &told) {
    const observer::sight seen = eyes.of(key);
    EXPECT_EQ(seen.effects, 1);
    EXPECT_EQ(seen.state, "completed");
    EXPECT_EQ(told.response, seen.response);
    EXPECT_EQ(told.status_code, 201);
}

test::flow once_alone(observer &eyes, idem::client &beside) {
    return [&](idem::client &db, const std::string &key, bool calm) {
        int runs = 0;
        const idem::answer told = work_once(db, key, runs);
        EXPECT_FALSE(told.replayed);
        if (calm) {
            EXPECT_EQ(runs, 1);
        }
        expect_one_effect(eyes, key, told);
        const int before = runs;
        const idem::answer again = work_once(beside, key, runs);
        EXPECT_TRUE(again.replayed);
        EXPECT_EQ(again.response, told.response);
        EXPECT_EQ(runs, before);
    };
}

TEST(CutPoints, OnceOnWarmConnection) {
    observer eyes;
    idem::client beside = test::make_client();
    at_every_cut_point(once_alone(eyes, beside));
}

TEST(CutPoints, OnceFromTheFirstConnect) {
    observer eyes;
    idem::client beside = test::make_client();
    cut_options cold;
    cold.warm = false;
    cold.client.retry = test::swift();
    at_every_cut_point(once_alone(eyes, beside), cold);
}

// Until the server notices the broken connection, a backend without a client holds the claim.
TEST(CutPoints, OnceWhileTheServerDoesNotNotice) {
    observer eyes;
    idem::client beside = test::make_client();
    cut_options slow;
    slow.unnoticed = std::chrono::milliseconds(10);
    at_every_cut_point(once_alone(eyes, beside), slow);
}

// Two callers at the same time, one of which is cut: one does the work, and the other gets a replay.
TEST(CutPoints, OnceBesideAnotherCaller) {
    observer eyes;
    idem::client beside = test::make_client();
    const auto call = [](idem::client &db, const std::string &key) {
        return idem::once(db, idem::request{key}.wait(idem::wait_limit::forever()), swift_once(), [&](idem::transaction &tx) {
            test::leave_effect(tx, key);
            return idem::response{201, "{\"by\": \"" + test::unique_key() + "\"}"};
        });
    };
    cut_options racing;
    racing.sends_all = false; // the second caller sends fewer messages
    const test::flow both = [&](idem::client &db, const std::string &key, bool calm) {
        if (calm) {
            call(db, key);
            return;
        }
        auto other = std::async(std::launch::async, [&] { return call(beside, key); });
        const idem::answer mine = call(db, key), theirs = other.get();
        EXPECT_NE(mine.replayed, theirs.replayed);
        EXPECT_EQ(mine.response, theirs.response);
        const observer::sight seen = eyes.of(key);
        EXPECT_EQ(seen.effects, 1);
        EXPECT_EQ(mine.response, seen.response);
    };
    at_every_cut_point(both, racing);
}

// Without an owner's nonce the answer cannot tell which caller did the work. Everything else holds.
test::flow statement_alone(observer &eyes) {
    return [&](idem::client &db, const std::string &key, bool calm) {
        const idem::answer told = idem::once_statement(
            db, idem::request{key}.of_text("work"),
            "WITH effect AS (INSERT INTO public.client_effect (key) VALUES ($1) RETURNING at) SELECT $1 AS key, at FROM effect",
            {key}, swift_once());
        if (calm) {
            EXPECT_FALSE(told.replayed);
        }
        const observer::sight seen = eyes.of(key);
        EXPECT_EQ(seen.effects, 1);
        EXPECT_EQ(told.response, seen.response);
    };
}

TEST(CutPoints, OnceStatementOnWarmConnection) {
    observer eyes;
    at_every_cut_point(statement_alone(eyes));
}

TEST(CutPoints, OnceStatementFromTheFirstConnect) {
    observer eyes;
    cut_options cold;
    cold.warm = false;
    cold.client.retry = test::swift();
    at_every_cut_point(statement_alone(eyes), cold);
}

TEST(CutPoints, OnceStatementWhileTheServerDoesNotNotice) {
    observer eyes;
    cut_options slow;
    slow.unnoticed = std::chrono::milliseconds(10);
    at_every_cut_point(statement_alone(eyes), slow);
}

} // namespace
