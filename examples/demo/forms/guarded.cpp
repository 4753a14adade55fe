// With idem: the token says itself who may redeem it and until when, so there is nothing to store until it is redeemed.
// Redeeming belongs to the transaction that makes the order: both commit, or the token is good again.
#include "way.hpp"

namespace demo::forms {
namespace {

constexpr const char *kIssue = "SELECT idem_token_issue(subject => $1::text, ttl => $2::interval, scope => 'forms')";

// What an earlier demo redeemed, so that what is there afterwards is this one's.
void guard(pqxx::work &transaction) { transaction.exec("DELETE FROM idem_tokens WHERE scope = 'forms'"); }

void prepare(pqxx::connection &connection) {
    connection.prepare("redeem", "SELECT idem_token_redeem(token => $1, subject => $2::text, scope => 'forms')");
}

// "in_flight": the other click is not done yet. A browser that wants to know more sends the form again a little later.
Answer submit(const Submission &submission) {
    const Click &click = submission.click();
    pqxx::work transaction{submission.connection()};
    auto outcome = one_row(exec_prepared(transaction, "redeem", click.token, click.customer))[0].as<std::string>();
    if (outcome != "accepted")
        return outcome;

    if (submission.place_order(transaction))
        transaction.commit();
    return outcome;
}

} // namespace

const Way kGuarded{.name = "idem",
                   .how = "no row: idem_token_redeem, make the order, COMMIT",
                   .schema = "forms_idem",
                   .guard = guard,
                   .token_table = "idem_tokens",
                   .issue = kIssue,
                   .prepare = prepare,
                   .submit = submit};

} // namespace demo::forms
