// Page id and counter: a page has a number of its own and counts its orders. Each count is a claim, which commits with the
// order. So one page can be used for order after order, and each is made once.
#include "../scheme.hpp"

namespace checkout {
namespace {

constexpr const char *kScope = "checkout counter";

bool is_page(const std::string &text) {
    return text.size() == 36 && text.find_first_not_of("0123456789abcdef-") == std::string::npos;
}

bool is_count(const std::string &text) { return is_number(text) && text.size() <= 6; }

// The page that follows an order goes on counting.
Fields fields(const Visit &visit) {
    const auto page = visit.query.find("page"), counter = visit.query.find("counter");
    if (page != visit.query.end() && counter != visit.query.end() && is_page(page->second) && is_count(counter->second))
        return {{"page", page->second}, {"counter", counter->second}};
    return {{"page", idem::uuid_v7(visit.shop.db)}, {"counter", "1"}};
}

Answer submit(Shop &shop, const Submission &submission) {
    const std::string &page = submission.field("page"), &counter = submission.field("counter");
    if (!is_page(page) || !is_count(counter))
        return {Outcome::invalid};

    const std::string ref = page + "#" + counter;
    return idem::transact(shop.db, [&](idem::transaction &tx) -> Answer {
        // Waits for another that has the same count in hand.
        if (!idem::claim(tx, submission.visitor + "#" + ref, std::nullopt, kScope))
            return {Outcome::already, order_of(tx, submission, ref), "idem_claim", "false"};
        return {Outcome::ordered, place_order(tx, submission, ref), "idem_claim", "true"};
    });
}

constexpr const char *kCode = R"(-- with the page: SELECT idem_uuid_v7(), and counter 1

BEGIN;
SELECT idem_claim(idem_key(page, counter));
                        -- true: new · false: done before
INSERT INTO orders …;   -- only if true
COMMIT;                 -- the next form carries counter + 1

// C++
idem::transact(db, [&](idem::transaction &tx) {
    if (idem::claim(tx, page + "#" + counter))
        place_order(tx, cart);
});)";

} // namespace

const Scheme kCounter{"counter", kCode, fields, submit};

} // namespace checkout
