// The other usual way, often behind a function "consumeToken": delete the token, and make the order if there was one. Only
// one of two clicks can delete it. But it is gone when the order fails, and the customer cannot send the form again.
#include "token_table.hpp"
#include "way.hpp"

namespace demo::forms {
namespace {

void prepare(pqxx::connection &connection) {
    connection.prepare("delete",
                       "DELETE FROM form_tokens WHERE token = $1 AND customer = $2 AND expires_at > clock_timestamp()");
}

bool consume_token(const Submission &submission) {
    pqxx::work transaction{submission.connection()};
    const auto deleted = exec_prepared(transaction, "delete", submission.click().token, submission.click().customer);
    transaction.commit();
    return deleted.affected_rows() == 1;
}

Answer submit(const Submission &submission) {
    if (!consume_token(submission))
        return "refused";

    pqxx::work transaction{submission.connection()};
    if (submission.place_order(transaction))
        transaction.commit();
    return "accepted";
}

} // namespace

const Way kDeleteFirst{.name = "delete first",
                       .how = "a row per token: DELETE it, COMMIT, make the order, COMMIT",
                       .schema = "forms_delete_first",
                       .guard = create_token_table,
                       .token_table = "form_tokens",
                       .issue = kInsertToken,
                       .prepare = prepare,
                       .submit = submit};

} // namespace demo::forms
