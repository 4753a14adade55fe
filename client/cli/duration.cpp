#include "duration.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string>

#include "usage.hpp"

namespace idem::cli {

namespace {

struct unit {
    std::string_view name;
    double milliseconds;
};

constexpr double kSecond = 1000, kMinute = 60 * kSecond, kHour = 60 * kMinute, kDay = 24 * kHour, kWeek = 7 * kDay;
constexpr double kMaximum = 36525 * kDay;

constexpr unit units[] = {
    {"ms", 1},         {"millisecond", 1},  {"milliseconds", 1},  {"s", kSecond},   {"sec", kSecond},
    {"secs", kSecond}, {"second", kSecond}, {"seconds", kSecond}, {"m", kMinute},   {"min", kMinute},
    {"mins", kMinute}, {"minute", kMinute}, {"minutes", kMinute}, {"h", kHour},     {"hr", kHour},
    {"hrs", kHour},    {"hour", kHour},     {"hours", kHour},     {"d", kDay},      {"day", kDay},
    {"days", kDay},    {"w", kWeek},        {"week", kWeek},      {"weeks", kWeek},
};

[[noreturn]] void reject(std::string_view text, const std::string &why) {
    throw usage_error("duration \"" + std::string(text) + "\" " + why + "; write for example 30s, \"5 min\" or 1h30m");
}

void skip_spaces(std::string_view &rest) { rest.remove_prefix(std::min(rest.find_first_not_of(' '), rest.size())); }

bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

} // namespace

std::chrono::milliseconds parse_duration(std::string_view text) {
    std::string_view rest = text;
    skip_spaces(rest);
    if (rest == "0")
        return {};
    if (rest.empty())
        reject(text, "is empty");
    double total = 0;
    while (!rest.empty()) {
        double number = 0;
        const auto [end, problem] = std::from_chars(rest.data(), rest.data() + rest.size(), number, std::chars_format::fixed);
        if (problem != std::errc() || !(rest[0] >= '0' && rest[0] <= '9'))
            reject(text, "has no number where one is due");
        rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
        skip_spaces(rest);
        const auto letters = static_cast<std::size_t>(std::find_if_not(rest.begin(), rest.end(), is_letter) - rest.begin());
        const std::string_view name = rest.substr(0, letters);
        if (name.empty())
            reject(text, "has a number without a unit");
        const auto *found =
            std::find_if(std::begin(units), std::end(units), [&](const unit &each) { return each.name == name; });
        if (found == std::end(units))
            reject(text, "has the unknown unit \"" + std::string(name) + "\"");
        total += number * found->milliseconds;
        rest.remove_prefix(letters);
        skip_spaces(rest);
    }
    if (total > kMaximum)
        reject(text, "is over 100 years");
    return std::chrono::milliseconds(std::llround(total));
}

} // namespace idem::cli
