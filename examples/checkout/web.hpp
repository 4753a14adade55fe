// The shop as an HTTP server: which path leads where.
#pragma once

#include <httplib.h>

#include "page.hpp"
#include "shop.hpp"

namespace checkout {

// Both must outlive the server.
void serve(httplib::Server &server, Shop &shop, const Pages &pages);

} // namespace checkout
