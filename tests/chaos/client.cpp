#include "client.hpp"

#include "scenarios.hpp"

namespace chaos {

namespace {

constexpr Nanoseconds kThink = 3 * kMillisecond;

} // namespace

Client::Client(Round &shared, Coordinator &decider, int which, bool proxied)
    : round(shared), coordinator(decider), number(which), random(shared.seed, static_cast<std::uint64_t>(which)) {
    const std::string application = "chaos-client-" + std::to_string(which);
    dsn_ = round.server.dsn(application);
    if (proxied) {
        proxy_ = std::make_unique<test::proxy>(round.server.directory());
        dsn_ = proxy_->dsn() + " user=postgres dbname=postgres connect_timeout=10 application_name=" + application;
    }
}

bool Client::connect() { return connection.is_open() || connection.open(dsn_); }

void Client::maybe_cut(double probability, int messages) {
    if (!proxy_)
        return;
    if (armed_ && proxy_->has_cut())
        round.figures.cuts++;
    if (armed_)
        proxy_->count(); // what was not reached is called off
    armed_ = random.chance(probability);
    if (!armed_)
        return;
    test::cut where;
    where.by = random.chance(0.5) ? test::side::frontend : test::side::backend;
    where.nth = static_cast<int>(random.between(1, messages));
    where.when = random.chance(0.5) ? test::moment::before : test::moment::after;
    if (random.chance(0.3))
        where.unnoticed = std::chrono::milliseconds(random.between(20, 300));
    proxy_->arm(where);
}

void Client::work_once() {
    for (std::size_t i = 0; i < holdings.size(); i++)
        if (holdings[i].due <= now() && random.chance(0.7)) {
            const Holding holding = holdings[i];
            holdings.erase(holdings.begin() + static_cast<std::ptrdiff_t>(i));
            go_on_with(*this, holding);
            return;
        }
    if (rush_comes() && random.chance(0.8)) {
        rush(*this);
        return;
    }
    const std::int64_t lot = random.between(0, 99);
    if (lot < 22)
        do_in_one_transaction(*this);
    else if (lot < 26)
        claim_a_batch(*this);
    else if (lot < 48)
        take_leased(*this);
    else if (lot < 55)
        act_with_a_fence_that_was_seen(*this);
    else if (lot < 63)
        look_up(*this);
    else if (lot < 65)
        forget(*this);
    else if (lot < 73)
        redeem(*this);
    else if (lot < 85)
        lock(*this);
    else if (lot < 90)
        move_an_order(*this);
    else if (lot < 94)
        publish(*this);
    else if (lot < 99)
        sell(*this);
    else
        sweep(*this);
}

void Client::run() {
    while (!round.stopping) {
        if (!connect()) {
            sleep_for(10 * kMillisecond);
            continue;
        }
        work_once();
        if (random.chance(0.5))
            sleep_for(random.between(0, 2 * kThink));
    }
    maybe_cut(0, 1);
    connection.close();
}

} // namespace chaos
