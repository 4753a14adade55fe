// `idem http-test`: the cases, one after the other, against a server.
#include <algorithm>
#include <fstream>
#include <iterator>

#include "commands.hpp"
#include "exit_code.hpp"
#include "http_test/cases.hpp"
#include "http_test/report.hpp"
#include "table.hpp"
#include "usage.hpp"

namespace idem::cli {

namespace http_test {

namespace {

std::vector<test_case> cases_for(const session &s) {
    std::vector<test_case> all;
    const auto append = [&](std::vector<test_case> part) {
        std::copy_if(part.begin(), part.end(), std::back_inserter(all), [&](const test_case &each) {
            return each.id.starts_with(s.options().only) && !source_of(s.rules(), each.id).empty();
        });
    };
    append(replay_cases());
    append(key_cases());
    append(mismatch_cases());
    append(json_cases());
    append(race_cases());
    append(error_cases());
    if (s.options().reference)
        append(reference_cases());
    append(effect_cases());
    if (all.empty())
        throw usage_error("profile " + s.options().profile + " has no case that begins with \"" + s.options().only + "\"");
    return all;
}

verdict judge(session &s, const test_case &each) {
    verdict one{
        .id = std::string(each.id), .title = std::string(each.title), .rule = std::string(source_of(s.rules(), each.id))};
    const std::map<std::string, int> effects = s.expected_effects();
    const auto start = std::chrono::steady_clock::now();
    try {
        each.run(s);
    } catch (const failed &failure) {
        one.outcome = result::failed;
        one.expected = failure.expected;
        one.seen = failure.seen;
        s.expect_only(effects); // a fault is reported once
    } catch (const skipped &skip) {
        one.outcome = result::skipped;
        one.needs = skip.needs;
    }
    one.took = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - start);
    return one;
}

void write(const std::string &path, const std::string &text) {
    if (!(std::ofstream(path) << text).flush())
        throw exit_error(kNotTested, "could not write \"" + path + "\"");
}

int test(const settings &given) {
    session s(given.http);
    report all{given.http.url, given.http.profile, {}};
    if (!given.json)
        print("idem http-test " + all.url + ", profile " + all.profile + "\n\n");
    for (const test_case &each : cases_for(s)) {
        all.verdicts.push_back(judge(s, each));
        if (!given.json)
            print(as_text(all.verdicts.back()));
    }
    print(given.json ? as_json(all) : summary(all));
    if (!given.http.junit.empty())
        write(given.http.junit, as_junit(all));
    return all.count(result::failed) == 0 ? kDone : kNo;
}

} // namespace

} // namespace http_test

int test_server(context &c) {
    try {
        return http_test::test(c.given);
    } catch (const usage_error &problem) {
        throw exit_error(kNotTested, problem.what());
    }
}

} // namespace idem::cli
