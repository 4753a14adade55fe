#include "http_text.hpp"

#include <algorithm>
#include <vector>

namespace idem::detail {

namespace {

constexpr char kHex[] = "0123456789abcdef";

void append_json(std::string &json, const std::string &text) {
    json += '"';
    for (const char c : text) {
        if (c == '"' || c == '\\') {
            json += '\\';
            json += c;
        } else if (static_cast<unsigned char>(c) < 0x20) {
            json += "\\u00";
            json += kHex[static_cast<unsigned char>(c) >> 4];
            json += kHex[c & 15];
        } else {
            json += c;
        }
    }
    json += '"';
}

bool same_name(const std::string &left, const std::string &right) {
    const auto lower = [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + ('a' - 'A')) : c; };
    return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                      [&](char a, char b) { return lower(a) == lower(b); });
}

} // namespace

std::string printable(std::string text) {
    const auto is_printable = [](char c) { return c == '\t' || (c >= 0x20 && c <= 0x7e); };
    std::replace_if(
        text.begin(), text.end(), [&](char c) { return !is_printable(c); }, '\x7f');
    return text;
}

std::string bytea_text(const std::string &bytes) {
    std::string text = "\\x";
    text.reserve(2 + 2 * bytes.size());
    for (const char c : bytes) {
        text += kHex[static_cast<unsigned char>(c) >> 4];
        text += kHex[static_cast<unsigned char>(c) & 15];
    }
    return text;
}

std::string json_of(const http_headers &headers) {
    std::string json = "{";
    std::vector<bool> done(headers.size(), false);
    for (std::size_t i = 0; i < headers.size(); ++i) {
        if (done[i])
            continue;
        if (json.size() > 1)
            json += ',';
        append_json(json, headers[i].first);
        json += ":[";
        for (std::size_t j = i; j < headers.size(); ++j)
            if (same_name(headers[i].first, headers[j].first)) {
                if (j > i)
                    json += ',';
                append_json(json, headers[j].second);
                done[j] = true;
            }
        json += ']';
    }
    return json + '}';
}

} // namespace idem::detail
