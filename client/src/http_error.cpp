#include <idem/http.hpp>

namespace idem {

namespace {

http_response problem(int status, const std::string &code, const std::string &detail) {
    const std::string title = status == 503 ? "Service Unavailable" : "Internal Server Error";
    http_response answer{status, {{"Content-Type", "application/problem+json"}}};
    answer.body = R"({"type":"about:blank","title":")" + title + R"(","status":)" + std::to_string(status) + R"(,"code":")" +
                  code + R"(","detail":")" + detail + R"("})";
    if (status == 503)
        answer.headers.emplace_back("Retry-After", "1");
    return answer;
}

} // namespace

namespace detail {

http_response http_too_large() {
    return problem(500, "response_too_large", "The response is over the limit, and the request was not processed.");
}

} // namespace detail

http_response http_error(const std::exception_ptr &error) {
    std::string sqlstate;
    const verdict what = judge(error, &sqlstate);
    const auto begins_with = [&](const std::string &prefix) { return sqlstate.compare(0, prefix.size(), prefix) == 0; };
    if (what == verdict::transient)
        return problem(503, "serialization_failure", "The transaction met another one and was rolled back.");
    if (what == verdict::commit_unknown)
        return problem(503, "commit_unknown",
                       "The connection was lost during commit. It is not known whether the request was processed.");
    if (what == verdict::connection_lost || begins_with("08") || begins_with("53") || begins_with("57P") || sqlstate == "25006")
        return problem(503, "unavailable", "The database could not be reached, or the connection was lost. Nothing was done.");
    if (sqlstate == "ID001")
        return problem(503, "lease_lost", "Another request has taken over the work.");
    if (sqlstate == "25P02")
        return problem(500, "rolled_back", "The transaction was rolled back. Nothing was done.");
    return problem(500, "internal", "The request was not processed. The log of the server has the reason.");
}

} // namespace idem
