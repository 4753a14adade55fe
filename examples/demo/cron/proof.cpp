#include "proof.hpp"

#include "bank.hpp"
#include "half.hpp"
#include "nights.hpp"
#include "report.hpp"
#include "run.hpp"
#include "session.hpp"

namespace demo::cron {
namespace {

Result play(const Load &load, const Half &half) {
    Session session{shop_conninfo(half.schema)};
    create_bank(session.connection(), half);
    const auto course = run_load(load, half);
    store_answers(session.connection(), course.parts);
    return {.ledger = read_ledger(session.connection()), .refusal = course.refusal, .time = course.time};
}

} // namespace

bool prove(std::uint64_t seed) {
    const auto load = make_load(seed);
    print_head(seed);
    const auto naive = play(load, kNaive);
    const auto guarded = play(load, kGuarded);
    print_table(naive, guarded);
    return print_verdict(naive, guarded);
}

} // namespace demo::cron
