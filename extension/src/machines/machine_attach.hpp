// Which machine guards which column: read from the guards' triggers, which a dump takes along.
#pragma once

#include "server/pg.hpp"

namespace idem {

// What a guard's trigger is told when it is created.
struct GuardArguments {
    enum { machine, column, log, count };
};
inline constexpr const char *kLogArgument = "log";
inline constexpr const char *kNoLogArgument = "no log";

// A column of a table that a machine is attached to, by itself, not by its parent.
struct Attachment {
    Oid table;
    char *column;
};

// All columns that the machine is attached to, as of now, in the order of the tables' OIDs; Attachment pointers.
List *attachments_of(const char *machine);

struct AttachedMachine {
    AttrNumber column;
    char *machine;
};

// The machine attached to the open table, which may be a partition; 55000 when there is none, 42702 when several columns have
// one, 42703 when the column was renamed.
AttachedMachine attached_machine(Relation table);

// Keeps definitions and attachments as they are until the transaction ends: whoever changes either takes it first.
void lock_machines();

} // namespace idem
