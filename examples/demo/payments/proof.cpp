#include "proof.hpp"

#include "half.hpp"
#include "report.hpp"
#include "requests.hpp"
#include "run.hpp"
#include "session.hpp"
#include "shop.hpp"

namespace demo::payments {
namespace {

void forget_keys(pqxx::connection &connection) {
    pqxx::work transaction{connection};
    transaction.exec("SELECT count(*) FROM due WHERE idem_forget(request_id, scope => 'payments')");
    transaction.commit();
}

Result play(const Load &load, const Half &half) {
    Session session{shop_conninfo(half.schema)};
    create_shop(session.connection(), half.schema, load);
    if (&half == &kGuarded)
        forget_keys(session.connection());

    const auto tally = run_load(load, half, progress_of(half.name, load.requests.size()));
    return {tally, read_ledger(session.connection())};
}

} // namespace

bool prove(std::uint64_t seed, std::size_t requests) {
    const auto load = make_load(seed, requests);
    print_load(load, seed);
    const auto naive = play(load, kNaive);
    const auto guarded = play(load, kGuarded);
    print_table(load, naive, guarded);
    return print_verdict(naive, guarded);
}

} // namespace demo::payments
