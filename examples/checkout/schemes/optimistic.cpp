// Optimistic stock: the page carries the version of the stock that the customer looked at, and buys only if nobody bought
// in between, be it a rival or the first of two clicks.
#include "../libpqxx.hpp"
#include "../scheme.hpp"

namespace checkout {
namespace {

pqxx::row read_stock(idem::transaction &tx, const std::string &scheme) {
    return one_row(exec_with(tx, "SELECT quantity, version FROM checkout.stock WHERE scheme = $1", {scheme}));
}

Fields fields(const Visit &visit) {
    return idem::transact(visit.shop.db, [&](idem::transaction &tx) -> Fields {
        return {{"version", read_stock(tx, kOptimistic.name)[1].c_str()}};
    });
}

struct Conflict {};

Answer submit(Shop &shop, const Submission &submission) {
    const std::string &version = submission.field("version");
    if (!is_number(version))
        return {Outcome::invalid};

    const std::string ref = "v" + version;
    try {
        return idem::transact(shop.db, [&](idem::transaction &tx) -> Answer {
            const pqxx::row stock = read_stock(tx, submission.scheme);
            if (version != stock[1].c_str())
                throw Conflict{};
            const int left = stock[0].as<int>() - submission.cart.quantity;
            if (left < 0)
                throw SoldOut{};
            // The arbiter: what was read above may have changed since.
            if (!idem::optimistic_update(tx, kStock, stock_key(submission.scheme), std::stoll(version), {{"quantity", left}}))
                throw Conflict{};
            return {Outcome::ordered, insert_order(tx, submission, ref), "optimistic_update", "updated"};
        });
    } catch (const Conflict &) {
        // Did this visitor buy with that version, or somebody else?
        const std::string own = order_of(shop, submission, ref);
        return {own.empty() ? Outcome::conflict : Outcome::already, own, "optimistic_update", "conflict"};
    }
}

constexpr const char *kCode = R"(-- with the page
SELECT quantity, version FROM stock;   -- 20, version 7

-- with the order
BEGIN;
SELECT * FROM optimistic_update('stock', '{"sku": "lamp"}',
    expected_version => 7, changes => '{"quantity": 19}');
                        -- updated | conflict, and the new row
INSERT INTO orders …;   -- only if updated
COMMIT;

// C++
idem::optimistic_update(tx, "stock", {{"sku", "lamp"}}, 7,
                        {{"quantity", 19}});)";

} // namespace

const Scheme kOptimistic{"optimistic", kCode, fields, submit};

} // namespace checkout
