// One-time tokens (docs/tokens.md).
#pragma once

#include <string>
#include <utility>

#include <idem/request.hpp>
#include <idem/target.hpp>
#include <idem/transact.hpp>

namespace idem {

enum class token_outcome {
    accepted,  ///< redeemed for the first time: do the work in this transaction
    duplicate, ///< redeemed before, and that has committed: the work is done
    in_flight, ///< another transaction is redeeming it, and may still roll back: try again later
    expired,   ///< its ttl is over
    invalid    ///< not a token of this database for this subject and scope, or revoked
};

/// As the SQL functions spell it: "accepted".
const char *name(token_outcome outcome) noexcept;

/// Issues a token of 82 characters (A-Z a-z 0-9 - _), which writes nothing. It can be redeemed only with the same `subject`.
/// `ttl`: at most 7 days. One round trip; retried after a lost connection.
std::string issue_token(const target &at, const std::string &subject = "", duration ttl = std::chrono::minutes(30),
                        const std::string &scope = "");

/// Redeems a token. Never waits, and returns an outcome for any text. One round trip. In a transaction, a rollback makes the
/// token redeemable again; on a client it is redeemed at once, and a lost reply is outcome_unknown.
token_outcome redeem_token(const target &at, const std::string &token, const std::string &subject = "",
                           const std::string &scope = "");

struct token_options {
    flow_options flow{};
    /// The scope of the token, as it was issued.
    std::string scope{};
};

namespace detail {

command redeem_step(const std::string &token, const std::string &subject, const std::string &scope);
token_outcome redeemed(const rows &answer);

} // namespace detail

/// Redeems the token and, if it is accepted, runs `work(transaction &)` in the same transaction: when the work fails, the token
/// is redeemable again. All other outcomes are returned without running `work`, and are not exceptions.
///
/// Two round trips in addition to those of the work; one where the token is not accepted. Retries are those of `transact`. When
/// the reply to COMMIT was lost, the token is redeemed once more. `accepted` then means that nothing had been committed, and
/// the work runs. `duplicate` means that the work is done: by this call, or (if this call did not commit) by another one
/// meanwhile. outcome_unknown is thrown when the token has expired or was revoked meanwhile.
template <typename F>
token_outcome with_token(client &db, const std::string &token, const std::string &subject, const token_options &options,
                         F &&work) {
    return detail::run_flow(
        db, options.flow,
        [&](detail::flow &run) {
            for (;;) {
                const token_outcome outcome = detail::redeemed(run.begin(detail::redeem_step(token, subject, options.scope)));
                if (outcome == token_outcome::accepted) {
                    run.earlier_attempts_rolled_back();
                    work(run.tx());
                    run.commit();
                    return outcome;
                }
                run.cancel();
                // An expired or revoked token has the same outcome whether it was redeemed or not.
                if (run.commit_unknown() && (outcome == token_outcome::expired || outcome == token_outcome::invalid))
                    throw outcome_unknown(
                        "08007",
                        "the connection was lost during commit, and the outcome cannot be determined: the token "
                        "has expired or was revoked",
                        {subject, options.scope});
                // The transaction that is redeeming it may be that of the lost connection.
                if (outcome != token_outcome::in_flight || !run.wait_for_lost_transaction())
                    return outcome;
            }
        },
        true);
}
template <typename F> token_outcome with_token(client &db, const std::string &token, const std::string &subject, F &&work) {
    return with_token(db, token, subject, token_options{}, std::forward<F>(work));
}
/// For a token without a subject.
template <typename F> token_outcome with_token(client &db, const std::string &token, F &&work) {
    return with_token(db, token, "", token_options{}, std::forward<F>(work));
}

} // namespace idem
