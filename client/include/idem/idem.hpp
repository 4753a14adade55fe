// All of the library except the adaptors to other libraries (idem/nlohmann.hpp).
//
// In every flow the callable is the last parameter. The options come before it, and may be left out.
#pragma once

#include <idem/client.hpp>
#include <idem/consume.hpp>
#include <idem/error.hpp>
#include <idem/http.hpp>
#include <idem/ids.hpp>
#include <idem/keys.hpp>
#include <idem/leased.hpp>
#include <idem/locks.hpp>
#include <idem/machines.hpp>
#include <idem/once.hpp>
#include <idem/outbox.hpp>
#include <idem/pqxx_compat.hpp>
#include <idem/request.hpp>
#include <idem/requests.hpp>
#include <idem/response.hpp>
#include <idem/retry.hpp>
#include <idem/row.hpp>
#include <idem/rows.hpp>
#include <idem/standard.hpp>
#include <idem/statement.hpp>
#include <idem/stop_token.hpp>
#include <idem/target.hpp>
#include <idem/tokens.hpp>
#include <idem/transact.hpp>
#include <idem/transaction.hpp>
#include <idem/version.hpp>
#include <idem/webhooks.hpp>
