#include "state.hpp"

#include <algorithm>
#include <ctime>

#include "gateway.hpp"
#include "libpqxx.hpp"
#include "scheme.hpp"

namespace checkout {
namespace {

using nlohmann::json;

constexpr const char *kState = R"sql(
  SELECT jsonb_build_object(
    'stock', (SELECT jsonb_build_object('quantity', quantity, 'initial', initial, 'version', version)
                FROM checkout.stock WHERE scheme = $1),
    'totals', (SELECT jsonb_build_object('orders', count(*), 'units',
                        coalesce(sum(quantity) FILTER (WHERE status IN ('reserved', 'paid')), 0))
                 FROM checkout.orders WHERE scheme = $1 AND status <> 'cart')
              || jsonb_build_object('booked', (SELECT count(*) FROM checkout.bookings AS b JOIN checkout.orders AS o
                                                 ON o.id = b.order_id WHERE o.scheme = $1)),
    'orders', (SELECT coalesce(jsonb_agg(jsonb_build_object(
                        'id', id::text, 'status', status, 'quantity', quantity, 'amount', amount, 'note', note, 'hold_left_ms',
                        CASE WHEN status = 'reserved' THEN greatest(0,
                          hold_ms - (extract(epoch FROM clock_timestamp() - reserved_at) * 1000)::bigint) END)
                        ORDER BY id DESC), '[]')
                 FROM (SELECT * FROM checkout.orders WHERE scheme = $1 AND status <> 'cart'
                         ORDER BY id DESC LIMIT 200) AS newest),
    'bookings', (SELECT coalesce(jsonb_agg(jsonb_build_object('order', b.order_id::text, 'message', b.message_id,
                          'amount', b.amount) ORDER BY b.id DESC), '[]')
                   FROM checkout.bookings AS b JOIN checkout.orders AS o ON o.id = b.order_id WHERE o.scheme = $1))
)sql";

std::string clock_text(std::chrono::system_clock::time_point at) {
    const std::time_t seconds = std::chrono::system_clock::to_time_t(at);
    std::tm parts{};
    gmtime_r(&seconds, &parts);
    char text[32];
    std::strftime(text, sizeof text, "%H:%M:%S", &parts);
    return text;
}

json charges_of(const json &all, const std::string &scheme) {
    json own = json::array();
    for (const json &charge : all)
        if (charge.at("scheme") == scheme)
            own.insert(own.begin(), charge);
    return own;
}

json all_charges(const Shop &shop) {
    try {
        return Gateway{shop.settings.gateway}.charges();
    } catch (const GatewaySilent &) {
        return json::array();
    }
}

json state_of(Shop &shop, const std::string &scheme, const json &charges) {
    json state = idem::transact(
        shop.db, [&](idem::transaction &tx) { return json::parse(one_row(exec_with(tx, kState, {scheme}))[0].c_str()); });
    state["charges"] = charges_of(charges, scheme);
    state["totals"]["stock"] = state["stock"]["quantity"];
    state["totals"]["charges"] = std::count_if(state["charges"].begin(), state["charges"].end(),
                                               [](const json &charge) { return charge.at("status") == "charged"; });
    state["log"] = json::array();
    for (const Diary::Entry &entry : shop.diary.entries(scheme))
        state["log"].push_back({{"seq", entry.seq},
                                {"at", clock_text(entry.at)},
                                {"call", entry.call},
                                {"answer", entry.answer},
                                {"order", entry.order}});
    return state;
}

} // namespace

json state_of(Shop &shop, const std::string &scheme) { return state_of(shop, scheme, all_charges(shop)); }

json state(Shop &shop) {
    const json charges = all_charges(shop);
    json all{{"gateway", shop.settings.gateway}, {"schemes", json::object()}};
    for (const Scheme *scheme : kSchemes)
        all["schemes"][scheme->name] = state_of(shop, scheme->name, charges);
    return all;
}

} // namespace checkout
