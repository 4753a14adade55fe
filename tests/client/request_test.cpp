// The request as a builder.
#include <gtest/gtest.h>

#include <type_traits>
#include <utility>

#include <idem/request.hpp>

namespace {

using idem::request;

/// Whether a setter on a temporary returns an object, and on an object that object.
template <typename Set> constexpr bool cannot_dangle(Set) {
    return std::is_same_v<std::invoke_result_t<Set, request>, request> &&
           std::is_same_v<std::invoke_result_t<Set, request &>, request &>;
}

#define SETTER(call) [](auto &&on) -> decltype(auto) { return std::forward<decltype(on)>(on).call; }

TEST(Request, SettersOfATemporaryReturnNoReference) {
    EXPECT_TRUE(cannot_dangle(SETTER(in("a"))));
    EXPECT_TRUE(cannot_dangle(SETTER(of_json("{}"))));
    EXPECT_TRUE(cannot_dangle(SETTER(of_text("a"))));
    EXPECT_TRUE(cannot_dangle(SETTER(with_fingerprint("00"))));
    EXPECT_TRUE(cannot_dangle(SETTER(ttl(idem::duration(1)))));
    EXPECT_TRUE(cannot_dangle(SETTER(lease(idem::duration(1)))));
    EXPECT_TRUE(cannot_dangle(SETTER(wait(idem::wait_limit::forever()))));
}

TEST(Request, SettersKeepWhatWasSet) {
    const request &chained = request{"key"}.in("scope").of_json("{}").ttl(idem::duration(1)).lease(idem::duration(2));
    EXPECT_EQ(chained.key(), "key");
    EXPECT_EQ(chained.scope(), "scope");
    EXPECT_EQ(chained.json(), "{}");
    EXPECT_EQ(chained.ttl(), idem::duration(1));
    EXPECT_EQ(chained.lease(), idem::duration(2));
    request stepwise{"key"};
    EXPECT_EQ(&stepwise.in("scope").of_text("text"), &stepwise);
    EXPECT_EQ(stepwise.scope(), "scope");
    EXPECT_EQ(stepwise.text(), "text");
}

} // namespace
