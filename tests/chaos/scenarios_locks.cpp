#include "recorder.hpp"
#include "scenarios.hpp"

namespace chaos {

namespace {

Step lock_step(Call call, const std::string &name) {
    Step step;
    step.call = call;
    step.key = name;
    return step;
}

Step fenced(Call call, const Grant &grant, Random &random) {
    Step step = lock_step(call, grant.key);
    step.fence = grant.fence;
    if (call == Call::renew_lock)
        step.lease = some_lease(random);
    return step;
}

void note_lock(Client &client, const Step &step) {
    const Grant grant{step.key, *step.fence_given, step.owner, true};
    client.round.board.grants.add(grant);
    if (client.holdings.size() < 6)
        client.holdings.push_back({grant, step.lease, now() + some_due(client.random, step.lease)});
}

// Work under the lock: nobody else can take it before the transaction ends.
void assert_and_work(Recorder &tx, Client &client, const Grant &grant) {
    Random &random = client.random;
    const Step answered = tx.ask(fenced(Call::assert_fence, grant, random));
    if (!answered.sqlstate.empty())
        return;
    tx.leave_effect(grant.key, grant.fence);
    if (random.chance(0.3)) {
        sleep_for(random.between(1, 40) * kMillisecond);
        // The transaction is certainly open until its last call is sent: this one.
        tx.ask(lock_step(Call::lookup, client.round.board.lasting.pick(random)));
    }
}

} // namespace

void lock(Client &client) {
    Random &random = client.random;
    Step step = lock_step(Call::lock, client.round.board.locks.pick(random));
    step.lease = some_lease(random);
    step.owner = some_owner(client);
    Manner manner;
    if (random.chance(0.5))
        manner.wait = random.chance(0.7) ? Value(std::to_string(random.between(5, 150)) + " milliseconds") : Value();
    if (random.chance(0.7)) {
        const Step answered = Recorder::alone(client, step, manner);
        if (answered.fence_given)
            note_lock(client, answered);
        return;
    }
    Recorder tx(client);
    const Step answered = tx.ask(step, manner);
    if (answered.fence_given && random.chance(0.3))
        assert_and_work(tx, client, {step.key, *answered.fence_given, step.owner, true});
    const bool committed = tx.end_somehow();
    if (answered.fence_given && (committed || random.chance(0.3)))
        note_lock(client, answered);
}

void go_on_with_lock(Client &client, const Holding &holding) {
    Random &random = client.random;
    const std::int64_t lot = random.between(0, 99);
    if (lot < 40) {
        Recorder tx(client);
        assert_and_work(tx, client, holding.grant);
        if (random.chance(0.2))
            tx.ask(fenced(Call::unlock, holding.grant, random));
        tx.end_somehow();
    } else if (lot < 65) {
        Recorder::alone(client, fenced(Call::renew_lock, holding.grant, random));
    } else {
        Recorder::alone(client, fenced(Call::unlock, holding.grant, random));
        if (random.chance(0.8))
            return;
    }
    if (random.chance(0.7)) {
        Holding later = holding;
        later.due = now() + some_due(random, holding.lease);
        client.holdings.push_back(later);
    }
}

void act_with_a_lock_that_was_seen(Client &client, const Grant &grant) {
    Random &random = client.random;
    Recorder tx(client);
    const std::int64_t lot = random.between(0, 2);
    if (lot == 0)
        assert_and_work(tx, client, grant);
    else
        tx.ask(fenced(lot == 1 ? Call::renew_lock : Call::unlock, grant, random));
    tx.end_somehow();
}

} // namespace chaos
