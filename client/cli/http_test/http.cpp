#include "http_test/http.hpp"

#include <algorithm>
#include <cctype>

#include <httplib.h>

#include "usage.hpp"

namespace idem::cli::http_test {

bool same_name(std::string_view one, std::string_view other) {
    return std::equal(one.begin(), one.end(), other.begin(), other.end(),
                      [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); });
}

std::optional<std::string> response::header(std::string_view name) const {
    for (const auto &[each, value] : headers)
        if (same_name(each, name))
            return value;
    return std::nullopt;
}

std::pair<std::string, std::string> split_url(std::string_view url) {
    const std::size_t scheme = url.find("://");
    if (!url.starts_with("http://") && !url.starts_with("https://"))
        throw usage_error("\"" + std::string(url) + "\" is not a URL; write for example http://localhost:3000/orders");
    const std::size_t path = std::min(url.find_first_of("/?", scheme + 3), url.size());
    std::string route(url.substr(path, url.find('#', path) - path));
    if (!route.starts_with('/'))
        route.insert(0, "/");
    return {std::string(url.substr(0, path)), route};
}

std::pair<std::string, std::string> parse_field(std::string_view line) {
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || colon == 0)
        throw usage_error("header \"" + std::string(line) +
                          "\" has no name; write for example \"Authorization: Bearer t0k3n\"");
    const std::size_t value = std::min(line.find_first_not_of(" \t", colon + 1), line.size());
    return {std::string(line.substr(0, colon)), std::string(line.substr(value))};
}

server::server(std::string origin) : origin_(std::move(origin)) {
    if (!httplib::Client(origin_).is_valid())
        throw usage_error("\"" + origin_ + "\" is not the address of an HTTP server");
}

response server::send(const request &what, std::chrono::milliseconds timeout) const {
    httplib::Client client(origin_);
    client.set_connection_timeout(std::chrono::seconds(5));
    client.set_read_timeout(timeout);
    client.set_write_timeout(timeout);
    client.set_decompress(false);
    httplib::Request message;
    message.method = what.method;
    message.path = what.route;
    message.body = what.body;
    for (const auto &[name, value] : what.headers)
        message.headers.emplace(name, value);
    const httplib::Result result = client.send(message);
    response answer;
    if (!result) {
        answer.body = "no response (" + httplib::to_string(result.error()) + ")";
        return answer;
    }
    answer.status = result->status;
    answer.body = result->body;
    answer.headers.assign(result->headers.begin(), result->headers.end());
    return answer;
}

} // namespace idem::cli::http_test
