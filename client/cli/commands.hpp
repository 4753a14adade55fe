// The subcommands, one function each; what they do and how they end is in docs/command.md.
#pragma once

#include "options.hpp"

namespace idem::cli {

int run_once(context &c);
int run_locked(context &c);

int claim_key(context &c);
int lookup_key(context &c);
int forget_key(context &c);

int issue_token(context &c);
int redeem_token(context &c);
int next_ids(context &c);
int move_row(context &c);
int draw_machine(context &c);

int sweep(context &c);
int show_stats(context &c);
int show_in_flight(context &c);
int show_health(context &c);

// These need no database, and are given none.
int print_completion(context &c);
int print_manual(context &c);

} // namespace idem::cli
