#include <algorithm>

#include "recorder.hpp"
#include "scenarios.hpp"

namespace chaos {

namespace {

constexpr Nanoseconds kLong = 3600 * kSecond;
constexpr Nanoseconds kRushNotice = 6 * kMillisecond;

constexpr std::int64_t kKeysOfOneClient = 80, kKeysOfAll = 16;

struct Key {
    std::string name;
    Nanoseconds retention = kLong;
    std::string scope{};
    bool in_ring = false;
};

Key key_in(const Client &client, const RingScope &scope, std::string name) {
    return {std::move(name), scope.ring.retention, scope.name, !scope.moves && !client.round.options.is_portable};
}

RingKeys &some_ring_keys(Client &client) {
    return client.round.board.ring_keys[static_cast<std::size_t>(client.random.between(0, kRingScopes.size() - 1))];
}

Nanoseconds short_or_long(Random &random) { return random.chance(0.7) ? random.between(30, 400) * kMillisecond : kLong; }

Key some_key(Client &client, bool wants_lease = false) {
    Random &random = client.random;
    Board &board = client.round.board;
    const std::int64_t lot = random.between(0, 9);
    if (!wants_lease && random.chance(0.3)) { // a ring takes no leases
        RingKeys &keys = some_ring_keys(client);
        return key_in(client, keys.scope, random.chance(0.8) ? keys.lasting.pick(random) : keys.forgettable.pick(random));
    }
    if (random.chance(wants_lease ? 0.75 : 0.1))
        return {.name = board.leased.pick(random)};
    if (lot < 6)
        return {.name = board.lasting.pick(random)};
    if (lot < 9)
        return {.name = board.brief.pick(random), .retention = short_or_long(random)};
    return {.name = board.forgettable.pick(random)};
}

Manner some_wait(Random &random) {
    Manner manner;
    if (random.chance(0.4))
        manner.wait = random.chance(0.6) ? Value(std::to_string(random.between(5, 80)) + " milliseconds") : Value();
    return manner;
}

Step key_step(Call call, const Key &key) {
    Step step;
    step.call = call;
    step.key = key.name;
    step.scope = key.scope;
    step.in_ring = key.in_ring;
    return step;
}

Step key_step(Call call, const std::string &key) { return key_step(call, Key{.name = key}); }

std::string some_fingerprint(Random &random) { return random.chance(0.3) ? "" : random.chance(0.93) ? "request" : "another"; }

Step claim_step(Client &client, const Key &key) {
    Random &random = client.random;
    const Call call = random.chance(0.45) ? Call::claim : random.chance(0.4) ? Call::try_claim : Call::begin;
    Step step = key_step(call, key);
    step.retention = key.retention;
    if (call == Call::begin)
        step.fingerprint = some_fingerprint(random);
    return step;
}

std::string response_of(const Recorder &recorder) { return "{\"by\": " + std::to_string(recorder.id()) + "}"; }

void claim_in(Recorder &tx, Client &client, const Key &key) {
    Random &random = client.random;
    const Manner manner = some_wait(random);
    if (!is_granted(tx.ask(claim_step(client, key), manner)))
        return;
    if (random.chance(0.08)) { // given back, and perhaps claimed again
        tx.ask(key_step(Call::release, key));
        if (random.chance(0.5) || !is_granted(tx.ask(claim_step(client, key), manner)))
            return;
    }
    tx.leave_effect(key.name);
    if (random.chance(0.3)) {
        Step complete = key_step(Call::complete, key);
        complete.response = response_of(tx);
        tx.ask(complete);
    }
    if (random.chance(0.05)) // the same again: a duplicate of our own
        tx.ask(claim_step(client, key), manner);
}

void claim_batch_in(Recorder &tx, const Client &client, const RingScope &scope, const std::vector<std::string> &names) {
    std::vector<Step> claims;
    for (const std::string &name : names) {
        const Key key = key_in(client, scope, name);
        claims.push_back(key_step(Call::claim, key));
        claims.back().retention = key.retention;
    }
    std::vector<std::string> granted;
    for (const Step &claim : tx.ask_batch(std::move(claims)))
        if (is_granted(claim))
            granted.push_back(claim.key);
    tx.leave_effects(granted);
}

// Mostly one of those in the brief ring, where windows are opened more often.
const RingScope &rushed_scope(std::int64_t number) {
    return kRingScopes[static_cast<std::size_t>(number / kRushesPerRotation) % 5 / 2];
}

Key rushed_key(const Client &client, std::int64_t number, const std::string &name) {
    return is_rush_in_ring(number) ? key_in(client, rushed_scope(number), name) : Key{.name = name};
}

// The keys that all clients claim come after the client's own in the order of the index, so that they are inserted long after
// they were looked for: a window that is opened in between would take the same keys.
void rush_a_batch(Client &client, std::int64_t number) {
    const std::string name = client.round.board.name_rush(number);
    const std::string own = name + "-a" + std::to_string(client.number) + "-", shared = name + "-b";
    std::vector<std::string> names;
    for (std::int64_t i = 0; i < kKeysOfOneClient; i++)
        names.push_back(own + std::to_string(i));
    for (std::int64_t i = 0; i < kKeysOfAll; i++)
        if (client.random.chance(0.3))
            names.push_back(shared + std::to_string(i));
    Recorder tx(client);
    // The nemesis opens a window between the early clients and the late ones.
    const std::int64_t delay = client.random.chance(0.5) ? client.random.between(0, 800) : client.random.between(2500, 15000);
    const Nanoseconds at = number * kRush + delay * kMicrosecond;
    sleep_for(std::max<Nanoseconds>(at - now(), 0));
    claim_batch_in(tx, client, rushed_scope(number), names);
    tx.end_somehow();
}

void note_grant(Client &client, const Step &step) {
    const Grant grant{step.key, *step.fence_given, step.owner};
    client.round.board.grants.add(grant);
    if (client.holdings.size() < 6)
        client.holdings.push_back({grant, step.lease, now() + some_due(client.random, step.lease)});
}

Step leased_step(Client &client, const Key &key) {
    Step step = key_step(Call::begin, key);
    step.leased = true;
    step.lease = some_lease(client.random);
    step.retention = key.retention;
    step.owner = some_owner(client);
    step.fingerprint = some_fingerprint(client.random);
    return step;
}

// What a holder does before the end.
void keep_up(Recorder &tx, Client &client, const Grant &grant) {
    Random &random = client.random;
    Step step = key_step(random.chance(0.5) ? Call::renew : Call::step, grant.key);
    step.fence = grant.fence;
    if (step.call == Call::renew) {
        step.lease = some_lease(random);
    } else {
        step.step_name = random.chance(0.5) ? "charge" : "mail";
        if (random.chance(0.6))
            step.response = response_of(tx);
    }
    tx.ask(step);
}

void complete_in(Recorder &tx, Client &client, const Grant &grant) {
    Step step = key_step(Call::complete, grant.key);
    step.fence = grant.fence;
    // A completion that is like an earlier one is no error; so that it is, where there is an effect, no two are alike.
    step.response = response_of(tx);
    if (client.random.chance(0.5)) {
        tx.leave_effect(grant.key, grant.fence);
        tx.ask(step);
        return;
    }
    tx.ask(step);
    tx.leave_effect(grant.key, grant.fence);
}

} // namespace

Nanoseconds some_lease(Random &random) { return random.between(20, 200) * kMillisecond; }

Nanoseconds some_due(Random &random, Nanoseconds lease) {
    return random.chance(0.5) ? random.between(0, lease) : random.between(lease, 3 * lease);
}

std::string some_owner(Client &client) {
    return client.random.chance(0.5)
               ? "client-" + std::to_string(client.number) + "-" + std::to_string(client.random.between(1, 3))
               : "";
}

void do_in_one_transaction(Client &client) {
    Random &random = client.random;
    Recorder tx(client);
    for (std::int64_t left = random.chance(0.75) ? 1 : random.between(2, 3); left > 0 && tx.is_open(); left--) {
        const Key key = some_key(client);
        const bool in_savepoint = random.chance(0.25);
        if (in_savepoint)
            tx.savepoint();
        claim_in(tx, client, key);
        if (in_savepoint && random.chance(0.4)) {
            tx.roll_back_to_savepoint();
            if (random.chance(0.5))
                claim_in(tx, client, key);
        } else if (in_savepoint) {
            tx.release_savepoint();
        }
        if (random.chance(0.1))
            sleep_for(random.between(1, 30) * kMillisecond);
    }
    if (random.chance(0.05) && tx.is_open())
        tx.ask(key_step(Call::lookup, some_key(client)));
    tx.end_somehow();
}

void claim_a_batch(Client &client) {
    Random &random = client.random;
    Recorder tx(client);
    for (std::int64_t left = random.chance(0.8) ? 1 : 2; left > 0 && tx.is_open(); left--) {
        RingKeys &keys = some_ring_keys(client);
        const bool in_savepoint = random.chance(0.1);
        if (in_savepoint)
            tx.savepoint();
        claim_batch_in(tx, client, keys.scope, keys.batches.pick(random));
        if (in_savepoint && random.chance(0.4))
            tx.roll_back_to_savepoint();
        else if (in_savepoint)
            tx.release_savepoint();
    }
    tx.end_somehow();
}

bool rush_comes() {
    const Nanoseconds notice = is_rush_of_batches(now() / kRush + 1) ? 2 * kRushNotice : kRushNotice;
    return now() % kRush > kRush - notice;
}

void rush(Client &client) {
    const Nanoseconds number = now() / kRush + 1;
    if (is_rush_of_batches(number)) {
        rush_a_batch(client, number);
        return;
    }
    const std::string name = client.round.board.name_rush(number);
    const Key one = rushed_key(client, number, name), other = rushed_key(client, number, name + "b");
    const bool swapped = client.random.chance(0.3), takes_both = client.random.chance(0.3);
    Recorder tx(client);
    sleep_for(std::max<Nanoseconds>(number * kRush - now(), 0));
    claim_in(tx, client, swapped ? other : one);
    if (takes_both) // in different orders: some deadlock
        claim_in(tx, client, swapped ? one : other);
    tx.end_somehow();
}

void take_leased(Client &client) {
    Random &random = client.random;
    const Step step = leased_step(client, some_key(client, true));
    const Manner manner = some_wait(random);
    if (random.chance(0.5)) {
        const Step answered = Recorder::alone(client, step, manner);
        if (is_granted(answered) && answered.fence_given)
            note_grant(client, answered);
        return;
    }
    Recorder tx(client);
    const bool in_savepoint = random.chance(0.2);
    if (in_savepoint)
        tx.savepoint();
    const Step answered = tx.ask(step, manner);
    if (in_savepoint && random.chance(0.3))
        tx.roll_back_to_savepoint();
    else if (in_savepoint)
        tx.release_savepoint();
    // Who does not learn that it committed goes on all the same, now and then.
    const bool committed = tx.end_somehow();
    if (is_granted(answered) && answered.fence_given && (committed || random.chance(0.3)))
        note_grant(client, answered);
}

void go_on_with(Client &client, const Holding &holding) {
    if (holding.grant.is_lock) {
        go_on_with_lock(client, holding);
        return;
    }
    Random &random = client.random;
    Recorder tx(client);
    for (std::int64_t left = random.chance(0.4) ? random.between(1, 3) : 0; left > 0 && tx.is_open(); left--)
        keep_up(tx, client, holding.grant);
    const std::int64_t lot = random.between(0, 99);
    if (lot < 60) {
        complete_in(tx, client, holding.grant);
    } else if (lot < 75) {
        Step step = key_step(Call::release, holding.grant.key);
        step.fence = holding.grant.fence;
        tx.ask(step);
    }
    const bool was_open = tx.is_open();
    const std::string response = response_of(tx);
    const bool committed = tx.end_somehow();
    if (lot < 60 && was_open && random.chance(0.25)) {
        // Once more, as after a lost reply.
        Step again = key_step(Call::complete, holding.grant.key);
        again.fence = holding.grant.fence;
        again.response = response;
        Recorder::alone(client, again);
    }
    if (!committed || lot >= 75)
        if (was_open && random.chance(0.7)) {
            Holding later = holding;
            later.due = now() + some_due(random, holding.lease);
            client.holdings.push_back(later);
        }
}

void act_with_a_fence_that_was_seen(Client &client) {
    Random &random = client.random;
    const std::optional<Grant> grant = client.round.board.grants.pick(random);
    if (!grant)
        return;
    if (grant->is_lock) {
        act_with_a_lock_that_was_seen(client, *grant);
        return;
    }
    Recorder tx(client);
    const std::int64_t lot = random.between(0, 99);
    if (lot < 40) {
        complete_in(tx, client, *grant);
    } else if (lot < 80) {
        keep_up(tx, client, *grant);
    } else {
        Step step = key_step(Call::release, grant->key);
        step.fence = grant->fence;
        tx.ask(step);
    }
    tx.end_somehow();
}

void look_up(Client &client) {
    if (client.random.chance(0.8)) {
        Recorder::alone(client, key_step(Call::lookup, some_key(client)));
        return;
    }
    // The same question twice in one transaction.
    const Step step = key_step(Call::lookup, some_key(client));
    Recorder tx(client);
    tx.ask(step);
    sleep_for(client.random.between(0, 5) * kMillisecond);
    tx.ask(step);
    tx.end_somehow();
}

void forget(Client &client) {
    Random &random = client.random;
    RingKeys &keys = some_ring_keys(client);
    const Key key = random.chance(0.6) ? Key{.name = client.round.board.forgettable.pick(random)}
                                       : key_in(client, keys.scope, keys.forgettable.pick(random));
    const Step step = key_step(Call::forget, key);
    if (random.chance(0.7)) {
        Recorder::alone(client, step);
        return;
    }
    Recorder tx(client);
    tx.ask(step);
    tx.end_somehow();
}

} // namespace chaos
