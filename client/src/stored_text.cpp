#include "stored_text.hpp"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

namespace idem::detail {

namespace {

constexpr std::string_view kSpace = " \t\n\r", kMember = "$base64";
// In jsonb's spelling.
constexpr std::string_view kHead = "{\"$base64\": \"", kTail = "\"}";
constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

std::string base64_of(std::string_view bytes) {
    std::string text;
    for (std::size_t i = 0; i < bytes.size(); i += 3) {
        std::uint32_t group = 0;
        for (std::size_t j = i; j < i + 3; ++j)
            group = group << 8 | (j < bytes.size() ? static_cast<unsigned char>(bytes[j]) : 0U);
        for (int shift = 18; shift >= 0; shift -= 6)
            text += kDigits[group >> shift & 63];
    }
    const std::size_t padding = (3 - bytes.size() % 3) % 3;
    return text.replace(text.size() - padding, padding, padding, '=');
}

/// Nothing: this is not base64.
std::optional<std::string> bytes_of(std::string_view base64) {
    while (!base64.empty() && base64.back() == '=')
        base64.remove_suffix(1);
    std::string bytes;
    std::uint32_t bits = 0;
    int count = 0;
    for (const char c : base64) {
        const std::size_t digit = kDigits.find(c);
        if (digit == std::string_view::npos)
            return std::nullopt;
        bits = bits << 6 | static_cast<std::uint32_t>(digit);
        if ((count += 6) >= 8)
            bytes += static_cast<char>(bits >> (count -= 8) & 255);
    }
    return bytes;
}

/// The code unit of an escape such as \u0041 at this place.
std::optional<unsigned> unit_at(std::string_view json, std::size_t at) {
    if (json.substr(at, 2) != "\\u" || json.size() < at + 6)
        return std::nullopt;
    unsigned unit = 0;
    for (const char c : json.substr(at + 2, 4)) {
        const std::size_t digit = std::string_view("0123456789abcdef0123456789ABCDEF").find(c);
        if (digit == std::string_view::npos)
            return std::nullopt;
        unit = unit << 4 | (digit & 15);
    }
    return unit;
}

bool is_high(unsigned unit) { return unit >= 0xD800 && unit < 0xDC00; }
bool is_low(unsigned unit) { return unit >= 0xDC00 && unit < 0xE000; }

/// Whether a surrogate begins here that is written as UTF-8 writes other characters.
bool is_raw_surrogate(std::string_view json, std::size_t at) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(json[i]); };
    return json.size() >= at + 3 && byte(at) == 0xED && byte(at + 1) >= 0xA0 && byte(at + 1) < 0xC0 && byte(at + 2) >> 6 == 2;
}

std::string without_refused(std::string_view json) {
    std::string clean;
    for (std::size_t i = 0; i < json.size();) {
        std::size_t length = json[i] == '\\' ? 2 : 1;
        if (const std::optional<unsigned> unit = unit_at(json, i)) {
            const bool is_pair = is_high(*unit) && is_low(unit_at(json, i + 6).value_or(0));
            length = is_pair ? 12 : 6;
            if (*unit == 0 || (!is_pair && (is_high(*unit) || is_low(*unit)))) {
                clean += "\\ufffd";
                i += length;
                continue;
            }
        } else if (is_raw_surrogate(json, i)) {
            clean += "\xEF\xBF\xBD";
            i += 3;
            continue;
        }
        clean += json.substr(i, length);
        i += length;
    }
    return clean;
}

/// Whether this is an object whose first member has the name of the mark, in any spelling.
bool begins_as_marked(std::string_view json) {
    const auto skip_to = [&](std::size_t from, char wanted) {
        const std::size_t found = json.find_first_not_of(kSpace, from);
        return found != std::string_view::npos && json[found] == wanted ? found + 1 : std::string_view::npos;
    };
    std::size_t at = skip_to(0, '{');
    if (at == std::string_view::npos || (at = skip_to(at, '"')) == std::string_view::npos)
        return false;
    for (const char c : kMember) {
        const std::optional<unsigned> unit = unit_at(json, at);
        if (unit ? *unit != static_cast<unsigned char>(c) : json.substr(at, 1) != std::string_view(&c, 1))
            return false;
        at += unit ? 6 : 1;
    }
    return json.substr(at, 1) == "\"";
}

/// The end of the value that begins here, in jsonb's spelling: at the comma or the bracket after it.
std::size_t end_of_value(std::string_view json, std::size_t at) {
    int depth = 0;
    for (bool in_string = false; at < json.size(); ++at) {
        const char c = json[at];
        if (in_string) {
            at += c == '\\';
            in_string = c != '"';
        } else if (c == '"') {
            in_string = true;
        } else if (depth == 0 && (c == ',' || c == '}' || c == ':')) {
            return at;
        } else {
            depth += (c == '{' || c == '[') - (c == '}' || c == ']');
        }
    }
    return json.size();
}

} // namespace

stored_text::stored_text(const parameter &json) : text(json) {
    if (!json)
        return;
    std::string clean = without_refused(*json);
    if (clean == *json && !begins_as_marked(*json))
        return;
    text = std::string(kHead) + base64_of(*json) + std::string(kTail);
    check = std::move(clean);
}

parameter result_of(parameter stored) {
    const std::string_view text = stored ? std::string_view(*stored) : std::string_view();
    if (text.size() < kHead.size() + kTail.size() || text.substr(0, kHead.size()) != kHead ||
        text.substr(text.size() - kTail.size()) != kTail)
        return stored;
    std::optional<std::string> bytes = bytes_of(text.substr(kHead.size(), text.size() - kHead.size() - kTail.size()));
    return bytes ? std::move(bytes) : std::move(stored);
}

parameter results_of(const parameter &stored) {
    if (!stored || stored->find(kHead) == std::string::npos)
        return stored;
    const std::string_view json = *stored;
    std::string results = "{";
    for (std::size_t at = 1; at < json.size();) {
        const std::size_t value = std::min(end_of_value(json, at) + 2, json.size()), end = end_of_value(json, value);
        results += json.substr(at, value - at);
        results += *result_of(std::string(json.substr(value, end - value)));
        at = std::min(end + 2, json.size());
        results += json.substr(end, at - end);
    }
    return results;
}

} // namespace idem::detail
