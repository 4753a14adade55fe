// HTTP messages as parameters of statements.
#pragma once

#include <string>

#include <idem/http.hpp>

namespace idem::detail {

/// The bytes as the text of a bytea.
std::string bytea_text(const std::string &bytes);

/// The text of a header with DEL for each byte that is no printable ASCII and may have no form in the database's encoding. For
/// fields of which no format allows such a byte: with DEL they are as invalid as before.
std::string printable(std::string text);

/// An object of arrays: the values of each name, in their order.
std::string json_of(const http_headers &headers);

} // namespace idem::detail
