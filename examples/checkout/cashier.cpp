#include "cashier.hpp"

#include <condition_variable>
#include <cstdio>
#include <mutex>

#include "libpqxx.hpp"

namespace checkout {
namespace {

constexpr std::size_t kChargers = 4;
constexpr auto kPause = 100ms;

std::string charge_key(const std::string &id) { return "charge-" + id; }

// An order that something is to be done about, given to one thread at a time; should that fail, to the next one a second
// later. That only spreads the work: what makes it happen once is said where it is done.
struct Task {
    std::string id, scheme;
    int amount = 0;
    nlohmann::json knobs{};
};

std::optional<Task> next_task(Shop &shop, const char *condition) {
    const std::string pick = std::string{"UPDATE checkout.orders SET next_try_at = clock_timestamp() + interval '1 s'"
                                         " WHERE id = (SELECT id FROM checkout.orders WHERE "} +
                             condition +
                             " AND next_try_at <= clock_timestamp() ORDER BY next_try_at LIMIT 1 FOR UPDATE SKIP LOCKED)"
                             " RETURNING id, scheme, amount, gateway";
    return idem::transact(shop.db, [&](idem::transaction &tx) -> std::optional<Task> {
        const auto found = tx.exec(pick);
        if (found.empty())
            return std::nullopt;
        return Task{found[0][0].c_str(), found[0][1].c_str(), found[0][2].as<int>(),
                    nlohmann::json::parse(found[0][3].c_str())};
    });
}

void mark(idem::transaction &tx, const char *column, const std::string &id) {
    exec_with(tx, std::string{"UPDATE checkout.orders SET "} + column + " = true WHERE id = $1", {id});
}

// Moves the order out of "reserved"; the units go back to the shelf with the move, or not at all.
idem::transition_outcome give_up(idem::transaction &tx, const std::string &id, const char *state) {
    const auto moved = idem::transition(tx, kOrders, order_key(id), "reserved", state);
    if (moved) {
        const auto row = one_row(exec_with(tx, "SELECT scheme, quantity FROM checkout.orders WHERE id = $1", {id}));
        put_back_stock(tx, row[0].c_str(), row[1].as<int>());
    }
    return moved.outcome;
}

void book(idem::transaction &tx, const std::string &id, const nlohmann::json &message) {
    exec_with(tx, "INSERT INTO checkout.bookings (order_id, message_id, amount) VALUES ($1, $2, $3)",
              {id, message.at("message").get<std::string>(), std::to_string(message.at("amount").get<int>())});
}

// What a message means for its order, whoever makes sure that it is handled once.
idem::transition_outcome apply(idem::transaction &tx, const std::string &id, const nlohmann::json &message) {
    if (message.at("status") != "charged")
        return give_up(tx, id, "declined");
    const auto moved = idem::transition(tx, kOrders, order_key(id), "reserved", "paid");
    if (moved)
        book(tx, id, message);
    return moved.outcome;
}

} // namespace

nlohmann::json charge_request(const Shop &shop, const std::string &id, const std::string &scheme, int amount,
                              const nlohmann::json &knobs, const nlohmann::json &key) {
    nlohmann::json request = knobs;
    request["key"] = key;
    request["order"] = id;
    request["scheme"] = scheme;
    request["amount"] = amount;
    request["callback"] = shop.settings.url + "/gateway/callback";
    return request;
}

Cashier::Cashier(Shop &shop) : shop_{shop}, gateway_{shop.settings.gateway} {
    const auto start = [this](auto step) {
        threads_.emplace_back([this, step](const std::stop_token &stop) { run(stop, step); });
    };
    for (std::size_t i = 0; i < kChargers; ++i)
        start([this] { return charge_one(); });
    start([this] { return cancel_one(); });
    start([this] { return release_one(); });
}

Cashier::~Cashier() = default;

void Cashier::run(const std::stop_token &stop, const std::function<bool()> &step) {
    std::mutex mutex;
    std::condition_variable_any wake;
    while (!stop.stop_requested()) {
        bool more = false;
        try {
            more = step();
        } catch (const GatewaySilent &) {
            // The order's turn comes again.
        } catch (const std::exception &error) {
            std::fprintf(stderr, "cashier: %s\n", error.what());
        }
        if (!more) {
            std::unique_lock lock{mutex};
            wake.wait_for(lock, stop, kPause, [] { return false; });
        }
    }
}

// Leased, in two steps. The charge is the gateway's: when nobody knows whether it happened, the gateway is asked. That it was
// asked for is this database's: it commits with the step.
bool Cashier::charge_one() {
    const auto task = next_task(shop_, "status = 'reserved' AND NOT asked");
    if (!task)
        return false;
    const auto about = idem::request{charge_key(task->id)}.in("checkout charges").lease(5s);
    std::string came_of_it = "charge accepted";
    try {
        idem::leased(shop_.db, about, [&](idem::lease &lease) {
            const auto charge = [&] {
                return gateway_.charge(charge_request(shop_, task->id, task->scheme, task->amount, task->knobs, lease.key()))
                    .dump();
            };
            const auto ask = [&] {
                const auto known = gateway_.find(lease.key());
                came_of_it = known ? "charged before" : "not charged before, charge accepted";
                return known ? idem::step_fate::done(known->dump()) : idem::step_fate::not_done();
            };
            const std::string charged = lease.step("charge", charge, ask);
            idem::transact(shop_.db,
                           [&](idem::transaction &tx) { lease.step(tx, "note", [&] { mark(tx, "asked", task->id); }); });
            return idem::response{200, charged};
        });
        shop_.diary.note(task->scheme, "idem_step", came_of_it, task->id);
    } catch (const GatewaySilent &) {
        shop_.diary.note(task->scheme, "idem_release", "no reply, asking again", task->id);
    } catch (const idem::in_flight &) {
        // Another thread has it.
    }
    return true;
}

bool Cashier::cancel_one() {
    const auto task = next_task(shop_, "status = 'released' AND NOT settled");
    if (!task)
        return false;
    const auto reply = gateway_.cancel({{"key", charge_key(task->id)}, {"order", task->id}, {"scheme", task->scheme}});
    if (reply.at("status") == "refunded") {
        const auto moved = idem::transition(shop_.db, kOrders, order_key(task->id), "released", "refunded");
        shop_.diary.note(task->scheme, "idem_transition", std::string{"refunded: "} + idem::name(moved.outcome), task->id);
    }
    idem::transact(shop_.db, [&](idem::transaction &tx) { mark(tx, "settled", task->id); });
    return true;
}

// The hold of an order lapses. Payment may arrive in the same moment: one of the two moves the order out of "reserved".
bool Cashier::release_one() {
    // Not next_task(): a charger's turn must not put it off.
    std::string id, scheme;
    const auto outcome = idem::transact(shop_.db, [&](idem::transaction &tx) {
        id.clear();
        const auto lapsed = tx.exec("SELECT id, scheme FROM checkout.orders WHERE status = 'reserved'"
                                    " AND reserved_at + hold_ms * interval '1 ms' <= clock_timestamp() LIMIT 1");
        if (lapsed.empty())
            return idem::transition_outcome::not_found;
        id = lapsed[0][0].c_str();
        scheme = lapsed[0][1].c_str();
        return give_up(tx, id, "released");
    });
    if (id.empty())
        return false;
    shop_.diary.note(scheme, "idem_transition", std::string{"released: "} + idem::name(outcome), id);
    return true;
}

void receive(Shop &shop, const nlohmann::json &message) {
    const std::string id = message.at("order").get<std::string>(), message_id = message.at("message").get<std::string>(),
                      scheme = message.at("scheme").get<std::string>();
    if (!is_number(id))
        throw std::invalid_argument{"no order number"};

    if (scheme == "plain") {
        idem::transact(shop.db, [&](idem::transaction &tx) {
            if (apply(tx, id, message) != idem::transition_outcome::moved && message.at("status") == "charged")
                book(tx, id, message);
        });
        shop.diary.note(scheme, "callback", "booked", id);
        return;
    }

    auto outcome = idem::transition_outcome::already;
    // Longer than the gateway goes on calling.
    static const idem::consume_options kRemember = [] {
        idem::consume_options options;
        options.ttl = std::chrono::hours{72};
        return options;
    }();
    const bool fresh = idem::consume(shop.db, "checkout", message_id, kRemember,
                                     [&](idem::transaction &tx) { outcome = apply(tx, id, message); });
    shop.diary.note(
        scheme, "idem_consume",
        fresh ? std::string{"true, "} + message.at("status").get<std::string>() + ": " + idem::name(outcome) : "false", id);
}

} // namespace checkout
