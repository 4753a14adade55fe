// What the parts' reports share.
#pragma once

#include <cstdint>
#include <string>

namespace demo {

// 1234567 as 1,234,567
std::string grouped(std::int64_t number);

// `kept`; prints the promise when it was broken.
bool expect(bool kept, const std::string &broken_promise);

} // namespace demo
