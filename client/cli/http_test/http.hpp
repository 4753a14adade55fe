// One HTTP exchange. http.cpp is the only file that includes cpp-httplib.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace idem::cli::http_test {

using fields = std::vector<std::pair<std::string, std::string>>;

struct request {
    std::string method, route, body;
    fields headers; ///< a name may occur twice: two lines
};

struct response {
    int status = 0; ///< 0: there was none, and `body` says why
    fields headers;
    std::string body;

    /// The first field of this name, whatever its case.
    std::optional<std::string> header(std::string_view name) const;
    bool is_success() const { return status >= 200 && status < 300; }
};

/// A server, "http://host:port". Each request has a connection of its own, so that several threads can send.
class server {
  public:
    /// Throws usage_error if `origin` is none.
    explicit server(std::string origin);

    /// Reads the response as it comes: no redirect is followed, nothing is decompressed. After `timeout` without a byte the
    /// connection is closed.
    response send(const request &what, std::chrono::milliseconds timeout) const;

  private:
    std::string origin_;
};

/// "https://host:8443/a/b?c" as "https://host:8443" and "/a/b?c"; no path is "/". Throws usage_error.
std::pair<std::string, std::string> split_url(std::string_view url);

/// "Name: value". Throws usage_error.
std::pair<std::string, std::string> parse_field(std::string_view line);

bool same_name(std::string_view one, std::string_view other);

} // namespace idem::cli::http_test
