// What browsers and partners send: untrusted until it has been through here.
#pragma once

#include <map>
#include <string>

#include "shop.hpp"

namespace checkout {

using Values = std::map<std::string, std::string>;

// The cart in the fields of a form. Throws std::invalid_argument for a quantity that is not 1 to 5, a note over 60 characters
// or not in UTF-8, a gateway that there is none of. The knobs of tests count in test mode only.
Cart read_cart(const Settings &settings, const Values &values);
// The members of a JSON object as such fields. Throws std::invalid_argument for what is none, and for names
// that come twice.
Values read_json(const std::string &text);

bool is_utf8(const std::string &text);
bool is_hex32(const std::string &text);

} // namespace checkout
