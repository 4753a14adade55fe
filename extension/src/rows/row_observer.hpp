// How a flow learns which row its INSERT is about to make, so that no trigger has to run a second time for it.
//
// The plan gets a check option, as those of row-level security, that is always true: a parameter whose evaluation shows the
// row. The server evaluates it once BEFORE triggers and generation have made the row, before it checks constraints or asks an
// index, and also for rows of partitions.
#pragma once

#include "server/pg.hpp"

namespace idem {

// An error in `observe` ends the INSERT. It may run row flows of its own between SPI_connect and SPI_finish.
struct RowObserver {
    void (*observe)(void *argument, TupleTableSlot *row);
    void *argument;
};

// The INSERT into `table` of a plan that does not show its row yet; nullptr: there is none. Statements that rules add come
// after it.
ModifyTable *unobserved_insert(const CachedPlan *plan, Oid table);

// Makes the INSERT of a plan show its row by a parameter. REQUIRES: no later parameter.
void add_observer(CachedPlan *plan, ModifyTable *insert, int parameter);

// Parameters 1 to `count`, as SPI has them, the last of which is the observer's.
ParamListInfo observed_parameters(const Oid *types, const Datum *values, const char *nulls, int count,
                                  const RowObserver *observer);

} // namespace idem
