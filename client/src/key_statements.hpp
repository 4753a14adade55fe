// The statements about keys that more than one flow uses, and how to read what they answer.
#pragma once

#include <idem/request.hpp>
#include <idem/response.hpp>
#include <idem/statement.hpp>

namespace idem::detail {

/// A ticket: columns in the order of the enum.
enum ticket_column : std::size_t {
    outcome,
    fence,
    attempt,
    status_code,
    response_json,
    response_omitted,
    recovery_point,
    retry_after_ms,
    lease_ms
};

/// idem_begin for this request; `lease` nothing: transactional. `wait` overrides the request's.
command begin_command(const request &about, const parameter &lease, const std::string &owner, const patience &wait);
/// idem_execute for this request; a ticket too.
command execute_command(const request &about, const std::string &statement, const parameters &arguments);
/// idem_complete; answers with the response as the server stores it.
command complete_command(const request &about, const response &outcome, const parameter &fence);

/// idem_claim_many: answers with the keys that are new.
command claim_many_command(const std::vector<parameter> &keys, const std::optional<duration> &ttl, const std::string &scope);

answer answer_of(const row &ticket, bool replayed);
/// Throws what stands for an outcome that is neither acquired, taken_over nor completed.
[[noreturn]] void refuse(const row &ticket, const request &about);

/// For the end of a flow that does not know how its commit ended: throws outcome_unknown instead of an error that would pass
/// for an answer. Returns when the error does tell: the server would not say it of a key that this flow had completed.
void throw_unless_it_tells(const error &last, const subject &about);

} // namespace idem::detail
