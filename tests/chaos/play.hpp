// One round, from its tables to its history.
#pragma once

#include "history.hpp"
#include "round.hpp"

namespace chaos {

// Makes what all rounds need: the extension, unless the portable edition is there, and the tables of the user's that effects,
// orders and stock are in. Returns whether it is the portable edition.
bool prepare_database(Server &server);

// Lets the clients and the nemesis loose for that long. The history is complete: every client has stopped, every session has
// ended, every prepared transaction is decided. Findings are in the round.
History play(Round &round, Nanoseconds length);

} // namespace chaos
