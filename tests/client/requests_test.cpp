// Signed requests and rate limits.
#include <gtest/gtest.h>

#include <type_traits>

#include <idem/requests.hpp>
#include <idem/transact.hpp>

#include "scratch.hpp"

namespace {

using idem::request_outcome;

idem::signed_request make_request(const std::string &nonce) {
    idem::signed_request request;
    request.params = R"({"to": "b\"ob", "amount": 12.50})";
    request.key_id = "client's key";
    request.signed_at = std::chrono::time_point_cast<std::chrono::microseconds>(std::chrono::system_clock::now());
    request.nonce = nonce;
    return request;
}

// A sender's HMAC-SHA256 with a key of 32 bytes, computed by the server's functions.
std::string sign(idem::client &db, const std::string &message) {
    return idem::transact(db, [&](idem::transaction &tx) {
        return tx
            .exec("WITH pads AS (SELECT string_agg(set_byte('\\x00', 0, get_byte(k, i) # 92), '' ORDER BY i) AS o,"
                  " string_agg(set_byte('\\x00', 0, get_byte(k, i) # 54), '' ORDER BY i) AS i"
                  " FROM generate_series(0, 63) AS i, (SELECT decode(repeat('6b', 32) || repeat('00', 32), 'hex')) AS key (k))"
                  " SELECT encode(sha256(pads.o || sha256(pads.i || convert_to(" +
                  tx.quote(message) + ", 'UTF8'))), 'hex') FROM pads")[0][0]
            .as<std::string>();
    });
}

TEST(Requests, EveryOutcome) {
    idem::client db = test::make_client();
    idem::transact(db, [](idem::transaction &tx) {
        tx.exec("SELECT idem.idem_api_key_set('client''s key', decode(repeat('6b', 32), 'hex'))");
    });
    idem::signed_request request = make_request(test::unique_key());
    const std::string message = request_message(db, request);
    EXPECT_EQ(message, R"(["idem1","client's key",)" + std::to_string(request.signed_at.time_since_epoch().count()) + ",\"" +
                           request.nonce + R"(",{"amount":12.5,"to":"b\"ob"}])");
    EXPECT_EQ(verify_request(db, request), request_outcome::invalid);
    request.signature = sign(db, message);
    struct own_error {};
    EXPECT_THROW(idem::transact(db,
                                [&](idem::transaction &tx) {
                                    EXPECT_EQ(verify_request(tx, request), request_outcome::accepted);
                                    throw own_error();
                                }),
                 own_error);
    EXPECT_EQ(verify_request(db, request), request_outcome::accepted);
    EXPECT_EQ(verify_request(db, request), request_outcome::replayed);
    request.signed_at -= std::chrono::seconds(10);
    request.signature = sign(db, request_message(db, request));
    EXPECT_EQ(verify_request(db, request, std::chrono::seconds(5)), request_outcome::stale);
    request.params = "[]";
    EXPECT_THROW(verify_request(db, request), idem::bad_input);
    EXPECT_STREQ(name(request_outcome::replayed), "replayed");
}

TEST(Requests, Rates) {
    idem::client db = test::make_client();
    const std::string name = test::unique_key();
    const idem::rate_limit limit{0.001, 2};
    EXPECT_EQ(allow(db, name, limit).remaining, 1);
    const idem::admission last = allow(db, name, limit);
    EXPECT_TRUE(last.allowed);
    EXPECT_EQ(last.remaining, 0);
    EXPECT_FALSE(last.retry_after);
    const idem::admission refused = allow(db, name, limit);
    EXPECT_FALSE(refused.allowed);
    static_assert(std::is_same_v<decltype(refused.retry_after), std::optional<std::chrono::milliseconds>>);
    ASSERT_TRUE(refused.retry_after);
    EXPECT_GT(*refused.retry_after, std::chrono::seconds(900));
    EXPECT_LE(*refused.retry_after, std::chrono::seconds(1000));
    EXPECT_TRUE(allow(db, name, {0.001, 2, 2, "another scope"}).allowed);
    EXPECT_THROW(allow(db, name, {0.001, 2, 3}), idem::bad_input);
    EXPECT_THROW(allow(db, name, {0, 2}), idem::bad_input);
}

} // namespace
