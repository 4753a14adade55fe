// The connection breaks at every message of each flow and of each call that writes. At each point: there is at most one effect,
// an answer agrees with the state of the server, and outcome_unknown is thrown only if COMMIT was under way.
#include <gtest/gtest.h>

#include <thread>

#include <idem/keys.hpp>
#include <idem/machines.hpp>
#include <idem/rows.hpp>
#include <idem/tokens.hpp>

#include "cut_points.hpp"
#include "flows.hpp"

namespace {

using namespace std::chrono_literals;
using idem::name;

const std::string kUnknown = "unknown";

// One connection that is not cut. It finds the others by their application_name.
class observer {
  public:
    explicit observer(std::string application) : application_(std::move(application)) {}

    int effects(const std::string &key) { return count("SELECT count(*) FROM public.client_effect WHERE key = $1", key); }
    void reset(const test::scratch &rows) {
        pqxx::nontransaction tx(db_);
        rows.reset(tx);
    }
    // A backend whose connection broke may still execute what it received before.
    void wait_until_settled(bool in_doubt) {
        const auto longest = std::chrono::steady_clock::now() + 20s;
        while (count("SELECT count(*) FROM pg_stat_activity WHERE application_name = $1", application_) > (in_doubt ? 0 : 1)) {
            ASSERT_LT(std::chrono::steady_clock::now(), longest);
            std::this_thread::sleep_for(1ms);
        }
    }

  private:
    int count(const std::string &sql, const std::string &value) {
        pqxx::nontransaction tx(db_);
        return idem::detail::exec_with(tx, sql, {value})[0][0].as<int>();
    }

    const std::string application_;
    pqxx::connection db_{test::dsn() + " application_name=observer"};
};

struct manner {
    const char *name;
    bool warm;
    std::chrono::milliseconds unnoticed;
};

const manner kManners[] = {{"warm", true, 0ms}, {"cold", false, 0ms}, {"unnoticed", true, 10ms}};

class CutBase {
  protected:
    void cut_everywhere(const manner &how, const test::flow &run) {
        test::cut_options options;
        options.warm = how.warm;
        options.unnoticed = how.unnoticed;
        options.client.retry = test::swift();
        options.application_name = application_;
        test::at_every_cut_point(run, options);
    }

    const std::string application_ = test::unique_key("cut");
    idem::client beside_ = test::make_client();
    const test::scratch rows_;
    observer eyes_{application_};
};

// --- Flows of one transaction ---------------------------------------------------------------------------------------------

class FlowCutPoints : public testing::TestWithParam<std::tuple<test::transaction_flow, manner>>, protected CutBase {};

TEST_P(FlowCutPoints, OneEffectAtMostAndTheRightAnswer) {
    const auto &[flow, how] = GetParam();
    const bool runs_anew = std::string(flow.second) == "again";
    int in_doubt = 0;
    const auto one = [&, &flow = flow](idem::client &db, const std::string &key, bool calm) {
        eyes_.reset(rows_);
        const test::flow_setting here{rows_, key, idem::issue_token(beside_, "me")};
        int runs = 0;
        bool worked = false;
        const auto work = [&](idem::transaction &tx) {
            worked = false;
            test::leave_effect(tx, key);
            worked = true;
            ++runs;
        };
        std::string told;
        try {
            told = flow.run(db, here, work, {});
        } catch (const idem::outcome_unknown &e) {
            EXPECT_EQ(flow.unknown, nullptr) << e.what();
            EXPECT_TRUE(worked) << "in doubt, and COMMIT was never sent: " << e.what();
            told = kUnknown;
            ++in_doubt;
        }
        eyes_.wait_until_settled(told == kUnknown);
        const int effects = eyes_.effects(key);
        if (calm) {
            EXPECT_EQ(runs, 1);
        }
        if (told == kUnknown && !calm) {
            EXPECT_LE(effects, 1);
        } else {
            EXPECT_EQ(effects, 1);
            if (calm || flow.unknown == nullptr || told != flow.unknown) {
                EXPECT_EQ(told, flow.first);
            }
        }
        if (runs_anew)
            return;
        const std::string again = flow.run(beside_, here, work, {});
        EXPECT_EQ(again, effects == 1 ? flow.second : flow.first);
        EXPECT_EQ(eyes_.effects(key), 1);
    };
    cut_everywhere(how, one);
    if (flow.unknown == nullptr) {
        EXPECT_GT(in_doubt, 0) << "no reply to COMMIT was lost: this test shows nothing";
    }
}

INSTANTIATE_TEST_SUITE_P(Flows, FlowCutPoints,
                         testing::Combine(testing::ValuesIn(test::transaction_flows()), testing::ValuesIn(kManners)),
                         [](const auto &each) {
                             return std::string(std::get<0>(each.param).name) + "_" + std::get<1>(each.param).name;
                         });

// A caller whose work is idempotent may simply call again after outcome_unknown.
TEST(CutPoints, TransactWithAnIdempotentEffect) {
    test::observer eyes;
    test::at_every_cut_point([&](idem::client &db, const std::string &key, bool) {
        idem::flow_options options;
        options.retry = test::swift();
        const auto call = [&] {
            return idem::transact(db, options, [&](idem::transaction &tx) {
                if (idem::claim(tx, key))
                    test::leave_effect(tx, key);
                return 7;
            });
        };
        int told = 0;
        for (int i = 0; i < 2 && told == 0; ++i)
            try {
                told = call();
            } catch (const idem::outcome_unknown &) {
            }
        EXPECT_EQ(told, 7);
        EXPECT_EQ(eyes.effects(key), 1);
    });
}

// --- Single calls on a client ---------------------------------------------------------------------------------------------

struct single_call {
    const char *name;
    const char *first;  ///< the outcome of the first call
    const char *second; ///< the outcome of a second call
    std::function<std::string(idem::client &, const test::flow_setting &)> run;
};

const idem::row kOne{{"id", 1}};

idem::row with_one_more(const std::string &row) {
    const std::string member = "\"quantity\": ";
    const std::size_t at = row.find(member) + member.size();
    return {{"quantity", std::stoi(row.substr(at)) + 1}};
}

const single_call kCalls[] = {
    {"optimistic", "updated 2", "updated 3",
     [](idem::client &db, const test::flow_setting &s) {
         const idem::row_result done = idem::optimistic(db, s.rows.table(), kOne, with_one_more);
         return std::string(name(done.outcome)) + " " + std::to_string(done.version.value());
     }},
    {"optimistic_update", "updated", "conflict",
     [](idem::client &db, const test::flow_setting &s) {
         return std::string(name(optimistic_update(db, s.rows.table(), kOne, 1, {{"kind", "taken"}}).outcome));
     }},
    {"conditional_update", "updated", "conflict",
     [](idem::client &db, const test::flow_setting &s) {
         return std::string(
             name(conditional_update(db, s.rows.table(), kOne, {{"kind", "thing"}}, {{"kind", "taken"}}).outcome));
     }},
    {"conditional_adjust", "adjusted 0", "out_of_range 0",
     [](idem::client &db, const test::flow_setting &s) {
         const idem::adjust_result done = conditional_adjust(db, s.rows.table(), kOne, "quantity", "-1");
         return std::string(name(done.outcome)) + " " + done.value.value();
     }},
    {"unique_insert", "inserted", "duplicate",
     [](idem::client &db, const test::flow_setting &s) {
         return std::string(name(unique_insert(db, s.rows.table(), {{"id", 3}, {"sku", "A-3"}}).outcome));
     }},
    {"guarded_insert", "inserted", "duplicate",
     [](idem::client &db, const test::flow_setting &s) {
         return std::string(
             name(guarded_insert(db, s.rows.table(), {{"id", 3}, {"sku", "A-3"}, {"kind", "rare"}}, {"kind"}).outcome));
     }},
    {"transition", "moved", "already",
     [](idem::client &db, const test::flow_setting &s) {
         return std::string(name(transition(db, s.rows.table(), kOne, std::nullopt, "paid").outcome));
     }},
    {"redeem_token", "accepted", "duplicate",
     [](idem::client &db, const test::flow_setting &s) { return std::string(name(redeem_token(db, s.token, "me"))); }},
    {"claim", "1", "0",
     [](idem::client &db, const test::flow_setting &s) { return std::to_string(static_cast<int>(claim(db, s.word))); }},
    {"try_claim", "acquired", "completed",
     [](idem::client &db, const test::flow_setting &s) { return std::string(name(try_claim(db, s.word))); }},
    {"claim_many", "2", "0",
     [](idem::client &db, const test::flow_setting &s) {
         return std::to_string(claim_many(db, {s.word, s.word + "'"}).size());
     }},
    {"hit", "1", "2",
     [](idem::client &db, const test::flow_setting &s) { return std::to_string(hit(db, s.word, std::chrono::minutes(1))); }},
};

class CallCutPoints : public testing::TestWithParam<std::tuple<single_call, manner>>, protected CutBase {};

TEST_P(CallCutPoints, OneEffectAtMostAndTheRightAnswer) {
    const auto &[call, how] = GetParam();
    int in_doubt = 0;
    const auto one = [&, &call = call](idem::client &db, const std::string &key, bool calm) {
        eyes_.reset(rows_);
        const test::flow_setting here{rows_, key, idem::issue_token(beside_, "me")};
        std::string told;
        try {
            told = call.run(db, here);
        } catch (const idem::outcome_unknown &) {
            told = kUnknown;
            ++in_doubt;
        }
        eyes_.wait_until_settled(told == kUnknown);
        const std::string again = call.run(beside_, here);
        if (told == kUnknown && !calm) {
            EXPECT_TRUE(again == call.first || again == call.second) << again;
        } else {
            EXPECT_EQ(told, call.first);
            EXPECT_EQ(again, call.second);
        }
    };
    cut_everywhere(how, one);
    EXPECT_GT(in_doubt, 0) << "no reply was lost: this test shows nothing";
}

INSTANTIATE_TEST_SUITE_P(Calls, CallCutPoints,
                         testing::Combine(testing::ValuesIn(kCalls), testing::Values(kManners[0], kManners[2])),
                         [](const auto &each) {
                             return std::string(std::get<0>(each.param).name) + "_" + std::get<1>(each.param).name;
                         });

} // namespace
