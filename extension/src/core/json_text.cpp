#include "core/json_text.hpp"

namespace idem::core {

namespace {

// Returns the letter of a two-character escape, or 0 for a character that has none.
char short_escape(char c) {
    switch (c) {
    case '"':
    case '\\':
        return c;
    case '\b':
        return 'b';
    case '\t':
        return 't';
    case '\n':
        return 'n';
    case '\f':
        return 'f';
    case '\r':
        return 'r';
    default:
        return 0;
    }
}

} // namespace

std::string json_string(std::string_view utf8) {
    static constexpr char kHex[] = "0123456789abcdef";
    std::string out = "\"";
    for (const char c : utf8) {
        if (const char letter = short_escape(c))
            out.append({'\\', letter});
        else if (const auto byte = static_cast<unsigned char>(c); byte < 0x20)
            out.append({'\\', 'u', '0', '0', kHex[byte >> 4], kHex[byte & 15]});
        else
            out += c;
    }
    return out += '"';
}

// Outside of strings, a colon stands in a member alone.
int count_json_members(std::string_view text) noexcept {
    int count = 0;
    bool in_string = false;
    for (std::size_t at = 0; at < text.size(); at++) {
        if (text[at] == '"')
            in_string = !in_string;
        else if (in_string && text[at] == '\\')
            at++;
        else if (!in_string && text[at] == ':')
            count++;
    }
    return count;
}

} // namespace idem::core
