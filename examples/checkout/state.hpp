// What the panel and the tests see: the shop's orders, stock and bookings, the gateway's own books, and what idem answered.
#pragma once

#include <nlohmann/json.hpp>

#include "shop.hpp"

namespace checkout {

// Of one scheme; README.md describes it. What the gateway says is left out when it does not answer.
nlohmann::json state_of(Shop &shop, const std::string &scheme);
// Of all.
nlohmann::json state(Shop &shop);

} // namespace checkout
