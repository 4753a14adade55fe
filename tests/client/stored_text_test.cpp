// Results that jsonb refuses: {"$base64": "…"} is stored, and the text is returned as it was.
#include <gtest/gtest.h>

#include <string>

#include <idem/keys.hpp>
#include <idem/leased.hpp>
#include <idem/once.hpp>
#include <idem/transact.hpp>

#include "server.hpp"

namespace {

using namespace std::chrono_literals;
using test::ask;
using test::unique_key;

struct example {
    const char *text;
    const char *base64;
};

const example kRefused[] = {
    {R"("a\u0000b")", "ImFcdTAwMDBiIg=="},
    {R"({"a": "\ud83d",  "b": [1.0]})", "eyJhIjogIlx1ZDgzZCIsICAiYiI6IFsxLjBdfQ=="},
    {R"("\uDE00\uD83D")", "Ilx1REUwMFx1RDgzRCI="},
    {R"("\ud83dx")", "Ilx1ZDgzZHgi"},
    {"\"\xED\xA0\xBD\"", "Iu2gvSI="},
    {R"({"$base64": "eA=="})", "eyIkYmFzZTY0IjogImVBPT0ifQ=="},
    {R"( {"\u0024base64":1})", "IHsiXHUwMDI0YmFzZTY0IjoxfQ=="},
    {R"({"\u0000": 0})", "eyJcdTAwMDAiOiAwfQ=="},
};

// jsonb holds these, and spells them in its own way.
const example kHeld[] = {
    {R"("\\u0000")", R"("\\u0000")"},
    {R"("\\\\u0000")", R"("\\\\u0000")"},
    {R"("\ud83d\ude00")", "\"\xF0\x9F\x98\x80\""},
    {R"(["$base64"])", R"(["$base64"])"},
    {R"([{"$base64": "eA=="}])", R"([{"$base64": "eA=="}])"},
    {R"({"a": {"$base64": "eA=="}})", R"({"a": {"$base64": "eA=="}})"},
    {R"({"$base":"eA=="})", R"({"$base": "eA=="})"},
    {"\"\xED\x9F\xBF\"", "\"\xED\x9F\xBF\""},
};

std::string marked(const example &of) { return std::string(R"({"$base64": ")") + of.base64 + "\"}"; }
std::string stored(const std::string &key) { return ask("SELECT response::text FROM idem.idem_lookup($1)", {key}); }

TEST(StoredText, OnceReplaysWhatJsonbRefuses) {
    idem::client db = test::make_client();
    for (const example &each : kRefused) {
        const std::string key = unique_key();
        for (int i = 0; i < 2; ++i) {
            const idem::answer known = idem::once(db, idem::request{key}, [&](idem::transaction &) {
                return idem::response{201, each.text};
            });
            EXPECT_EQ(known.response, each.text);
            EXPECT_EQ(known.replayed, i == 1);
        }
        EXPECT_EQ(idem::try_once(db, idem::request{key}, [](idem::transaction &) {}).answer->response, each.text);
        EXPECT_EQ(stored(key), marked(each));
        EXPECT_EQ(idem::lookup(db, key)->response, each.text);
    }
}

TEST(StoredText, OtherTextIsStoredAsItIs) {
    idem::client db = test::make_client();
    for (const example &each : kHeld) {
        const std::string key = unique_key();
        for (int i = 0; i < 2; ++i)
            EXPECT_EQ(idem::once(db, idem::request{key}, [&](idem::transaction &) { return each.text; }).response, each.base64);
        EXPECT_EQ(stored(key), each.base64);
    }
}

TEST(StoredText, TextThatIsNoJsonIsAnErrorInOnce) {
    idem::client db = test::make_client();
    for (const char *text : {"ch_17", R"(\u0000)", R"({"\u0000": tru})", R"("\u0000)", R"({"$base64": })"})
        EXPECT_THROW(idem::once(db, idem::request{unique_key()}, [&](idem::transaction &) { return text; }), idem::bad_input)
            << text;
}

TEST(StoredText, LeasedReplaysWhatJsonbRefuses) {
    idem::client db = test::make_client();
    for (const example &each : kRefused)
        for (const bool completes : {false, true}) {
            const std::string key = unique_key();
            for (int i = 0; i < 2; ++i) {
                const idem::answer known = idem::leased(db, idem::request{key}.lease(60s), [&](idem::lease &lease) {
                    if (completes)
                        idem::transact(db, [&](idem::transaction &tx) { lease.complete(tx, {each.text}); });
                    return each.text;
                });
                EXPECT_EQ(known.response, each.text);
                EXPECT_EQ(known.replayed, i == 1);
            }
            EXPECT_EQ(stored(key), marked(each));
        }
}

struct failure {};

TEST(StoredText, StepsKeepWhatJsonbRefuses) {
    idem::client db = test::make_client();
    for (const example &each : kRefused) {
        const std::string key = unique_key();
        int acted = 0;
        const auto work = [&](idem::lease &lease) {
            const auto act = [&] {
                ++acted;
                return each.text;
            };
            lease.step("a\"{", [] { return R"({"$base64": [{"$base64": "eA=="}, "{\"$base64\": \"eA==\"}"]})"; });
            EXPECT_EQ(lease.step("charge", act), each.text);
            EXPECT_EQ(lease.step("charge", act), each.text) << "as it was stored";
            idem::transact(db, [&](idem::transaction &tx) {
                EXPECT_EQ(lease.step(tx, "book", act), each.text);
                EXPECT_EQ(lease.step(tx, "book", act), each.text);
            });
            lease.step("plain", [] { return R"({"b": {"$base64": "eA=="}})"; });
            if (lease.attempt() == 1)
                throw failure{};
            EXPECT_EQ(lease.steps(),
                      std::string(R"({"a\"{": {"$base64": [{"$base64": "eA=="}, "{\"$base64\": \"eA==\"}"]}, "book": )") +
                          each.text + R"(, "plain": {"b": {"$base64": "eA=="}}, "charge": )" + each.text + "}");
        };
        EXPECT_THROW(idem::leased(db, idem::request{key}.lease(60s), work), failure);
        idem::leased(db, idem::request{key}.lease(60s), work);
        EXPECT_EQ(acted, 2);
    }
}

} // namespace
