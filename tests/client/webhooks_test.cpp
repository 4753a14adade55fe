// Webhooks, by the example of GitHub's documentation.
#include <gtest/gtest.h>

#include <idem/transact.hpp>
#include <idem/webhooks.hpp>

#include "scratch.hpp"

namespace {

using idem::webhook_outcome;

idem::webhook make_webhook(const std::string &id) {
    return {"client's github",
            {{"Accept", "a"},
             {"X-GitHub-Delivery", id},
             {"X-Odd", "\xff\x01"},
             {"X-Hub-Signature-256", "sha256=757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17"}},
            "Hello, World!"};
}

void set_source(idem::client &db, const std::string &source, const std::string &format) {
    idem::transact(db, [&](idem::transaction &tx) {
        tx.exec("SELECT idem.idem_webhook_source_set(" + tx.quote(source) + ", " + tx.quote(format) +
                ", 'It''s a Secret to Everybody')");
    });
}

TEST(Webhooks, TakeEffectOnce) {
    idem::client db = test::make_client();
    set_source(db, "client's github", "github");
    const idem::webhook received = make_webhook(test::unique_key());
    struct own_error {};
    EXPECT_THROW(idem::transact(db,
                                [&](idem::transaction &tx) {
                                    EXPECT_EQ(receive_webhook(tx, received).outcome, webhook_outcome::accepted);
                                    throw own_error();
                                }),
                 own_error);
    const idem::webhook_answer first = receive_webhook(db, received);
    EXPECT_EQ(first.outcome, webhook_outcome::accepted);
    EXPECT_EQ(first.message_id, received.headers[1].second);
    EXPECT_EQ(receive_webhook(db, received).outcome, webhook_outcome::duplicate);
    EXPECT_STREQ(name(webhook_outcome::duplicate), "duplicate");
}

TEST(Webhooks, AreNotBelieved) {
    idem::client db = test::make_client();
    set_source(db, "client's github", "github");
    idem::webhook received = make_webhook(test::unique_key());
    received.body += '\0';
    EXPECT_EQ(receive_webhook(db, received).outcome, webhook_outcome::invalid);
    received = make_webhook("\xc3\xa9 \n \x01\xff");
    received.headers[3].second += "\xff";
    EXPECT_EQ(receive_webhook(db, received).outcome, webhook_outcome::invalid);
    received = make_webhook("\xc3\xa9");
    EXPECT_EQ(receive_webhook(db, received).outcome, webhook_outcome::invalid) << "as in SQL: it is no id, and not without one";
    received = make_webhook(test::unique_key());
    received.source = "nobody";
    const idem::webhook_answer unknown = receive_webhook(db, received);
    EXPECT_EQ(unknown.outcome, webhook_outcome::invalid);
    EXPECT_EQ(unknown.message_id, "");
    received = {"client's github", {}, ""};
    EXPECT_EQ(receive_webhook(db, received).outcome, webhook_outcome::invalid);
}

TEST(Webhooks, OldOnesAreStale) {
    idem::client db = test::make_client();
    // The example of Slack's documentation, but for its body.
    set_source(db, "client's slack", "slack");
    const std::string signature = idem::transact(db, [&](idem::transaction &tx) {
        return tx
            .exec("WITH pads AS (SELECT string_agg(set_byte('\\x00', 0, get_byte(k, i) # 92), '' ORDER BY i) AS o,"
                  " string_agg(set_byte('\\x00', 0, get_byte(k, i) # 54), '' ORDER BY i) AS i"
                  " FROM generate_series(0, 63) AS i, (SELECT 'It''s a Secret to Everybody'::bytea || decode(repeat('00', 64), "
                  "'hex')) AS key (k))"
                  " SELECT encode(sha256(pads.o || sha256(pads.i || 'v0:1531420618:a=1')), 'hex') FROM pads")[0][0]
            .as<std::string>();
    });
    const idem::webhook_answer answer = receive_webhook(
        db, {"client's slack", {{"x-slack-request-timestamp", "1531420618"}, {"x-slack-signature", "v0=" + signature}}, "a=1"});
    EXPECT_EQ(answer.outcome, webhook_outcome::stale);
    EXPECT_EQ(answer.message_id.size(), 64u);
}

} // namespace
