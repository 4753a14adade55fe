// The things that a client does. Each asks, notes what was answered, and leaves an effect where the answer says that the work
// is its own.
#pragma once

#include "client.hpp"

namespace chaos {

// scenarios_keys.cpp
void do_in_one_transaction(Client &client);
// Claims many keys of a ring by one call.
void claim_a_batch(Client &client);
// From time to time all clients that are free claim the same new key, or batch, at the same moment. Is it about to begin?
bool rush_comes();
void rush(Client &client);
void take_leased(Client &client);
void act_with_a_fence_that_was_seen(Client &client);
void look_up(Client &client);
void forget(Client &client);
void go_on_with(Client &client, const Holding &holding);

// scenarios_locks.cpp
void lock(Client &client);
void go_on_with_lock(Client &client, const Holding &holding);
void act_with_a_lock_that_was_seen(Client &client, const Grant &grant);

// scenarios_rows.cpp
void redeem(Client &client);
void move_an_order(Client &client);
void sell(Client &client);
void publish(Client &client);
void sweep(Client &client);

// 20-200 ms, so that leases run out while others wait.
Nanoseconds some_lease(Random &random);
// In time for the lease, or too late.
Nanoseconds some_due(Random &random, Nanoseconds lease);
// A nonce of the client's, or none.
std::string some_owner(Client &client);

} // namespace chaos
