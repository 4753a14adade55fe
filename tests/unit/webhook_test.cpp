#include "core/webhook.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace idem::core {
namespace {

using namespace std::string_literals;

const WebhookFormat &format(std::string_view name) { return *webhook_format(name); }

// 32 bytes of zero.
const std::string kHex(64, '0');
const std::string kBase64 = std::string(43, 'A') + "=";

Mac zero() { return Mac{}; }
Mac one() {
    Mac mac{};
    mac[31] = 1;
    return mac;
}

bool is_read(std::string_view name, const WebhookFields &fields) {
    Webhook webhook;
    return read_webhook(format(name), fields, &webhook);
}

bool is_signed(std::string_view name, const std::string &signature, const Mac &mac = zero()) {
    Webhook webhook{};
    webhook.signatures = signature;
    return has_signature(format(name), webhook, mac);
}

TEST(Webhook, FormatsHaveNames) {
    for (const char *name : {"standard", "stripe", "github", "slack", "shopify"})
        EXPECT_EQ(format(name).name, name);
    for (const char *name : {"", "Stripe", "stripe ", "svix"})
        EXPECT_EQ(webhook_format(name), nullptr) << name;
}

TEST(Webhook, SignedContent) {
    Webhook webhook;
    ASSERT_TRUE(read_webhook(format("standard"), {"msg_1", "1614265330", "v1,x"}, &webhook));
    EXPECT_EQ(signed_before_body(format("standard"), webhook), "msg_1.1614265330.");
    EXPECT_EQ(webhook.seconds, 1614265330);
    ASSERT_TRUE(read_webhook(format("stripe"), {"", "", "t=012345,v1=x"}, &webhook));
    EXPECT_EQ(signed_before_body(format("stripe"), webhook), "012345.") << "the time as it was sent";
    EXPECT_EQ(webhook.seconds, 12345);
    ASSERT_TRUE(read_webhook(format("slack"), {"", " 1531420618\t", "v0=x"}, &webhook));
    EXPECT_EQ(signed_before_body(format("slack"), webhook), "v0:1531420618:");
    ASSERT_TRUE(read_webhook(format("github"), {"uuid", "", "sha256=x"}, &webhook));
    EXPECT_EQ(signed_before_body(format("github"), webhook), "");
    EXPECT_EQ(webhook.id, "uuid");
    ASSERT_TRUE(read_webhook(format("shopify"), {"", "", "x"}, &webhook));
    EXPECT_EQ(signed_before_body(format("shopify"), webhook), "");
    EXPECT_EQ(webhook.id, "");
}

TEST(Webhook, FieldsThatAreSignedMustBeThere) {
    EXPECT_FALSE(is_read("standard", {"", "1614265330", "v1,x"}));
    EXPECT_FALSE(is_read("standard", {" ", "1614265330", "v1,x"}));
    EXPECT_FALSE(is_read("standard", {"msg_1", "", "v1,x"}));
    EXPECT_FALSE(is_read("standard", {"msg_1", "1614265330", ""}));
    EXPECT_FALSE(is_read("slack", {"", "", "v0=x"}));
    EXPECT_FALSE(is_read("github", {"uuid", "", ""}));
    EXPECT_FALSE(is_read("stripe", {"", "", "v1=x"}));
    EXPECT_FALSE(is_read("stripe", {"", "1614265330", "v1=x"}));
    EXPECT_FALSE(is_read("stripe", {"", "", "t=1,t=1,v1=x"})) << "two times";
    EXPECT_FALSE(is_read("stripe", {"", "", "t=,t=1,v1=x"}));
}

TEST(Webhook, TimesAreDigits) {
    for (const std::string bad : {"hello", "-1614265330", "+1614265330", "1614265330.0", "16142 65330", "0x1614", "1e9",
                                  "999999999999", "1614265330, 1614265330", "\xd9\xa1"}) {
        EXPECT_FALSE(is_read("standard", {"msg_1", bad, "v1,x"})) << bad;
        EXPECT_FALSE(is_read("stripe", {"", "", "t=" + bad + ",v1=x,t=1"})) << bad;
    }
    EXPECT_FALSE(is_read("slack", {"", "16142\0"s, "v0=x"}));
    EXPECT_TRUE(is_read("slack", {"", "99999999999", "v0=x"}));
}

TEST(Webhook, IdsArePrintableAndShort) {
    const std::string longest(kMaxWebhookIdBytes, 'x');
    EXPECT_TRUE(is_read("github", {longest, "", "sha256=x"}));
    for (const std::string &bad : {longest + "x", "a\nb"s, "a\0b"s, "a\x7f"s, "\xc3\xa9"s, std::string(1000000, 'x')})
        EXPECT_FALSE(is_read("github", {bad, "", "sha256=x"})) << bad.size();
}

TEST(Webhook, OneOfSeveralSignatures) {
    EXPECT_TRUE(is_signed("standard", "v1," + kBase64));
    EXPECT_TRUE(is_signed("standard", "v1,bad v2," + kBase64 + "  v1," + kBase64 + " v1a,zzz"));
    EXPECT_TRUE(is_signed("standard", "v1,bad, v1," + kBase64 + ", v1,bad")) << "fields that were joined";
    EXPECT_FALSE(is_signed("standard", "v1," + kBase64, one()));
    EXPECT_TRUE(is_signed("stripe", "t=1,v1=bad,v1=" + kHex + ",v0=" + kHex));
    EXPECT_TRUE(is_signed("stripe", "v1=" + kHex + ", t=1"));
    EXPECT_TRUE(is_signed("github", "sha256=" + kHex));
    EXPECT_TRUE(is_signed("slack", " v0=" + kHex + "\t"));
    EXPECT_TRUE(is_signed("shopify", kBase64));
}

TEST(Webhook, SignaturesOfOtherVersionsDoNotCount) {
    EXPECT_FALSE(is_signed("standard", "v2," + kBase64));
    EXPECT_FALSE(is_signed("standard", "V1," + kBase64));
    EXPECT_FALSE(is_signed("standard", kBase64));
    EXPECT_FALSE(is_signed("standard", "v1=" + kHex));
    EXPECT_FALSE(is_signed("stripe", "t=1,v0=" + kHex));
    EXPECT_FALSE(is_signed("stripe", kHex));
    EXPECT_FALSE(is_signed("github", "sha1=" + kHex));
    EXPECT_FALSE(is_signed("github", kHex));
    EXPECT_FALSE(is_signed("slack", "v1=" + kHex));
    EXPECT_FALSE(is_signed("shopify", kHex));
}

TEST(Webhook, SignaturesThatAreNone) {
    for (const char *name : {"standard", "stripe", "github", "slack", "shopify"})
        for (const std::string &bad : {""s, ","s, " "s, "v1,"s, "v1="s, "v0="s, "sha256="s, "="s, "v1,, ,v1"s, "\0"s,
                                       std::string(100000, ','), std::string(100000, ' '), std::string(100000, '=')})
            EXPECT_FALSE(is_signed(name, bad)) << name << " " << bad.size();
}

std::string_view id_of(std::string_view body) { return id_in_body(format("stripe"), body); }

TEST(Webhook, IdInTheBody) {
    EXPECT_EQ(id_of(R"({"id": "evt_1", "object": "event"})"), "evt_1");
    EXPECT_EQ(id_of(" {\r\n\t\"a\" : [1, {\"id\": \"inner\"}, \"]\"], \"b\": {\"id\": \"x\"}, \"id\"\n:\n\"evt_2\"}\n"),
              "evt_2");
    EXPECT_EQ(id_of(R"({"a": "\"id\": \"no\"", "id": "evt_3", "n": -1.5e3, "t": true, "z": null})"), "evt_3");
    EXPECT_EQ(id_of(R"({"id": "first", "id": "last"})"), "last");
    EXPECT_EQ(id_in_body(format("slack"), R"({"id": "1", "event_id": "Ev1", "event": {"event_id": "Ev2"}})"), "Ev1");
    EXPECT_EQ(id_in_body(format("github"), R"({"id": "1"})"), "") << "its id is in a header";
}

TEST(Webhook, NoIdInTheBody) {
    for (const std::string &body : {""s,
                                    "{}"s,
                                    "[]"s,
                                    "id"s,
                                    "\"id\""s,
                                    "{"s,
                                    "{\"id\""s,
                                    "{\"id\":"s,
                                    "{\"id\":\""s,
                                    "{\"id\":\"x"s,
                                    "{\"id\":\"x\""s,
                                    "{\"id\":\"x\"}}"s,
                                    "{\"id\":\"x\"} {"s,
                                    "[{\"id\": \"x\"}]"s,
                                    "{\"id\": 5}"s,
                                    "{\"id\": null}"s,
                                    "{\"id\": [\"x\"]}"s,
                                    "{\"id\": {\"id\": \"x\"}}"s,
                                    "{\"id\": \"\"}"s,
                                    "{\"Id\": \"x\"}"s,
                                    "{\"id \": \"x\"}"s,
                                    "{\"id\": \"a\\u0062\"}"s,
                                    "{\"id\": \"\xc3\xa9\"}"s,
                                    "{\"id\": \"a\nb\"}"s,
                                    "{\"id\": \"" + std::string(256, 'x') + "\"}",
                                    "{\"id\": \"x\", \"id\": 5}"s,
                                    "{,\"id\": \"x\"}"s,
                                    "{\"a\": , \"id\": \"x\"}"s,
                                    "{\"a\" \"id\": \"x\"}"s,
                                    "{\"a\": ], \"id\": \"x\"}"s,
                                    "{\"id\": \"x\\"s,
                                    "{\"id\": \"x\\\"}"s,
                                    "token=x&id=y"s,
                                    "\0\0"s,
                                    "\xff\xfe"s})
        EXPECT_EQ(id_of(body), "") << body;
}

TEST(Webhook, BodyOfAnyDepth) {
    const std::string open(1000000, '['), shut(1000000, ']');
    EXPECT_EQ(id_of("{\"a\": " + open + shut + ", \"id\": \"x\"}"), "x");
    EXPECT_EQ(id_of("{\"a\": " + open + ", \"id\": \"x\"}"), "");
}

std::optional<std::string> key_of(std::string_view name, std::string_view secret) {
    std::vector<std::uint8_t> out(secret.size());
    const auto size = webhook_key(format(name), secret, out.data());
    if (!size)
        return std::nullopt;
    return std::string(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(*size));
}

TEST(Webhook, Secrets) {
    EXPECT_EQ(key_of("standard", "whsec_Zm9vYmFy"), "foobar");
    EXPECT_EQ(key_of("standard", "Zm9vYmFy"), "foobar");
    EXPECT_EQ(key_of("standard", "whsec_Zm9vYg=="), "foob");
    EXPECT_EQ(key_of("standard", "Zm9vYg"), "foob");
    EXPECT_EQ(key_of("standard", "whsec_"), "");
    EXPECT_EQ(key_of("standard", "whsec_not base64"), std::nullopt);
    EXPECT_EQ(key_of("standard", "raw bytes!"), "raw bytes!");
    EXPECT_EQ(key_of("stripe", "whsec_Zm9vYmFy"), "whsec_Zm9vYmFy");
    EXPECT_EQ(key_of("slack", "Zm9vYmFy"), "Zm9vYmFy");
}

} // namespace
} // namespace idem::core
