// Times of the server. Statements return them as microseconds: as text they would depend on the session's DateStyle and
// TimeZone.
#pragma once

#include <chrono>
#include <optional>

#include <idem/statement.hpp>

namespace idem::detail {

using server_time = std::chrono::time_point<std::chrono::system_clock, std::chrono::microseconds>;

inline std::optional<server_time> time_of(const parameter &microseconds) {
    if (!microseconds)
        return std::nullopt;
    return server_time(std::chrono::microseconds(to_integer(microseconds)));
}

} // namespace idem::detail
