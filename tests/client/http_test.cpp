// HTTP requests under a key. transact_test.cpp tests the behaviour that the flow shares with others.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include <idem/http.hpp>
#include <idem/keys.hpp>

#include "server.hpp"

namespace {

using idem::http_action;
using idem::http_headers;
using idem::http_stored;
using test::effects;
using test::leave_effect;
using test::unique_key;

std::string header(const idem::http_response &response, const std::string &name) {
    std::string values;
    for (const auto &[each, value] : response.headers)
        if (each == name)
            values += (values.empty() ? "" : "|") + value;
    return values;
}

class Http : public testing::Test {
  protected:
    idem::http_request post(const std::string &body = "{\"amount\": 5}") {
        return {"it's \"mine\"\\", "POST", "/orders?a=\xC3\xA9", '"' + key_ + '"', body};
    }
    idem::http_response handle(const idem::http_request &request) {
        return idem::handle_http(db_, request, [&](idem::transaction &tx) {
            leave_effect(tx, key_);
            return idem::http_response{
                201,
                {{"Location", "/orders/\"7\"\\"}, {"Link", "</a>"}, {"link", "</b:c>"}, {"Set-Cookie", "s=1"}, {"ETag", ""}},
                R"({"id":7,  "a": 1.0})"};
        });
    }
    idem::client db_ = test::make_client();
    const std::string key_ = unique_key();
};

TEST_F(Http, FirstRunsAndOthersReplay) {
    const idem::http_response first = handle(post()), again = handle(post());
    EXPECT_EQ(effects(key_), 1);
    EXPECT_EQ(first.status, 201);
    EXPECT_EQ(again.status, 201);
    EXPECT_EQ(first.body, R"({"id":7,  "a": 1.0})");
    EXPECT_EQ(again.body, first.body) << "the first response and every replay have the same bytes";
    EXPECT_EQ(header(first, "Set-Cookie"), "s=1");
    EXPECT_EQ(header(again, "Set-Cookie"), "");
    EXPECT_EQ(header(first, "Idempotent-Replayed"), "");
    EXPECT_EQ(header(again, "Idempotent-Replayed"), "true");
    EXPECT_EQ(header(again, "Location"), "/orders/\"7\"\\");
    EXPECT_EQ(header(again, "Link"), "</a>|</b:c>");
    EXPECT_EQ(std::count_if(again.headers.begin(), again.headers.end(), [](const auto &h) { return h.first == "ETag"; }), 1);
    idem::http_request bare = post();
    bare.idempotency_key = key_;
    EXPECT_EQ(handle(bare).status, 201) << "quoted and bare are one key";
    EXPECT_EQ(effects(key_), 1);
}

TEST_F(Http, BodyIsAnyBytes) {
    const std::string bytes("\0\x01\xFF\\'\n\"", 7);
    EXPECT_EQ(handle(post(bytes)).status, 201);
    EXPECT_EQ(header(handle(post(bytes)), "Idempotent-Replayed"), "true");
    EXPECT_EQ(handle(post(bytes.substr(0, 6))).status, 422);
    EXPECT_EQ(handle(post(bytes + '\0')).status, 422);
    EXPECT_EQ(effects(key_), 1);
}

TEST_F(Http, ResponsesAreReplayedByteForByte) {
    for (const std::string &body : {std::string(), std::string("<html>\xC3\xA9</html>\r\n"),
                                    std::string("{\"b\":[],  \"a\":1}"), std::string("\x1F\x8B\x08\0\xFF\xFE", 6)}) {
        idem::http_request request = post();
        request.idempotency_key = unique_key();
        const auto handler = [&](idem::transaction &) { return idem::http_response{200, {}, body}; };
        idem::handle_http(db_, request, handler);
        EXPECT_EQ(idem::handle_http(db_, request, handler).body, body);
    }
}

TEST_F(Http, UnstoredStatusIsReturnedAndRunsAgain) {
    test::ask("SELECT idem.idem_http_scope_set('http unstored', unstored_statuses => '{5xx}')");
    idem::http_request request = post();
    request.scope = "http unstored";
    for (int attempt = 0; attempt < 2; ++attempt) {
        const idem::http_response busy = idem::handle_http(db_, request, [&](idem::transaction &tx) {
            leave_effect(tx, key_);
            return idem::http_response{503, {{"Retry-After", "1"}}, "busy"};
        });
        EXPECT_EQ(busy.status, 503);
        EXPECT_EQ(busy.body, "busy");
        EXPECT_EQ(header(busy, "Idempotent-Replayed"), "");
    }
    EXPECT_EQ(effects(key_), 0) << "rolled back";
    EXPECT_EQ(handle(request).status, 201);
    EXPECT_EQ(effects(key_), 1);
    request.idempotency_key = unique_key();
    const idem::http_answer first = http_begin(db_, request, std::chrono::minutes(1));
    EXPECT_EQ(http_complete(db_, request, {503}, first.fence), http_stored::released);
    EXPECT_EQ(http_begin(db_, request, std::chrono::minutes(1)).action, http_action::run);
}

TEST_F(Http, RejectionsAreResponses) {
    idem::http_request missing = post(), malformed = post(), other = post("{}");
    missing.idempotency_key.reset();
    malformed.idempotency_key = "a, b";
    EXPECT_EQ(handle(missing).status, 400);
    EXPECT_EQ(handle(malformed).status, 400);
    malformed.idempotency_key = "\xFFno UTF-8";
    EXPECT_EQ(handle(malformed).status, 400);
    malformed.idempotency_key = std::string("a\0b", 3);
    EXPECT_EQ(handle(malformed).status, 400);
    EXPECT_EQ(effects(key_), 0);
    handle(post());
    const idem::http_answer answer = http_begin(db_, other);
    EXPECT_EQ(answer.action, http_action::reject);
    EXPECT_EQ(answer.code, "mismatch");
    EXPECT_FALSE(answer.retryable);
    EXPECT_EQ(answer.response.status, 422);
    EXPECT_EQ(header(answer.response, "Content-Type"), "application/problem+json");
    EXPECT_NE(answer.response.body->find("\"title\": \"Unprocessable Content\""), std::string::npos);
    EXPECT_THROW(handle({"web", "NO METHOD", "/", key_}), idem::bad_input);
    EXPECT_STREQ(name(http_action::reject), "reject");
    EXPECT_STREQ(name(http_stored::omitted), "omitted");
}

TEST_F(Http, RequestInOtherHandsIsToldAtOnceOrWaits) {
    std::thread second;
    idem::http_response waited;
    idem::handle_http(db_, post(), [&](idem::transaction &) {
        const idem::http_response told = handle(post());
        EXPECT_EQ(told.status, 409);
        EXPECT_EQ(header(told, "Retry-After"), "1");
        second = std::thread([&] {
            idem::http_request patient = post();
            patient.wait = idem::wait_limit::forever();
            waited = handle(patient);
        });
        EXPECT_TRUE(test::eventually([&] {
            return test::ask("SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE "
                             "'%idem_http_begin%'") != "0";
        }));
        return idem::http_response{202};
    });
    second.join();
    EXPECT_EQ(waited.status, 202);
    EXPECT_EQ(waited.body, std::nullopt);
    EXPECT_EQ(header(waited, "Idempotent-Replayed"), "true");
    EXPECT_EQ(effects(key_), 0);
}

TEST_F(Http, HandlerThatThrowsLeavesTheKeyFree) {
    struct own_error {};
    EXPECT_THROW(idem::handle_http(db_, post(),
                                   [&](idem::transaction &tx) -> idem::http_response {
                                       leave_effect(tx, key_);
                                       throw own_error();
                                   }),
                 own_error);
    EXPECT_EQ(handle(post()).status, 201);
    EXPECT_EQ(effects(key_), 1);
}

TEST_F(Http, HeaderThatWouldBeTwoIsRefused) {
    EXPECT_THROW(idem::handle_http(db_, post(),
                                   [&](idem::transaction &tx) {
                                       leave_effect(tx, key_);
                                       return idem::http_response{200, {{"Location", "/\r\nSet-Cookie: a=1"}}};
                                   }),
                 idem::bad_input);
    EXPECT_EQ(effects(key_), 0);
}

TEST_F(Http, MethodsThatNeedNoKeyRunEveryTimeWithoutOne) {
    for (const char *method : {"GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"}) {
        idem::http_request request = post();
        request.method = method;
        request.idempotency_key.reset();
        EXPECT_EQ(handle(request).status, 201) << method;
    }
    EXPECT_EQ(effects(key_), 6);
    EXPECT_FALSE(idem::lookup(db_, key_, post().scope));
    EXPECT_EQ(http_complete(db_, {post().scope, "GET", "/", std::nullopt}, {200}), http_stored::unkeyed);
}

TEST_F(Http, LeasedModeHasAFence) {
    const idem::http_answer first = http_begin(db_, post(), std::chrono::minutes(1));
    ASSERT_EQ(first.action, http_action::run);
    ASSERT_TRUE(first.fence);
    const idem::http_answer second = http_begin(db_, post());
    EXPECT_EQ(second.code, "in_flight");
    EXPECT_TRUE(second.retryable);
    const int left = std::stoi(header(second.response, "Retry-After"));
    EXPECT_TRUE(left > 30 && left <= 60) << left;
    EXPECT_THROW(http_complete(db_, post(), {200}, *first.fence - 1), idem::stale_fence);
    EXPECT_EQ(http_complete(db_, post(), {200, {{"ETag", "x"}}, "1"}, first.fence), http_stored::stored);
    EXPECT_EQ(http_complete(db_, post(), {200, {{"ETag", "x"}}, "1"}, first.fence), http_stored::stored);
    const idem::http_answer third = http_begin(db_, post());
    EXPECT_EQ(third.action, http_action::replay);
    EXPECT_EQ(third.response.body, "1");
    EXPECT_EQ(header(third.response, "ETag"), "x");
}

TEST_F(Http, ProfileAnswersInItsOwnFormAndEchoesTheKey) {
    test::ask("SELECT idem.idem_http_scope_set('http_acp', profile => 'acp')");
    idem::http_request request = post(R"({"a": 1, "b": 2})"), same = post(R"({"b":2,"a":1.0})"),
                       other = post(R"({"a":2,"b":2})");
    for (idem::http_request *each : {&request, &same, &other}) {
        each->scope = "http_acp/client " + key_;
        each->idempotency_key = key_;
        each->content_type = "application/json; charset=utf-8";
    }
    EXPECT_EQ(header(handle(request), "Idempotency-Key"), key_) << "the handler's own response has it too";
    const idem::http_response again = handle(same);
    EXPECT_EQ(again.status, 201);
    EXPECT_EQ(header(again, "Idempotency-Key"), key_);
    const idem::http_answer refused = http_begin(db_, other);
    EXPECT_EQ(refused.code, "mismatch") << "the body names it idempotency_conflict";
    EXPECT_EQ(refused.response.status, 422);
    EXPECT_EQ(header(refused.response, "Content-Type"), "application/json");
    EXPECT_EQ(header(refused.response, "Idempotency-Key"), key_);
    EXPECT_EQ(effects(key_), 1);
}

TEST_F(Http, DigestStandsForTheBody) {
    idem::http_request request = post("");
    request.fingerprint = std::string("\\\0\xFF", 3);
    EXPECT_EQ(header(handle(request), "Idempotent-Replayed"), "");
    request.route = "/elsewhere";
    EXPECT_EQ(header(handle(request), "Idempotent-Replayed"), "true");
    request.fingerprint = "other parts";
    EXPECT_EQ(handle(request).status, 422);
    request.body = "parts";
    EXPECT_THROW(handle(request), idem::bad_input);
    EXPECT_EQ(effects(key_), 1);
}

TEST_F(Http, KeyOfAnIgnoredMethodIsNotUsed) {
    test::ask("SELECT idem.idem_http_scope_set('http ignored', ignored_methods => '{DELETE}')");
    idem::http_request request = post();
    request.scope = "http ignored";
    request.method = "DELETE";
    EXPECT_EQ(handle(request).status, 201);
    EXPECT_EQ(handle(request).status, 201);
    EXPECT_EQ(effects(key_), 2);
    EXPECT_EQ(http_begin(db_, request).code, "unkeyed");
}

TEST_F(Http, ResponseOverTheLimitIsOmitted) {
    test::ask("SELECT idem.idem_scope_set('http small', max_response_size => 100)");
    idem::http_request request = post();
    request.scope = "http small";
    const idem::http_answer first = http_begin(db_, request, std::chrono::minutes(1));
    EXPECT_EQ(http_complete(db_, request, {200, {}, std::string(101, 'x')}, first.fence), http_stored::omitted);
    EXPECT_EQ(http_begin(db_, request).response.body, std::nullopt);
}

TEST_F(Http, ResponseOverTheLimitIsCommittedOrRolledBack) {
    test::ask("SELECT idem.idem_scope_set('http small', max_response_size => 100)");
    idem::http_request request = post();
    request.scope = "http small";
    const auto handler = [&](idem::transaction &tx) {
        leave_effect(tx, key_);
        return idem::http_response{201, {}, std::string(101, 'x')};
    };
    idem::http_options options;
    options.over_limit = idem::http_options::oversize::rollback;
    const idem::http_response refused = idem::handle_http(db_, request, options, handler);
    EXPECT_EQ(refused.status, 500);
    EXPECT_NE(refused.body->find(R"("code":"response_too_large")"), std::string::npos);
    EXPECT_EQ(effects(key_), 0);
    EXPECT_EQ(idem::handle_http(db_, request, handler).body, std::string(101, 'x')) << "the key is free";
    EXPECT_EQ(effects(key_), 1);
    const idem::http_response again = idem::handle_http(db_, request, options, handler);
    EXPECT_EQ(again.status, 201);
    EXPECT_EQ(again.body, std::nullopt);
    EXPECT_EQ(effects(key_), 1);
    request.idempotency_key = unique_key();
    const auto small = [](idem::transaction &) { return idem::http_response{201, {}, "x"}; };
    EXPECT_EQ(idem::handle_http(db_, request, options, small).body, "x");
    EXPECT_EQ(header(idem::handle_http(db_, request, options, small), "Idempotent-Replayed"), "true");
}

// Thrown errors as responses: those that a repetition may not meet are 503 with Retry-After.
TEST_F(Http, ErrorsHaveResponses) {
    struct thrown {
        std::string sqlstate, code;
        int status;
    };
    for (const thrown &each : std::vector<thrown>{{"08006", "unavailable", 503},
                                                  {"08001", "unavailable", 503},
                                                  {"53300", "unavailable", 503},
                                                  {"53100", "unavailable", 503},
                                                  {"57P01", "unavailable", 503},
                                                  {"57P03", "unavailable", 503},
                                                  {"25006", "unavailable", 503},
                                                  {"40001", "serialization_failure", 503},
                                                  {"40P01", "serialization_failure", 503},
                                                  {"08007", "commit_unknown", 503},
                                                  {"ID001", "lease_lost", 503},
                                                  {"25P02", "rolled_back", 500},
                                                  {"55000", "internal", 500},
                                                  {"42501", "internal", 500},
                                                  {"57014", "internal", 500},
                                                  {"23505", "internal", 500}}) {
        idem::http_response answer;
        try {
            idem::throw_error(each.sqlstate, "a \"reason\"");
        } catch (...) {
            answer = idem::http_error(std::current_exception());
        }
        EXPECT_EQ(answer.status, each.status) << each.sqlstate;
        EXPECT_NE(answer.body->find("\"code\":\"" + each.code + '"'), std::string::npos) << each.sqlstate << *answer.body;
        EXPECT_EQ(header(answer, "Retry-After"), each.status == 503 ? "1" : "");
        EXPECT_EQ(header(answer, "Content-Type"), "application/problem+json");
    }
    EXPECT_EQ(idem::http_error(std::make_exception_ptr(1)).status, 500);
    // As libpqxx throws them in the handler.
    const auto fails = [](const std::string &sqlstate) {
        return [sqlstate](idem::transaction &tx) {
            tx.exec("DO $$ BEGIN RAISE EXCEPTION 'no' USING ERRCODE = '" + sqlstate + "'; END $$");
            return idem::http_response{201};
        };
    };
    idem::http_options once;
    once.retry.emplace().attempts = 1;
    for (const auto &[sqlstate, status] : {std::pair{"40P01", 503}, std::pair{"22012", 500}})
        try {
            idem::handle_http(db_, post(), once, fails(sqlstate));
            ADD_FAILURE();
        } catch (...) {
            EXPECT_EQ(idem::http_error(std::current_exception()).status, status) << sqlstate;
        }
    EXPECT_EQ(handle(post()).status, 201) << "none of them is stored";
}

// A deferred trigger may raise any SQLSTATE; its error is not taken for a response that is not stored.
TEST_F(Http, ErrorOfCommitIsAnError) {
    const std::string name = "deferred_" + idem::detail::make_nonce().substr(0, 8);
    test::ask("CREATE TABLE " + name + " (id int)");
    test::ask("CREATE FUNCTION " + name +
              "() RETURNS trigger LANGUAGE plpgsql AS "
              "$$ BEGIN RAISE EXCEPTION 'never' USING ERRCODE = '25000'; END $$");
    test::ask("CREATE CONSTRAINT TRIGGER never AFTER INSERT ON " + name +
              " DEFERRABLE INITIALLY DEFERRED FOR EACH ROW "
              "EXECUTE FUNCTION " +
              name + "()");
    EXPECT_THROW(idem::handle_http(db_, post(),
                                   [&](idem::transaction &tx) {
                                       tx.exec("INSERT INTO " + name + " VALUES (1)");
                                       return idem::http_response{201};
                                   }),
                 idem::response_unstored);
    test::ask("DROP TABLE " + name);
    test::ask("DROP FUNCTION " + name);
}

TEST_F(Http, EightRequestsOneEffect) {
    std::atomic<int> fresh{0}, replayed{0}, busy{0};
    std::vector<std::thread> clients;
    for (int i = 0; i < 8; ++i)
        clients.emplace_back([&, i] {
            idem::http_request request = post();
            if (i % 2)
                request.wait = idem::wait_limit::forever();
            const idem::http_response response = handle(request);
            ++(response.status == 409 ? busy : header(response, "Idempotent-Replayed") == "true" ? replayed : fresh);
        });
    for (std::thread &each : clients)
        each.join();
    EXPECT_EQ(fresh, 1);
    EXPECT_EQ(fresh + replayed + busy, 8);
    EXPECT_EQ(effects(key_), 1);
}

} // namespace
