// Single calls about keys.
#include <gtest/gtest.h>

#include <idem/keys.hpp>
#include <idem/once.hpp>

#include "proxy.hpp"
#include "server.hpp"

namespace {

using idem::key_outcome;
using test::unique_key;

class Keys : public testing::Test {
  protected:
    idem::client db_ = test::make_client();
    const std::string key_ = unique_key("it's \"a\" \\key\n\xC3\xA9 ");
    const std::string scope_ = "sc'ope\\";
};

TEST_F(Keys, ClaimIsTrueOnce) {
    EXPECT_TRUE(claim(db_, key_, std::chrono::hours(1), scope_));
    EXPECT_FALSE(claim(db_, key_, std::chrono::hours(1), scope_));
    EXPECT_TRUE(claim(db_, key_)) << "another scope";
    EXPECT_EQ(try_claim(db_, key_), key_outcome::completed);
    EXPECT_THROW(claim(db_, ""), idem::bad_input);
}

TEST_F(Keys, ClaimOfATransactionGoesWithIt) {
    struct own_error {};
    EXPECT_THROW(idem::transact(db_,
                                [&](idem::transaction &tx) {
                                    EXPECT_TRUE(claim(tx, key_));
                                    EXPECT_EQ(try_claim(db_, key_), key_outcome::in_flight);
                                    throw own_error();
                                }),
                 own_error);
    EXPECT_TRUE(test::eventually([&] { return try_claim(db_, key_) == key_outcome::acquired; }));
}

TEST_F(Keys, ClaimManyAnswersWithTheNewOnesInTheirOrder) {
    const std::string a = unique_key("a,{}"), b = unique_key("b\"\\"), c = unique_key("NULL");
    EXPECT_TRUE(claim(db_, b));
    EXPECT_EQ(claim_many(db_, {c, b, a, c, key_}), (std::vector<std::string>{c, a, key_}));
    EXPECT_TRUE(claim_many(db_, {c, b, a}).empty());
    EXPECT_TRUE(claim_many(db_, {}).empty());
    EXPECT_EQ(claim_many(db_, {a}, std::chrono::minutes(1), scope_), std::vector<std::string>{a});
}

TEST_F(Keys, ClaimThatIsGivenBackIsFree) {
    EXPECT_THROW(idem::transact(db_, [&](idem::transaction &tx) { release(tx, key_); }), idem::stale_fence);
    idem::transact(db_, [&](idem::transaction &tx) {
        EXPECT_TRUE(claim(tx, key_));
        release(tx, key_);
    });
    EXPECT_TRUE(claim(db_, key_));
}

TEST_F(Keys, HitCounts) {
    EXPECT_EQ(hit(db_, key_, std::chrono::hours(1), scope_), 1);
    EXPECT_EQ(hit(db_, key_, std::chrono::hours(1), scope_), 2);
    EXPECT_EQ(hit(db_, key_), 1);
}

TEST_F(Keys, HitsReadsWithoutCounting) {
    EXPECT_FALSE(hits(db_, key_, scope_)) << "never used";
    const auto before = std::chrono::system_clock::now();
    hit(db_, key_, std::chrono::hours(1), scope_);
    hit(db_, key_, std::chrono::hours(1), scope_);
    for (int i = 0; i < 2; ++i)
        EXPECT_EQ(hits(db_, key_, scope_).value().hits, 2);
    const auto left = hits(db_, key_, scope_)->expires_at.value() - before;
    EXPECT_GT(left, std::chrono::minutes(59));
    EXPECT_LT(left, std::chrono::minutes(61));
    EXPECT_FALSE(hits(db_, key_)) << "another scope";
    hit(db_, key_, std::chrono::milliseconds(1));
    EXPECT_TRUE(test::eventually([&] { return !hits(db_, key_); })) << "its ttl is over";
    EXPECT_THROW(hits(db_, ""), idem::bad_input);
}

TEST_F(Keys, LookupReturnsTheStateOfAKey) {
    EXPECT_FALSE(lookup(db_, key_, scope_));
    const auto before = std::chrono::system_clock::now();
    idem::once(db_, idem::request{key_}.in(scope_).ttl(std::chrono::hours(2)), [](idem::transaction &) {
        return idem::response{201, R"({"a": 1})"};
    });
    const std::optional<idem::key_info> known = lookup(db_, key_, scope_);
    ASSERT_TRUE(known);
    EXPECT_EQ(known->state, idem::key_state::completed);
    EXPECT_STREQ(name(known->state), "completed");
    EXPECT_EQ(known->response, R"({"a": 1})");
    EXPECT_EQ(known->status_code, 201);
    EXPECT_FALSE(known->response_omitted);
    EXPECT_EQ(known->attempt, 1);
    EXPECT_FALSE(known->steps || known->lease_until);
    EXPECT_LT(std::chrono::abs(known->created_at - before), std::chrono::minutes(1));
    ASSERT_TRUE(known->expires_at);
    EXPECT_LT(std::chrono::abs(*known->expires_at - known->created_at - std::chrono::hours(2)), std::chrono::minutes(1));
}

TEST_F(Keys, ADuplicateOfMustClaimIsAnError) {
    must_claim(db_, key_);
    try {
        must_claim(db_, key_);
        ADD_FAILURE() << "claimed twice";
    } catch (const idem::done_before &e) {
        EXPECT_EQ(e.sqlstate(), "ID006");
        EXPECT_EQ(e.key(), key_);
    }
}

TEST_F(Keys, SerializingOnAClientIsRefused) {
    NEEDS_C_EDITION("does not know whether a transaction goes on (25P01)");
    EXPECT_THROW(serialize(db_, key_), idem::bad_input);
}

TEST_F(Keys, LookupShowsALeaseAndItsOwner) {
    test::ask("SELECT idem.idem_step($1, fence, 'half') FROM idem.idem_begin($1, lease => '1 hour', owner => 'me', "
              "ttl => '2 hours')",
              {key_});
    const std::optional<idem::key_info> known = lookup(db_, key_);
    ASSERT_TRUE(known);
    EXPECT_EQ(known->state, idem::key_state::in_progress);
    EXPECT_EQ(known->steps, R"({"half": null})");
    EXPECT_TRUE(known->lease_until);
    EXPECT_TRUE(is_owner(db_, key_, "me"));
    EXPECT_FALSE(is_owner(db_, key_, "you"));
    EXPECT_FALSE(is_owner(db_, key_ + " absent", "me"));
    EXPECT_THROW(claim(db_, key_), idem::in_flight);
}

TEST_F(Keys, ForgottenKeyIsNewAgain) {
    EXPECT_FALSE(forget(db_, key_, scope_));
    EXPECT_TRUE(claim(db_, key_, std::nullopt, scope_));
    EXPECT_TRUE(forget(db_, key_, scope_));
    EXPECT_TRUE(claim(db_, key_, std::nullopt, scope_));
}

TEST_F(Keys, SerializeQueuesUntilTheTransactionEnds) {
    idem::transact(db_, [&](idem::transaction &tx) {
        serialize(tx, key_, scope_);
        EXPECT_THROW(idem::transact(db_,
                                    [&](idem::transaction &other) {
                                        other.exec("SET LOCAL lock_timeout = '10ms'");
                                        serialize(other, key_, scope_);
                                    }),
                     idem::busy);
    });
    idem::transact(db_, [&](idem::transaction &tx) { serialize(tx, key_, scope_); });
}

TEST_F(Keys, LostReplyOfAClaimIsNotRepeated) {
    test::proxy between;
    idem::client_options options;
    options.dsn = between.dsn();
    idem::client db = test::make_client(options);
    EXPECT_TRUE(claim(db, unique_key())); // connects
    between.arm({test::side::backend, 1, test::moment::before});
    EXPECT_THROW(claim(db, key_), idem::outcome_unknown);
    EXPECT_TRUE(between.has_cut());
    EXPECT_FALSE(claim(db, key_)) << "it had committed";
}

} // namespace
