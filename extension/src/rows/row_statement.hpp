// The statements of a row flow on one table. The cache of plans has an entry for every shape of call: same function, same
// variant, same table, same column names, same columns that the caller may see. A change of the table makes the entry invalid,
// and so does another name of anything that the statements' text names. A change of anything else that a plan depends on makes
// the server plan again.
//
// They run as the caller. Values travel as parameters; the names are the catalog's, quoted.
#pragma once

#include "rows/row_object.hpp"
#include "rows/row_observer.hpp"
#include "server/plan_cache.hpp"
#include "server/row_writer.hpp"

namespace idem {

inline constexpr int kMaxObjects = 3;
inline constexpr int kMaxControls = 1 + INDEX_MAX_KEYS; // a value of the flow's own, and a key

// The parts of a call that its statement depends on, and its objects.
struct RowCall {
    const char *function; // the SQL function
    int variant;          // tells calls of a function apart that need different statements
    Relation table;
    int objects;
    RowObject object[kMaxObjects];
    int names; // further columns named by the user
    const char **name;
    ColumnList visible; // selectable_columns
};

struct RowStatement : PlanEntry {
    RowMaker maker; // of the objects' values
    RowReader reader[kMaxObjects];
    int first[kMaxObjects]; // the number of each object's first parameter, from 1
    int parameters;         // of the objects, then of the flow
    Oid *types;
    Oid arbiter;   // an index whose constraint the text names; InvalidOid: none
    int observer;  // the parameter through which an INSERT shows its row, the last one; 0: it does not
    int controls;  // how many columns each result has before those of row_data
    RowWriter row; // row_data
    void *extra;   // the flow's own
};

// A flow's function for a new statement: adds the flow's parameters and prepares its plans.
using BuildStatement = void (*)(RowStatement *statement, const RowCall &call);

// --- For builders -----------------------------------------------------------------------------------------------------------

// Adds a parameter of the flow's own; returns its number.
int add_parameter(RowStatement *statement, Oid type);

void prepare_plan(RowStatement *statement, int plan, const StringInfoData &sql);

// ", t."column"" for every visible column.
void append_row(StringInfo sql, const RowCall &call);

// --- For calls --------------------------------------------------------------------------------------------------------------

// The parameters of one call. Those of the objects are set, and the others are NULL.
struct RowValues {
    Datum *values;
    char *nulls; // 'n' or ' ', as SPI has it

    bool is_null(int parameter) const { return nulls[parameter - 1] == 'n'; }
    Datum get(int parameter) const { return values[parameter - 1]; }
    void set(int parameter, Datum value) {
        values[parameter - 1] = value;
        nulls[parameter - 1] = ' ';
    }
};

// One call in progress. It stays valid until SPI is disconnected, whatever is called or changed in between.
struct RowRun {
    RowStatement *statement;
    RowValues values;
    MemoryContext memory; // the caller's, for results
};

enum class FirstObject { key, row };

// Connects SPI, finds or builds the statement, and reads the objects. 22004 for a null in a first object that is a key.
// REQUIRES: call.table is locked.
RowRun begin_run(const RowCall &call, BuildStatement build, FirstObject first = FirstObject::key);

// The same for one of several runs of a call. Results go to `memory`. REQUIRES: SPI is connected.
RowRun prepare_run(const RowCall &call, BuildStatement build, FirstObject first, MemoryContext memory);

// Disconnects SPI and closes the table. The table stays locked.
void end_run(const RowCall &call);

// Raises the errors that keep the caller from running the plan, before anything runs: missing privileges, or foreign
// partitions.
void require_runnable(const RowRun &run, int plan);

// The first row of a result.
struct RowResult {
    Datum control[kMaxControls];
    bool control_is_null[kMaxControls];
    Jsonb *row; // nullptr unless asked for
};

enum class Row { unwanted, wanted };

// Runs a plan with a new snapshot, or with the given one. False when it returned no row. 0A000 if it would read a foreign
// partition of the table. REQUIRES: an observer, and no snapshot, for an INSERT of a statement that has one.
bool run_plan(const RowRun &run, int plan, RowResult *result, Row row, Snapshot snapshot = nullptr,
              const RowObserver *observer = nullptr);

// Registers the invalidation callbacks; once per backend.
void row_statement_initialize();

} // namespace idem
