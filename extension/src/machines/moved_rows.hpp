// Rows that an UPDATE moves from one partition to another.
//
// The executor runs such an UPDATE as a deletion and an insertion, and fires their triggers one right after the other. Both are
// written by the same command of the same (sub)transaction, as no other pair is. So the guard notes the state of the row that
// it sees deleted, and takes the note when it sees the row inserted. The note of an UPDATE that was rolled back is never taken,
// as its transaction id is not used again.
#pragma once

#include "server/pg.hpp"

#include <string_view>

namespace idem {

struct MoveKey {
    Oid attached_table; // the partitioned table that has the guard
    const char *column;
    TransactionId transaction;
    CommandId command;
};

// Kept until the transaction ends. It replaces a note with the same key: that was not taken, as a trigger discarded the row.
void note_departure(const MoveKey &move, std::string_view state);

// The state that the row had. False: there is no note, so the row is new. In both functions, a null view stands for NULL.
bool take_arrival(const MoveKey &move, std::string_view *state);

} // namespace idem
