// One-time token: the page carries a token, and an order uses it up. The token says itself whose it is and until when, so
// handing out a page writes nothing.
#include "../scheme.hpp"

namespace checkout {
namespace {

constexpr const char *kScope = "checkout";

Fields fields(const Visit &visit) {
    return {{"token", idem::issue_token(visit.shop.db, visit.visitor, visit.token_ttl, kScope)}};
}

Answer submit(Shop &shop, const Submission &submission) {
    const std::string &token = submission.field("token");
    std::string order;
    const idem::token_outcome said =
        idem::with_token(shop.db, token, submission.visitor, {{}, kScope},
                         [&](idem::transaction &tx) { order = place_order(tx, submission, token); });

    Answer answer{Outcome::invalid, "", "idem_token_redeem", idem::name(said)};
    switch (said) {
    case idem::token_outcome::accepted:
        answer.outcome = Outcome::ordered;
        answer.order = order;
        break;
    case idem::token_outcome::duplicate:
        answer.outcome = Outcome::already;
        answer.order = order_of(shop, submission, token);
        break;
    case idem::token_outcome::in_flight:
        answer.outcome = Outcome::in_flight;
        break;
    case idem::token_outcome::expired:
        answer.outcome = Outcome::expired;
        break;
    case idem::token_outcome::invalid:
        break;
    }
    return answer;
}

constexpr const char *kCode = R"(-- with the page
SELECT idem_token_issue(subject => visitor, ttl => '30 min');

-- with the order
BEGIN;
SELECT idem_token_redeem(token, subject => visitor);
                        -- accepted | duplicate | expired | …
INSERT INTO orders …;   -- only if accepted
COMMIT;

// C++
idem::with_token(db, token, visitor, [&](idem::transaction &tx) {
    place_order(tx, cart);
});)";

} // namespace

const Scheme kToken{"token", kCode, fields, submit};

} // namespace checkout
