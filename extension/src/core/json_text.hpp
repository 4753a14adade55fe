// Strings as RFC 8785 (JSON Canonicalization Scheme), JavaScript's JSON.stringify and Python's json.dumps(ensure_ascii=False)
// write them: quoted, `"` and `\` escaped, control characters as \b \t \n \f \r or \u00xx, all others unchanged.
#pragma once

#include <string>
#include <string_view>

namespace idem::core {

std::string json_string(std::string_view utf8);

// Counts the members of all objects in a JSON text, those of one name as often as they are there. REQUIRES: the text is valid.
int count_json_members(std::string_view text) noexcept;

} // namespace idem::core
