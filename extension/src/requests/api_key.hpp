// The secrets that requests are signed with: rows of idem_api_keys, named by their key id.
#pragma once

#include "requests/signing_secret.hpp"

namespace idem {

extern Member api_keys;
extern SecretStore api_key_store;

} // namespace idem
