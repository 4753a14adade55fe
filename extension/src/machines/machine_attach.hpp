// The columns that machines guard, read from the guards' triggers: a dump contains these.
#pragma once

#include "server/pg.hpp"

namespace idem {

// The arguments of a guard's trigger, by number.
struct GuardArguments {
    enum { machine, column, log, validity, count };
};
inline constexpr const char *kLogArgument = "log";
inline constexpr const char *kNoLogArgument = "no log";
// Whether the rows that were there before the guard are known to be in states of the machine. The guard itself does not look
// at it. The view idem_guards reads it, too.
inline constexpr const char *kValidArgument = "valid";
inline constexpr const char *kNotValidArgument = "not valid";

// A column that a machine is attached to. Partitions of its table are not listed.
struct Attachment {
    Oid table;
    char *column;
    bool is_valid;
};

// All columns that the machine is attached to now, as pointers to Attachment in the order of the tables' OIDs.
List *attachments_of(const char *machine);

struct AttachedMachine {
    AttrNumber column;
    char *machine;
};

// The machine attached to the column of the open table, which may be a partition; nullptr: to its one state column. 55000 when
// there is none, 42702 when several columns have one, 42704 when the given column has none, 42703 when it was renamed.
AttachedMachine attached_machine(Relation table, const char *state_column);

// Keeps definitions and attachments as they are until the transaction ends: every function that changes either takes this lock
// first.
void lock_machines();

} // namespace idem
