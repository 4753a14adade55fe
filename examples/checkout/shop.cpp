#include "shop.hpp"

#include <algorithm>
#include <random>

#include "libpqxx.hpp"
#include "scheme.hpp"

namespace checkout {
namespace {

constexpr std::size_t kEntries = 50;

// A row is a class of its own where it is one of a result, in libpqxx 8.
template <typename Row> std::string text(const Row &row, int column) { return row[column].c_str(); }

} // namespace

void Diary::note(const std::string &scheme, std::string call, std::string answer, std::string order) {
    const std::lock_guard lock{mutex_};
    auto &list = entries_[scheme];
    list.push_front({++seq_, std::chrono::system_clock::now(), std::move(call), std::move(answer), std::move(order)});
    if (list.size() > kEntries)
        list.pop_back();
}

std::vector<Diary::Entry> Diary::entries(const std::string &scheme) const {
    const std::lock_guard lock{mutex_};
    const auto found = entries_.find(scheme);
    return found == entries_.end() ? std::vector<Entry>{} : std::vector<Entry>{found->second.begin(), found->second.end()};
}

void Diary::clear() {
    const std::lock_guard lock{mutex_};
    entries_.clear();
}

const std::string &Submission::field(const char *name) const {
    static const std::string none;
    const auto found = fields.find(name);
    return found == fields.end() ? none : found->second;
}

const char *name(Outcome outcome) {
    switch (outcome) {
    case Outcome::ordered:
        return "ordered";
    case Outcome::already:
        return "already";
    case Outcome::in_flight:
        return "in_flight";
    case Outcome::expired:
        return "expired";
    case Outcome::invalid:
        return "invalid";
    case Outcome::conflict:
        return "conflict";
    case Outcome::sold_out:
        return "sold_out";
    case Outcome::mismatch:
        return "mismatch";
    case Outcome::busy:
        return "busy";
    case Outcome::error:
        break;
    }
    return "error";
}

std::string insert_order(idem::transaction &tx, const Submission &submission, const std::string &ref) {
    const std::string id = std::to_string(idem::next_id(tx));
    const Cart &cart = submission.cart;
    exec_with(tx,
              "INSERT INTO checkout.orders (id, scheme, visitor, ref, quantity, note, status, gateway, hold_ms)"
              " VALUES ($1, $2, $3, $4, $5, $6, 'reserved', $7, $8)",
              {id, submission.scheme, submission.visitor, ref, std::to_string(cart.quantity), cart.note, cart.gateway.dump(),
               std::to_string(cart.hold.count())});
    return id;
}

void take_stock(idem::transaction &tx, const std::string &scheme, int quantity) {
    if (!idem::conditional_adjust(tx, kStock, stock_key(scheme), "quantity", std::to_string(-quantity)))
        throw SoldOut{};
}

void put_back_stock(idem::transaction &tx, const std::string &scheme, int quantity) {
    idem::conditional_adjust(tx, kStock, stock_key(scheme), "quantity", std::to_string(quantity));
}

std::string place_order(idem::transaction &tx, const Submission &submission, const std::string &ref) {
    take_stock(tx, submission.scheme, submission.cart.quantity);
    return insert_order(tx, submission, ref);
}

std::string order_of(idem::transaction &tx, const Submission &submission, const std::string &ref) {
    const auto found =
        exec_with(tx, "SELECT id FROM checkout.orders WHERE scheme = $1 AND ref = $2 AND visitor = $3 ORDER BY id LIMIT 1",
                  {submission.scheme, ref, submission.visitor});
    return found.empty() ? "" : text(found[0], 0);
}

std::string order_of(Shop &shop, const Submission &submission, const std::string &ref) {
    return idem::transact(shop.db, [&](idem::transaction &tx) { return order_of(tx, submission, ref); });
}

idem::row stock_key(const std::string &scheme) { return {{"scheme", scheme}}; }

idem::row order_key(const std::string &id) { return {{"id", idem::json_text(id)}}; }

std::optional<OrderView> find_order(Shop &shop, const std::string &scheme, const std::string &visitor, const std::string &id) {
    if (!is_number(id))
        return std::nullopt;
    return idem::transact(shop.db, [&](idem::transaction &tx) -> std::optional<OrderView> {
        const auto found = exec_with(tx,
                                     "SELECT id, scheme, status, note, quantity, amount,"
                                     " CASE WHEN status = 'reserved' THEN greatest(0,"
                                     "  hold_ms - (extract(epoch FROM clock_timestamp() - reserved_at) * 1000)::bigint) END"
                                     " FROM checkout.orders WHERE id = $1 AND scheme = $2 AND visitor = $3",
                                     {id, scheme, visitor});
        if (found.empty())
            return std::nullopt;
        const auto &row = found[0];
        OrderView order{text(row, 0), text(row, 1), text(row, 2), text(row, 3), row[4].as<int>(), row[5].as<int>(), {}};
        if (!row[6].is_null())
            order.hold_left_ms = row[6].as<std::int64_t>();
        return order;
    });
}

void reset(Shop &shop, int stock) {
    idem::transact(shop.db, [&](idem::transaction &tx) {
        tx.exec("TRUNCATE checkout.orders, checkout.bookings, checkout.stock");
        for (const Scheme *scheme : kSchemes)
            exec_with(tx, "INSERT INTO checkout.stock (scheme, quantity, initial) VALUES ($1, $2, $2)",
                      {scheme->name, std::to_string(stock)});
    });
    shop.diary.clear();
}

bool is_number(const std::string &text) {
    return !text.empty() && text.size() <= 18 &&
           std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

std::string random_hex() {
    static constexpr char kDigits[] = "0123456789abcdef";
    std::random_device source; // the kernel's
    std::string hex;
    for (int word = 0; word < 4; ++word) {
        const unsigned bits = source();
        for (int shift = 0; shift < 32; shift += 4)
            hex += kDigits[(bits >> shift) & 15];
    }
    return hex;
}

} // namespace checkout
