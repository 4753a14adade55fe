// The options of `idem http-test`.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace idem::cli {

/// An empty text is an option that was not given; the cases that need it are skipped.
struct http_test_options {
    std::string url, route, other_route;
    std::string profile = "ietf";
    std::string method = "POST", other_method;
    std::string content_type = "application/json";
    std::string body, other_body, slow_body, fail_body, error_body, invalid_body;
    std::vector<std::string> headers; ///< "Name: value"
    std::string other_client;         ///< the same, in place of the header of that name
    std::string effects;              ///< a path with {key}
    std::string restart, junit, only;
    std::chrono::milliseconds timeout{10'000};
    int at_once = 10;
    bool reference = false;
};

} // namespace idem::cli
