// A table of all flows that are one transaction, for the tests of their common behaviour.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include <idem/transact.hpp>

#include "scratch.hpp"

namespace test {

using flow_work = std::function<void(idem::transaction &)>;

struct flow_setting {
    const scratch &rows;
    std::string word; // a message id, or a token
    std::string token;
};

struct transaction_flow {
    const char *name;
    /// The outcome of the first call. Its step changes row 1, locks it, adds row 3, or uses up a message or a token.
    const char *first;
    /// The outcome of a second call; empty: it throws. "again": the work runs again.
    const char *second;
    /// The outcome when the reply to the call's own COMMIT was lost; null: it throws outcome_unknown.
    const char *unknown;
    std::function<std::string(idem::client &, const flow_setting &, const flow_work &, const idem::flow_options &)> run;
};

const std::vector<transaction_flow> &transaction_flows();

} // namespace test
