// The subcommands, one function each. docs/command.md describes them and their exit codes.
#pragma once

#include "options.hpp"

namespace idem::cli {

int run_once(context &c);
int run_locked(context &c);
int take_step(context &c);

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
int show_backlog(context &c);
int show_health(context &c);

// These do not use the database.
int test_server(context &c);
int print_completion(context &c);
int print_manual(context &c);

} // namespace idem::cli
