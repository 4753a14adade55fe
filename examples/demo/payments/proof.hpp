// Payment requests with double clicks, retries and broken connections: "look, then insert" against idem_begin.
#pragma once

#include <cstddef>
#include <cstdint>

namespace demo::payments {

// Sends about `requests` requests through both halves and prints what became of them. True: the proof holds.
bool prove(std::uint64_t seed, std::size_t requests);

} // namespace demo::payments
