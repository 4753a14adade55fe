// All flows of one transaction, as a table: what they have in common is tested through it.
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
    /// What it says when its step happened; it changes row 1, locks it, adds row 3, or uses up a message or a token.
    const char *first;
    /// When it is called again after that; empty: it throws. "again": the work runs again.
    const char *second;
    /// When it was its own COMMIT whose reply was lost; null: outcome_unknown.
    const char *unknown;
    std::function<std::string(idem::client &, const flow_setting &, const flow_work &, const idem::flow_options &)> run;
};

const std::vector<transaction_flow> &transaction_flows();

} // namespace test
