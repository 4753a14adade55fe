// pessimistic_lock and pessimistic_lock_many: lock rows by their keys, and read them.
#include "rows/row_lock.hpp"
#include "server/arguments.hpp"
#include "server/row_answer.hpp"
#include "server/transaction_block.hpp"

namespace {

using namespace idem;

struct Argument {
    enum { target, key, wait };
};

// Not given: without limit, as SELECT FOR UPDATE does.
core::Micros lock_wait_argument(FunctionCallInfo fcinfo) {
    return PG_ARGISNULL(Argument::wait) ? core::kForever : wait_argument(fcinfo, Argument::wait);
}

const char *outcome_of(Locked locked) {
    switch (locked) {
    case Locked::locked:
        return "locked";
    case Locked::busy:
        return "busy";
    case Locked::missing:
    case Locked::moved:
        break;
    }
    return "not_found";
}

RowCall call_for(const char *function, Relation table, const RowObject &object) {
    RowCall call{};
    call.function = function;
    call.table = table;
    call.objects = 1;
    call.object[0] = object;
    call.visible = selectable_columns(table);
    return call;
}

char *key_condition(const RowStatement *statement, const RowCall &call, const UniqueKey &by) {
    StringInfoData condition;
    initStringInfo(&condition);
    append_key_condition(&condition, call.table, by, statement->reader[0].columns, statement->first[0]);
    return condition.data;
}

// --- One row ----------------------------------------------------------------------------------------------------------------

void build_one(RowStatement *statement, const RowCall &call) {
    statement->controls = 1;
    const char *condition =
        key_condition(statement, call, unique_key(call.table, statement->reader[0].columns, Nulls::refused));
    prepare_row_lock(statement, call, "", condition, condition);
}

Locked lock_one(const RowRun &run, const RowCall &call, core::Micros wait_until, RowResult *result) {
    for (;; check_for_interrupts()) {
        const Locked outcome = lock_row(run, call, wait_until, result);
        // While this call waited for the row with the key, the key passed to another row.
        if (outcome != Locked::moved)
            return outcome;
    }
}

// --- Many rows --------------------------------------------------------------------------------------------------------------

// Rows of a table are locked in the order of their main key, whichever key finds them.
struct MainOrder {
    UniqueKey main;
    FmgrInfo compare[INDEX_MAX_KEYS];
    int first; // the number of the first parameter of the main key
};

void build_many(RowStatement *statement, const RowCall &call) {
    const UniqueKey given = unique_key(call.table, statement->reader[0].columns, Nulls::refused);
    auto *order = static_cast<MainOrder *>(MemoryContextAllocZero(statement->memory, sizeof(MainOrder)));
    (void)find_main_key(call.table, &order->main); // it finds one, as `given` can serve
    const UniqueKey &main = order->main;
    StringInfoData main_key, condition;
    initStringInfo(&main_key);
    initStringInfo(&condition);
    order->first = statement->parameters + 1;
    for (int i = 0; i < main.count; i++) {
        appendStringInfoString(&main_key, ", ");
        append_column(&main_key, call.table, main.columns[i]);
        fmgr_info_cxt(main.order[i], &order->compare[i], statement->memory);
        const int parameter = add_parameter(statement, column_form(call.table, main.columns[i])->atttypid);
        append_equality(&condition, call.table, main, i, parameter);
        appendStringInfoString(&condition, " AND ");
    }
    statement->controls = 1 + main.count;
    statement->extra = order;
    const char *found_by = key_condition(statement, call, given);
    appendStringInfoString(&condition, found_by);
    prepare_row_lock(statement, call, main_key.data, found_by, condition.data);
}

struct WantedRow {
    RowObject object;
    RowCall call;
    RowRun run;
    Locked outcome;
    Jsonb *row;
};

const MainOrder &order_of(const WantedRow &wanted) { return *static_cast<const MainOrder *>(wanted.run.statement->extra); }

// Sets the main key of the row among the parameters.
bool find_row(WantedRow *wanted) {
    RowResult result{};
    if (!read_unlocked(wanted->run, &result))
        return false;
    const MainOrder &order = order_of(*wanted);
    for (int i = 0; i < order.main.count; i++)
        wanted->run.values.set(order.first + i, result.control[1 + i]);
    return true;
}

int compare_rows(const WantedRow &a, const WantedRow &b) {
    const MainOrder &order = order_of(a);
    for (int i = 0; i < order.main.count; i++) {
        const int32 difference =
            DatumGetInt32(FunctionCall2Coll(const_cast<FmgrInfo *>(&order.compare[i]), order.main.collation[i],
                                            a.run.values.get(order.first + i), b.run.values.get(order_of(b).first + i)));
        if (difference != 0)
            return difference;
    }
    return 0;
}

int compare_pointers(const void *a, const void *b) {
    return compare_rows(**static_cast<WantedRow *const *>(a), **static_cast<WantedRow *const *>(b));
}

[[noreturn]] void raise_moved(Relation table) {
    ereport(ERROR,
            (errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
             errmsg("a key of table \"%s\" passed to another row while rows were being locked", RelationGetRelationName(table)),
             errdetail("Locking that row as well would leave the order that keeps callers from deadlocks."),
             errhint("Retry the transaction."), errtable(table)));
    pg_unreachable();
}

void lock_wanted(WantedRow *wanted, core::Micros wait_until) {
    for (;; check_for_interrupts()) {
        RowResult result{};
        wanted->outcome = lock_row(wanted->run, wanted->call, wait_until, &result);
        wanted->row = wanted->outcome == Locked::locked ? result.row : nullptr;
        if (wanted->outcome != Locked::moved)
            return;
        WantedRow now = *wanted;
        const int count = Max(now.run.statement->parameters, 1);
        now.run.values.values = static_cast<Datum *>(palloc(sizeof(Datum) * count));
        memcpy(now.run.values.values, wanted->run.values.values, sizeof(Datum) * count);
        if (find_row(&now) && compare_rows(now, *wanted) != 0)
            raise_moved(wanted->call.table);
    }
}

struct WantedRows {
    int count;
    WantedRow *rows;
};

WantedRows wanted_rows(ArrayType *keys) {
    WantedRows wanted;
    Datum *given;
    bool *nulls;
    deconstruct_array(keys, JSONBOID, -1, false, TYPALIGN_INT, &given, &nulls, &wanted.count);
    wanted.rows = static_cast<WantedRow *>(
        MemoryContextAllocHuge(CurrentMemoryContext, sizeof(WantedRow) * static_cast<Size>(Max(wanted.count, 1))));
    for (int i = 0; i < wanted.count; i++) {
        if (nulls[i])
            raise_null_argument("an element of keys");
        wanted.rows[i].object = row_object(DatumGetJsonbP(given[i]), "key");
        wanted.rows[i].outcome = Locked::busy;
        wanted.rows[i].row = nullptr;
    }
    return wanted;
}

// Finds all of them, then locks them in order.
void lock_all(const WantedRows &wanted, Relation table, core::Micros wait_until, MemoryContext memory) {
    WantedRow **ordered = static_cast<WantedRow **>(
        MemoryContextAllocHuge(CurrentMemoryContext, sizeof *ordered * static_cast<Size>(Max(wanted.count, 1))));
    int found = 0;
    for (int i = 0; i < wanted.count; i++) {
        WantedRow *row = &wanted.rows[i];
        row->call = call_for("pessimistic_lock_many", table, row->object);
        row->run = prepare_run(row->call, build_many, FirstObject::key, memory);
        row->outcome = Locked::missing;
        if (find_row(row))
            ordered[found++] = row;
    }
    qsort(ordered, found, sizeof *ordered, compare_pointers);
    for (int i = 0; i < found; i++)
        lock_wanted(ordered[i], wait_until);
}

} // namespace

SQL_FUNCTION(pessimistic_lock) {
    PreventCommandIfParallelMode("pessimistic_lock()");
    const RowObject object = row_object_argument(fcinfo, Argument::key, "key");
    const core::Micros wait_until = lock_wait_argument(fcinfo);
    Relation table = open_target_within(fcinfo, Argument::target, wait_until);
    if (table == nullptr)
        return make_answer(fcinfo, outcome_of(Locked::busy), row_column(nullptr));
    const RowCall call = call_for("pessimistic_lock", table, object);
    const RowRun run = begin_run(call, build_one);
    RowResult result{};
    const Locked outcome = lock_one(run, call, wait_until, &result);
    end_run(call);
    if (outcome == Locked::locked)
        expect_work_after(fcinfo, "pessimistic_lock()");
    return make_answer(fcinfo, outcome_of(outcome), row_column(outcome == Locked::locked ? result.row : nullptr));
}

SQL_FUNCTION(pessimistic_lock_many) {
    PreventCommandIfParallelMode("pessimistic_lock_many()");
    if (PG_ARGISNULL(Argument::key))
        raise_null_argument("keys");
    const core::Micros wait_until = lock_wait_argument(fcinfo);
    const WantedRows wanted = wanted_rows(PG_GETARG_ARRAYTYPE_P(Argument::key));
    Relation table = open_target_within(fcinfo, Argument::target, wait_until);
    constexpr Oid kTypes[] = {TEXTOID, JSONBOID};
    const AnswerRows rows = begin_answer_rows(fcinfo, kTypes);
    if (table != nullptr) {
        const MemoryContext memory = CurrentMemoryContext;
        SPI_connect();
        lock_all(wanted, table, wait_until, memory);
        SPI_finish();
        relation_close(table, NoLock);
    }
    bool any_locked = false;
    for (int i = 0; i < wanted.count; i++) {
        const WantedRow &row = wanted.rows[i];
        any_locked |= row.outcome == Locked::locked;
        const Datum values[] = {CStringGetTextDatum(outcome_of(row.outcome)), PointerGetDatum(row.row)};
        const bool nulls[] = {false, row.row == nullptr};
        put_answer_row(rows, values, nulls);
    }
    if (any_locked)
        expect_work_after(fcinfo, "pessimistic_lock_many()");
    return Datum{0};
}
