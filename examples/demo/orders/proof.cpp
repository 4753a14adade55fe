#include "proof.hpp"

#include "events.hpp"
#include "half.hpp"
#include "report.hpp"
#include "run.hpp"
#include "session.hpp"
#include "shop.hpp"

namespace demo::orders {
namespace {

Result play(const Load &load, const Half &half) {
    Session session{shop_conninfo(half.schema)};
    create_shop(session.connection(), half);
    const auto course = run_load(load, half);
    store_answers(session.connection(), course.handled);
    return {.ledger = read_ledger(session.connection()), .stray = run_stray_script(session.connection()), .time = course.time};
}

} // namespace

bool prove(std::uint64_t seed) {
    const auto load = make_load(seed);
    print_head(seed);
    const auto naive = play(load, kNaive);
    const auto guarded = play(load, kGuarded);
    const auto log = read_log(Session{shop_conninfo(kGuarded.schema)}.connection());
    print_table(naive, guarded, log);
    print_stray_scripts(naive, guarded);
    return print_verdict(naive, guarded, log);
}

} // namespace demo::orders
