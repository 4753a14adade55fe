#include "core/http_message.hpp"

#include "core/trimmed.hpp"

#include <algorithm>
#include <iterator>

namespace idem::core {

namespace {

struct Reason {
    int status;
    const char *phrase;
};

// The IANA registry of HTTP status codes, 4xx and 5xx.
constexpr Reason kReasons[] = {
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {402, "Payment Required"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {407, "Proxy Authentication Required"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {410, "Gone"},
    {411, "Length Required"},
    {412, "Precondition Failed"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {416, "Range Not Satisfiable"},
    {417, "Expectation Failed"},
    {421, "Misdirected Request"},
    {422, "Unprocessable Content"},
    {423, "Locked"},
    {424, "Failed Dependency"},
    {425, "Too Early"},
    {426, "Upgrade Required"},
    {428, "Precondition Required"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {451, "Unavailable For Legal Reasons"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
    {506, "Variant Also Negotiates"},
    {507, "Insufficient Storage"},
    {508, "Loop Detected"},
    {511, "Network Authentication Required"},
};

char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

bool same_name(std::string_view left, std::string_view right) {
    return left.size() == right.size() &&
           std::equal(left.begin(), left.end(), right.begin(), [](char a, char b) { return lower(a) == lower(b); });
}

// Whether the predicate holds for an item of a comma-separated list.
template <typename Predicate> bool any_item(std::string_view list, Predicate predicate) {
    while (!list.empty()) {
        const std::size_t end = std::min(list.find(','), list.size());
        if (predicate(list.substr(0, end)))
            return true;
        list.remove_prefix(std::min(end + 1, list.size()));
    }
    return false;
}

bool is_token_character(char c) {
    const char folded = lower(c);
    return (folded >= 'a' && folded <= 'z') || (c >= '0' && c <= '9') ||
           (c != '\0' && std::string_view("!#$%&'*+-.^_`|~").find(c) != std::string_view::npos);
}

} // namespace

bool is_http_token(std::string_view text) noexcept {
    return !text.empty() && std::all_of(text.begin(), text.end(), is_token_character);
}

bool names_http_method(std::string_view methods, std::string_view method) noexcept {
    return any_item(methods, [method](std::string_view item) { return item == method; });
}

bool is_final_http_status(int status) noexcept { return status >= 200 && status <= 599; }

bool is_http_status_pattern(std::string_view pattern) noexcept {
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    const auto is_wildcard = [](char c) { return lower(c) == 'x'; };
    return pattern.size() == 3 && pattern[0] >= '1' && pattern[0] <= '5' &&
           ((is_digit(pattern[1]) && is_digit(pattern[2])) || (is_wildcard(pattern[1]) && is_wildcard(pattern[2])));
}

bool matches_http_status(std::string_view patterns, int status) noexcept {
    const char digits[] = {static_cast<char>('0' + status / 100), static_cast<char>('0' + status / 10 % 10),
                           static_cast<char>('0' + status % 10)};
    return any_item(patterns, [&digits](std::string_view pattern) {
        return is_http_status_pattern(pattern) &&
               std::equal(pattern.begin(), pattern.end(), std::begin(digits),
                          [](char item, char digit) { return item == digit || lower(item) == 'x'; });
    });
}

bool names_http_field(std::string_view names, std::string_view name) noexcept {
    return any_item(names, [name](std::string_view item) { return same_name(item, name); });
}

bool is_json_media_type(std::string_view content_type) noexcept {
    constexpr std::string_view kSuffix = "+json";
    const std::string_view type = trimmed(content_type.substr(0, content_type.find(';')), " \t");
    return same_name(type, "application/json") ||
           (type.size() > kSuffix.size() && same_name(type.substr(type.size() - kSuffix.size()), kSuffix));
}

bool is_http_field_value(std::string_view value) noexcept {
    using namespace std::string_view_literals;
    return value.find_first_of("\r\n\0"sv) == value.npos;
}

const char *http_reason(int status) noexcept {
    for (const Reason &reason : kReasons)
        if (reason.status == status)
            return reason.phrase;
    return http_reason(status < 500 ? 400 : 500);
}

} // namespace idem::core
