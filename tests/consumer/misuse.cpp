// Callables that do not fit. What the compiler says of each is in misuse.txt.
#include <idem/idem.hpp>

struct picture {};

void misuse(idem::client &db, const idem::request &about, idem::lease &lease, const idem::row &row) {
    const auto none = [] {};
    const auto number = [](int) {};
    idem::transact(db, none);
    idem::once(db, about, number);
    idem::once(db, about, [](idem::transaction &) { return picture{}; });
    idem::try_once(db, about, number);
    idem::leased(db, about, none);
    lease.step("charge", number);
    lease.step("charge", none, [] { return true; });
    idem::consume(db, "mailer", "7", none);
    idem::consume_many(db, "mailer", {"7"}, none);
    idem::handle_http(db, idem::http_request{}, [](idem::transaction &) { return 201; });
    idem::with_lock(db, "nightly", none);
    idem::transition(db, "orders", row, std::nullopt, "paid", none);
    idem::optimistic(db, "account", row, [](idem::transaction &, const std::string &) { return 1; });
    idem::pessimistic(db, "account", row, none);
    idem::conditional(db, "account", row, row, row, none);
}
