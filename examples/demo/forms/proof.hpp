// Order forms with a one-time token, sent twice, too late or with a wrong token: a table of tokens against idem_token_issue
// and idem_token_redeem.
#pragma once

#include <cstdint>

namespace demo::forms {

// Hands out and sends the same forms in all ways, and prints what became of them. True: the proof holds.
bool prove(std::uint64_t seed);

} // namespace demo::forms
