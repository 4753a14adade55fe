// What the library does with the parts of its public classes that applications do not need.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include <idem/client.hpp>
#include <idem/statement.hpp>
#include <idem/target.hpp>
#include <idem/transaction.hpp>

namespace idem::detail {

struct access {
    static client_state &state(const client &db) noexcept { return *db.state_; }

    static rows call(const target &at, const command &command) { return at.call(command); }
    static rows call(transaction &in, const command &command) { return in.call(command); }

    static std::unique_ptr<transaction> begin(client &db, isolation level, const std::vector<command> &first) {
        return std::unique_ptr<transaction>(new transaction(db, level, first));
    }
    /// The answers to the statements that were sent with BEGIN.
    static const std::vector<rows> &opening(const transaction &of) noexcept { return of.opening_; }
    static std::vector<rows> finish(transaction &of, const std::vector<command> &last) { return of.finish(last); }
};

/// What all copies of the client share.
inline client_state &state_of(const client &db) noexcept { return access::state(db); }

} // namespace idem::detail
