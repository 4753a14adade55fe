#include "proof.hpp"

#include <vector>

#include "load.hpp"
#include "report.hpp"
#include "run.hpp"
#include "session.hpp"
#include "shop.hpp"
#include "way.hpp"

namespace demo::forms {
namespace {

// The marks are the whole server's, and it may write something of its own at any time, as a checkpoint or autovacuum. What
// issuing tokens writes would show every time, so one time without anything is enough.
constexpr int kTries = 5;

struct Measured {
    Handout handout;
    Mark written;
};

Measured hand_out_quietly(std::vector<Session> &sessions, const Load &load, const Way &way) {
    pqxx::connection &connection = sessions.front().connection();
    for (int tries = 1;; ++tries) {
        const Mark before = read_mark(connection, way);
        auto handout = hand_out(sessions, load);
        const Mark written = read_mark(connection, way) - before;
        if (written == Mark{} || written.tokens > 0 || tries == kTries)
            return {std::move(handout), written};
    }
}

Result play(const Load &load, const Way &way) {
    Session session{shop_conninfo(way.schema)};
    create_shop(session.connection(), load, way);
    auto sessions = connect_browsers(way);
    const auto [handout, written] = hand_out_quietly(sessions, load, way);
    const auto course = send_forms(sessions, load, handout.tokens, way);
    store_answers(session.connection(), course.sent);
    return {.way = &way,
            .written = written,
            .handing_out = handout.time,
            .ledger = read_ledger(session.connection()),
            .sending = course.time};
}

} // namespace

bool prove(std::uint64_t seed) {
    const auto load = make_load(seed);
    print_head(seed);
    std::vector<Result> results;
    for (const Way *way : kWays)
        results.push_back(play(load, *way));
    print_table(results);
    return print_verdict(results);
}

} // namespace demo::forms
