// Rows on their way from one partition to another.
//
// The executor makes an UPDATE that moves a row a deletion and an insertion, and fires their triggers, one right after the
// other. What tells the pair from any other is that both were written by the same command of the same (sub)transaction. So the
// guard notes the state of what left, and takes it when the row arrives. An UPDATE that was rolled back leaves a note that
// nobody can ever take, as its transaction id is never used again.
#pragma once

#include "server/pg.hpp"

#include <string_view>

namespace idem {

struct MoveKey {
    Oid home; // the partitioned table that has the guard
    const char *column;
    TransactionId transaction;
    CommandId command;
};

// Until the transaction ends. A note that was not taken, as a trigger discarded the row on its way, gives way to the next.
void note_departure(const MoveKey &move, std::string_view state);

// The state that the row had; false: nothing is on its way, it is new. A null view stands for NULL, in both.
bool take_arrival(const MoveKey &move, std::string_view *state);

} // namespace idem
