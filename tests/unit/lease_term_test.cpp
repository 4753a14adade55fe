// The lease as its holder sees it, by the script that all clients follow.
#include "lease_term.hpp"

#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace idem::detail {
namespace {

using std::chrono::milliseconds;
using request = lease_term::request;

nlohmann::json cases() {
    std::ifstream file(IDEM_VECTORS "/lease.json");
    return nlohmann::json::parse(file).at("cases");
}

lease_term::time_point at(const nlohmann::json &event) {
    return lease_term::time_point(milliseconds(event.at("at").get<int>()));
}

request play(lease_term &term, const nlohmann::json &event) {
    const std::string what = event.at("event");
    if (what == "acquired")
        return term.acquired(at(event));
    if (what == "tick")
        return term.tick(at(event));
    if (what == "renewed")
        return term.renewed(at(event));
    if (what == "stale")
        return term.stale();
    if (what == "returned")
        return term.returned();
    if (what == "threw")
        return term.threw();
    if (what == "claim")
        term.claim(at(event));
    else if (what == "failed")
        term.failed(at(event));
    else
        ADD_FAILURE() << "unknown event " << what;
    return request::nothing;
}

const std::map<request, std::string> kNames{
    {request::renew, "renew"},           {request::work, "work"},         {request::lost_expired, "lost expired"},
    {request::lost_stale, "lost stale"}, {request::complete, "complete"}, {request::release, "release"}};

TEST(LeaseTerm, FollowsTheScripts) {
    for (const nlohmann::json &each : cases()) {
        SCOPED_TRACE(each.at("name").get<std::string>());
        lease_term term(milliseconds(each.at("lease").get<int>()));
        for (const nlohmann::json &event : each.at("script")) {
            SCOPED_TRACE(event.dump());
            const request asked = play(term, event);
            EXPECT_EQ(asked == request::nothing ? std::vector<std::string>{} : std::vector{kNames.at(asked)},
                      event.at("asks").get<std::vector<std::string>>());
            nlohmann::json due;
            if (const auto next = term.due())
                due = std::chrono::duration_cast<milliseconds>(next->time_since_epoch()).count();
            EXPECT_EQ(due, event.at("due"));
        }
    }
}

// What the server grants may be less than what was asked for.
TEST(LeaseTerm, LengthIsWhatWasGranted) {
    const auto time = [](int ms) { return lease_term::time_point(milliseconds(ms)); };
    lease_term term(milliseconds(3000));
    term.claim(time(0));
    EXPECT_EQ(term.acquired(time(0)), request::work);
    EXPECT_EQ(term.tick(time(1000)), request::renew);
    EXPECT_EQ(term.renewed(time(1100), milliseconds(1500)), request::nothing);
    EXPECT_EQ(term.until(), time(2500));
    EXPECT_EQ(term.due(), time(1500));
    EXPECT_EQ(term.watch(time(2499)), request::nothing);
    EXPECT_EQ(term.watch(time(2500)), request::lost_expired);
    EXPECT_FALSE(term.is_stale());
    term.stale();
    EXPECT_TRUE(term.is_stale()) << "the server has said so after the clock";
    EXPECT_EQ(term.returned(), request::nothing);
}

} // namespace
} // namespace idem::detail
