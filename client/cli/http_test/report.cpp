#include "http_test/report.hpp"

#include <algorithm>
#include <cstdio>

#include <nlohmann/json.hpp>

#include "outcome.hpp"

namespace idem::cli::http_test {

namespace {

const char *name_of(result outcome) {
    switch (outcome) {
    case result::passed:
        return "passed";
    case result::failed:
        return "failed";
    case result::skipped:
        break;
    }
    return "skipped";
}

std::string padded(std::string text, std::size_t width) {
    text.resize(std::max(width, text.size()), ' ');
    return text;
}

/// What XML 1.0 can hold: other control characters are left out, and bytes that are no UTF-8 are question marks.
std::string xml(const std::string &text) {
    const bool is_utf8 = is_storable_text(text);
    std::string out;
    for (const char c : text)
        if (c == '&')
            out += "&amp;";
        else if (c == '<')
            out += "&lt;";
        else if (c == '"')
            out += "&quot;";
        else if (static_cast<unsigned char>(c) >= 0x20)
            out += (c & 0x80) != 0 && !is_utf8 ? '?' : c;
    return out;
}

std::string seconds(std::chrono::milliseconds time) {
    char text[32];
    std::snprintf(text, sizeof text, "%.3f", static_cast<double>(time.count()) / 1000);
    return text;
}

} // namespace

std::size_t report::count(result outcome) const {
    return static_cast<std::size_t>(
        std::count_if(verdicts.begin(), verdicts.end(), [=](const verdict &each) { return each.outcome == outcome; }));
}

std::string report::badge() const {
    return "Idempotency-Key (" + profile + "): " + std::to_string(count(result::passed)) + "/" +
           std::to_string(verdicts.size() - count(result::skipped));
}

std::string as_text(const verdict &one) {
    std::string line = padded(name_of(one.outcome), 9) + padded(one.id, 26) + one.title;
    if (one.outcome == result::skipped)
        line += "; needs " + one.needs;
    line += "\n";
    if (one.outcome == result::failed)
        line += "         expected: " + one.expected + "\n         seen:     " + one.seen + "\n         rule:     " + one.rule +
                "\n";
    return line;
}

std::string summary(const report &all) {
    return "\n" + std::to_string(all.verdicts.size()) + " cases: " + std::to_string(all.count(result::passed)) + " passed, " +
           std::to_string(all.count(result::failed)) + " failed, " + std::to_string(all.count(result::skipped)) + " skipped\n" +
           all.badge() + "\n";
}

std::string as_json(const report &all) {
    using json = nlohmann::ordered_json;
    json cases = json::array();
    for (const verdict &each : all.verdicts) {
        json one{{"case", each.id},
                 {"title", each.title},
                 {"result", name_of(each.outcome)},
                 {"ms", each.took.count()},
                 {"rule", each.rule}};
        if (each.outcome == result::failed) {
            one["expected"] = each.expected;
            one["seen"] = each.seen;
        } else if (each.outcome == result::skipped) {
            one["needs"] = each.needs;
        }
        cases.push_back(std::move(one));
    }
    const json object{{"url", all.url},
                      {"profile", all.profile},
                      {"passed", all.count(result::passed)},
                      {"failed", all.count(result::failed)},
                      {"skipped", all.count(result::skipped)},
                      {"badge", all.badge()},
                      {"cases", cases}};
    return object.dump(1, ' ', false, json::error_handler_t::replace) + "\n";
}

std::string as_junit(const report &all) {
    std::chrono::milliseconds total{0};
    std::string cases;
    for (const verdict &each : all.verdicts) {
        total += each.took;
        cases += "  <testcase classname=\"http-test." + all.profile + "\" name=\"" + xml(each.id) + "\" time=\"" +
                 seconds(each.took) + "\"";
        if (each.outcome == result::failed)
            cases += ">\n    <failure message=\"" + xml("expected " + each.expected + ", seen " + each.seen) + "\">" +
                     xml(each.rule) + "</failure>\n  </testcase>\n";
        else if (each.outcome == result::skipped)
            cases += ">\n    <skipped message=\"" + xml("needs " + each.needs) + "\"/>\n  </testcase>\n";
        else
            cases += "/>\n";
    }
    return "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuite name=\"" + xml("idem http-test " + all.url) + "\" tests=\"" +
           std::to_string(all.verdicts.size()) + "\" failures=\"" + std::to_string(all.count(result::failed)) +
           "\" skipped=\"" + std::to_string(all.count(result::skipped)) + "\" time=\"" + seconds(total) + "\">\n" + cases +
           "</testsuite>\n";
}

} // namespace idem::cli::http_test
