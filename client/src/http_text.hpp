// HTTP messages as parameters of statements.
#pragma once

#include <string>

#include <idem/http.hpp>

namespace idem::detail {

/// The bytes as the text of a bytea.
std::string bytea_text(const std::string &bytes);

/// An object of arrays: the values of each name, in their order.
std::string json_of(const http_headers &headers);

} // namespace idem::detail
