// Strings as RFC 8785 (JSON Canonicalization Scheme), JavaScript's JSON.stringify and Python's json.dumps(ensure_ascii=False)
// write them: quoted, `"` and `\` escaped, control characters as \b \t \n \f \r or \u00xx, all others unchanged.
#pragma once

#include <string>
#include <string_view>

namespace idem::core {

std::string json_string(std::string_view utf8);

} // namespace idem::core
