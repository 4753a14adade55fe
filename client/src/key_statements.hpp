// The statements about keys that several flows use, and how to read their answers.
#pragma once

#include <idem/keys.hpp>
#include <idem/request.hpp>
#include <idem/response.hpp>
#include <idem/statement.hpp>

#include "outcome.hpp"

namespace idem::detail {

inline constexpr words<6> kKeyOutcomes{"acquired", "taken_over", "in_flight", "completed", "mismatch", "in_doubt"};

/// What idem_begin and idem_execute return.
struct ticket {
    key_outcome outcome;
    std::optional<std::int64_t> fence;
    int attempt;
    std::optional<int> status_code;
    parameter response; // JSON
    bool response_omitted;
    parameter steps; // JSON
    std::optional<duration> retry_after;
    std::optional<duration> lease_left;

    /// The work is the caller's.
    bool is_acquired() const noexcept { return outcome == key_outcome::acquired || outcome == key_outcome::taken_over; }
};

ticket ticket_of(const rows &answer);

/// idem_begin for this request. `lease` NULL: transactional mode. `wait` overrides the request's.
command begin_command(const request &about, const parameter &lease, const std::string &owner, const wait_limit &wait);
/// idem_execute for this request. The answer is a ticket.
command execute_command(const request &about, const std::string &statement, const parameters &arguments);
/// idem_complete. The answer is the response as the server stores it.
command complete_command(const request &about, const response &outcome, const parameter &fence);

/// idem_claim_many. The answer is the new keys.
command claim_many_command(const std::vector<parameter> &keys, const std::optional<duration> &ttl, const std::string &scope);

answer answer_of(const ticket &from, bool replayed);
/// Throws the error for an outcome that is neither acquired, taken_over nor completed.
[[noreturn]] void throw_rejection(key_outcome outcome, const std::optional<duration> &retry_after, const request &about);

/// For the last error of a flow that does not know how its commit ended: throws outcome_unknown when that error does not tell.
/// Returns when it does: the server would not report it for a key that this flow had completed.
void throw_if_inconclusive(const error &last, const subject &about);

} // namespace idem::detail
