// The usual way: look for the token, make the order, delete the token, in one transaction. An order that fails leaves the
// token in place, as it should. But two clicks at the same moment both find it, and the second DELETE, which finds
// nothing, is not an error.
#include "token_table.hpp"
#include "way.hpp"

namespace demo::forms {
namespace {

void prepare(pqxx::connection &connection) {
    connection.prepare("find", "SELECT FROM form_tokens WHERE token = $1 AND customer = $2 AND expires_at > clock_timestamp()");
    connection.prepare("delete", "DELETE FROM form_tokens WHERE token = $1");
}

Answer submit(const Submission &submission) {
    const Click &click = submission.click();
    pqxx::work transaction{submission.connection()};
    if (exec_prepared(transaction, "find", click.token, click.customer).empty())
        return "refused";

    if (!submission.place_order(transaction))
        return "accepted";
    exec_prepared(transaction, "delete", click.token);
    transaction.commit();
    return "accepted";
}

} // namespace

const Way kDeleteLast{.name = "delete last",
                      .how = "a row per token: SELECT it, make the order, DELETE it, COMMIT",
                      .schema = "forms_delete_last",
                      .guard = create_token_table,
                      .token_table = "form_tokens",
                      .issue = kInsertToken,
                      .prepare = prepare,
                      .submit = submit};

} // namespace demo::forms
