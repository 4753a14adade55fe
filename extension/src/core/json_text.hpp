// Strings as RFC 8785 (JSON Canonicalization Scheme) writes them, and with it JSON.stringify of JavaScript and Python's
// json.dumps(ensure_ascii=False): quoted, `"` and `\` escaped, control characters as \b \t \n \f \r or \u00xx, all else as is.
#pragma once

#include <string>
#include <string_view>

namespace idem::core {

std::string json_string(std::string_view utf8);

} // namespace idem::core
