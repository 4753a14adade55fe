#include "proof.hpp"

#include <vector>

#include "flow.hpp"
#include "report.hpp"
#include "run.hpp"
#include "session.hpp"
#include "shop.hpp"

namespace demo::stock {
namespace {

Result play(const Flow &flow, const Load &load) {
    Session session{shop_conninfo(flow.schema)};
    create_shop(session.connection(), flow);
    const auto course = run_flow(flow, load);
    store_answers(session.connection(), course.answers);
    return {.flow = &flow, .ledger = read_ledger(session.connection()), .time = course.time};
}

} // namespace

bool prove(std::uint64_t seed) {
    const auto load = make_load(seed);
    print_head(seed);
    std::vector<Result> results;
    for (const Flow *flow : kFlows) {
        results.push_back(play(*flow, load));
        print_result(results.back());
    }
    return print_verdict(results);
}

} // namespace demo::stock
