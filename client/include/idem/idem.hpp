// All of the library but the adaptors to others (idem/nlohmann.hpp).
//
// In every flow the callable is the last parameter, and the options, which may be left out, come before it.
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
#include <idem/statement.hpp>
#include <idem/stop_token.hpp>
#include <idem/target.hpp>
#include <idem/tokens.hpp>
#include <idem/transact.hpp>
#include <idem/transaction.hpp>
#include <idem/version.hpp>
#include <idem/webhooks.hpp>
