// Tokens that go out with a page and can be redeemed once (docs/tokens.md).
#pragma once

#include <string>

#include <idem/request.hpp>
#include <idem/target.hpp>
#include <idem/transact.hpp>

namespace idem {

enum class token_outcome {
    accepted,  ///< the first time: do the work in this transaction
    duplicate, ///< it was redeemed, and that has committed: the work is done
    in_flight, ///< another transaction is redeeming it, and may still roll back: come back later
    expired,   ///< too late
    invalid    ///< not a token of this database for this subject and scope, or revoked
};

/// The word the SQL functions have for it: "accepted".
const char *name(token_outcome outcome) noexcept;

/// A token of 82 characters, of A-Z a-z 0-9 - _. Writes nothing. `subject`: only the same redeems it; `ttl`: at most 7 days.
/// One round trip; run again after a lost connection.
std::string issue_token(const target &at, const std::string &subject = "", duration ttl = std::chrono::minutes(30),
                        const std::string &scope = "");

/// Redeems a token; never waits, and has an outcome for whatever text. One round trip. In a transaction a rollback makes the
/// token good again; on a client it is used up at once, and a lost reply is outcome_unknown.
token_outcome redeem_token(const target &at, const std::string &token, const std::string &subject = "",
                           const std::string &scope = "");

namespace detail {

command redeem_step(const std::string &token, const std::string &subject, const std::string &scope);
token_outcome redeemed(const rows &answer);

} // namespace detail

/// Redeems the token, and when it is accepted runs `work(transaction &)` in the same transaction: when the work fails, the
/// token is good again. Every other outcome is returned without running `work`, and throws nothing.
///
/// Two round trips on top of the work's own, one where the token is not accepted. Runs again as `transact` does. When the reply
/// to COMMIT was lost, the token is redeemed once more: accepted means that nothing had been committed, and the work runs;
/// duplicate means that the work is done, by this call or (had it not committed) by another that came in between;
/// outcome_unknown is thrown when the token has run out, or was revoked, meanwhile.
template <typename F>
token_outcome with_token(client &db, const std::string &token, F &&work, const std::string &subject = "",
                         const flow_options &options = {}, const std::string &scope = "") {
    return detail::run_flow(
        db, options,
        [&](detail::flow &run) {
            for (;;) {
                const token_outcome outcome = detail::redeemed(run.begin(detail::redeem_step(token, subject, scope)));
                if (outcome == token_outcome::accepted) {
                    run.settled();
                    work(run.tx());
                    run.commit();
                    return outcome;
                }
                run.cancel();
                // What the server says of a token that has run out, or was revoked, it says of a redeemed one too.
                if (run.unknown() && (outcome == token_outcome::expired || outcome == token_outcome::invalid))
                    throw outcome_unknown("08007",
                                          "the connection was lost during commit, and the token is not good any more: how the "
                                          "commit ended cannot be told",
                                          {subject, scope});
                // It may well be the lost connection's transaction that is at it.
                if (outcome != token_outcome::in_flight || !run.still_held())
                    return outcome;
            }
        },
        true);
}

} // namespace idem
