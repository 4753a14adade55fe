#include "rows/row_statement.hpp"

#include "server/compat.hpp"
#include "server/invalidation.hpp"
#include "server/own_settings.hpp"

namespace idem {

namespace {

constexpr int kMaxOwnParameters = INDEX_MAX_KEYS + 4;

struct CachedStatement : RowStatement {
    Oid table;
    int base_types;    // of the table's domains, which the text names:
    uint32 *base_type; // as the system cache hashes them
};

constinit uint64 changes_seen = 0;

const CachedStatement &statement_of(const PlanEntry &entry) { return static_cast<const CachedStatement &>(entry); }

// InvalidOid stands for all tables.
bool depends_on_table(const PlanEntry &entry, Oid table) {
    const CachedStatement &statement = statement_of(entry);
    return table == InvalidOid || table == statement.table || table == statement.arbiter;
}

// A hash of 0 stands for all types.
bool names_type(const PlanEntry &entry, uint32 hash) {
    const CachedStatement &statement = statement_of(entry);
    for (int i = 0; i < statement.base_types; i++)
        if (statement.base_type[i] == hash)
            return true;
    return hash == 0;
}

void table_changed(Oid table) {
    changes_seen++;
    invalidate_plans(PlanKind::row_flow, depends_on_table, table);
}

// The text names schemas, operators, operator classes and collations. They rarely change.
void names_changed(Datum, SyscacheNumber, uint32) { table_changed(InvalidOid); }

// Each temporary table is a new type: only types that the text names count.
void type_changed(Datum, SyscacheNumber, uint32 hash) {
    changes_seen++;
    invalidate_plans(PlanKind::row_flow, names_type, hash);
}

void note_base_types(CachedStatement *statement, Relation table) {
    TupleDesc columns = RelationGetDescr(table);
    statement->base_type =
        static_cast<uint32 *>(MemoryContextAlloc(statement->memory, sizeof(uint32) * Max(columns->natts, 1)));
    for (int i = 0; i < columns->natts; i++) {
        const Oid type = TupleDescAttr(columns, i)->atttypid, base = OidIsValid(type) ? getBaseType(type) : type;
        if (base != type)
            statement->base_type[statement->base_types++] = GetSysCacheHashValue1(TYPEOID, ObjectIdGetDatum(base));
    }
}

void append_columns(StringInfo shape, const ColumnList &columns) {
    appendBinaryStringInfo(shape, reinterpret_cast<const char *>(columns.columns),
                           static_cast<int>(sizeof(AttrNumber)) * columns.count);
}

// The shape as bytes. Names cannot hold a zero byte, so they end with one.
StringInfoData shape_of(const RowCall &call) {
    StringInfoData shape;
    initStringInfo(&shape);
    const Oid table = RelationGetRelid(call.table);
    appendBinaryStringInfo(&shape, reinterpret_cast<const char *>(&table), sizeof table);
    appendBinaryStringInfo(&shape, reinterpret_cast<const char *>(&call.variant), sizeof call.variant);
    appendBinaryStringInfo(&shape, call.function, static_cast<int>(strlen(call.function)) + 1);
    for (int i = 0; i < call.objects; i++) {
        for (int j = 0; j < call.object[i].count; j++)
            appendBinaryStringInfo(&shape, call.object[i].names[j], static_cast<int>(strlen(call.object[i].names[j])) + 1);
        appendStringInfoCharMacro(&shape, '\0');
    }
    for (int i = 0; i < call.names; i++)
        appendBinaryStringInfo(&shape, call.name[i], static_cast<int>(strlen(call.name[i])) + 1);
    appendStringInfoCharMacro(&shape, '\0');
    append_columns(&shape, call.visible);
    return shape;
}

void prepare_objects(RowStatement *statement, const RowCall &call) {
    int all = kMaxOwnParameters;
    for (int i = 0; i < call.objects; i++)
        all += call.object[i].count;
    statement->types = static_cast<Oid *>(MemoryContextAlloc(statement->memory, sizeof(Oid) * all));
    prepare_maker(&statement->maker, call.table, statement->memory);
    for (int i = 0; i < call.objects; i++) {
        RowReader *reader = &statement->reader[i];
        prepare_reader(reader, &statement->maker, call.table, call.object[i], statement->memory);
        statement->first[i] = statement->parameters + 1;
        for (int j = 0; j < reader->columns.count; j++)
            add_parameter(statement, read_column(*reader, j)->atttypid);
    }
}

CachedStatement *make_statement(const RowCall &call, BuildStatement build, const PlanKey &shape) {
    auto *statement = static_cast<CachedStatement *>(new_plans(shape, sizeof(CachedStatement)));
    statement->table = RelationGetRelid(call.table);
    const uint64 seen = changes_seen;
    note_base_types(statement, call.table);
    prepare_objects(statement, call);
    build(statement, call);
    if (statement->controls > kMaxControls)
        elog(ERROR, "statement of %s has too many control columns", call.function);
    // If something changed meanwhile, the statement is good for this call, whose table is locked, and for no other.
    statement->is_valid = seen == changes_seen;
    return statement;
}

// With these settings a plan finds a row by its key through the index, whatever the caller has set. A small table would
// otherwise be scanned, and the plan would stay when the table has grown. Under SERIALIZABLE, a scan conflicts with every
// write. The costs that enable_seqscan = off adds must not start the JIT compiler.
constexpr Setting kByIndex[] = {
    {"enable_seqscan", "off"},
    {"enable_indexscan", "on"},
    {"enable_bitmapscan", "on"},
    {"enable_partition_pruning", "on"},
    {"jit", "off"},
};

const CachedPlanSource *source_of(SPIPlanPtr plan) {
    return static_cast<const CachedPlanSource *>(linitial(SPI_plan_get_plan_sources(plan)));
}

// Whether it is certain that the server will run the existing plan. Roles, policies and further tables add conditions of the
// server's, so a plan that depends on them counts as uncertain.
bool is_planned(const CachedPlanSource *source) {
    const CachedPlan *plan = source->gplan;
    return source->is_valid && compat_search_path_matches(source) && !source->dependsOnRLS &&
           list_length(source->relationOids) == 1 && plan != nullptr && plan->is_valid && !plan->dependsOnRole &&
           !TransactionIdIsValid(plan->saved_xmin) &&
           list_length(linitial_node(PlannedStmt, plan->stmt_list)->relationOids) == 1;
}

// Only partitions of the table count: policies may read foreign tables.
void refuse_foreign_partitions_in(const CachedPlan *plan, Oid table) {
    const ListCell *cell;
    foreach (cell, plan->stmt_list) {
        const ListCell *entry;
        foreach (entry, lfirst_node(PlannedStmt, cell)->rtable) {
            const auto *read = lfirst_node(RangeTblEntry, entry);
            if (read->rtekind == RTE_RELATION && read->relkind == RELKIND_FOREIGN_TABLE &&
                list_member_oid(get_partition_ancestors(read->relid), table))
                raise_foreign_partition(table, read->relid);
        }
    }
}

// Makes a plan unless the existing one is still valid. The tables are locked from then on, so the plan stays valid.
void plan_by_index(const RowRun &run, int plan) {
    const CachedStatement &statement = statement_of(*run.statement);
    const auto to_observe = [&statement](const CachedPlan *made) {
        return statement.observer == 0 ? nullptr : unobserved_insert(made, statement.table);
    };
    SPIPlanPtr planned = statement.plan[plan];
    const CachedPlanSource *source = source_of(planned);
    if (is_planned(source) && to_observe(source->gplan) == nullptr)
        return;
    with_settings(kByIndex, [&] {
        CachedPlan *cached = SPI_plan_get_cached_plan(planned);
        refuse_foreign_partitions_in(cached, statement.table);
        if (ModifyTable *insert = to_observe(cached))
            add_observer(cached, insert, statement.observer);
        ReleaseCachedPlan(cached, CurrentResourceOwner);
    });
}

int execute_plan(const RowRun &run, int plan, Snapshot snapshot, const RowObserver *observer) {
    int status = 0;
    const auto execute = [&] {
        if (observer == nullptr) {
            status = SPI_execute_snapshot(run.statement->plan[plan], run.values.values, run.values.nulls, snapshot,
                                          InvalidSnapshot, false, true, 0);
            return;
        }
        SPIExecuteOptions options{};
        options.params =
            observed_parameters(run.statement->types, run.values.values, run.values.nulls, run.statement->observer, observer);
        status = SPI_execute_plan_extended(run.statement->plan[plan], &options);
    };
    // force_custom_plan overrides CURSOR_OPT_GENERIC_PLAN: the server would plan again, under the caller's other settings.
    constexpr Setting kOwnPlan[] = {{"plan_cache_mode", "auto"}};
    if (plan_cache_mode == PLAN_CACHE_MODE_FORCE_CUSTOM_PLAN)
        with_settings(kOwnPlan, execute);
    else
        execute();
    return status;
}

void take_result(RowStatement *statement, RowResult *result, Row row) {
    TupleDesc layout = SPI_tuptable->tupdesc;
    auto *values = static_cast<Datum *>(palloc(sizeof(Datum) * Max(layout->natts, 1)));
    auto *nulls = static_cast<bool *>(palloc(Max(layout->natts, 1)));
    heap_deform_tuple(SPI_tuptable->vals[0], layout, values, nulls);
    for (int i = 0; i < statement->controls; i++) {
        Form_pg_attribute column = TupleDescAttr(layout, i);
        result->control_is_null[i] = nulls[i];
        result->control[i] = nulls[i] ? Datum{0} : datumCopy(values[i], column->attbyval, column->attlen);
    }
    if (row == Row::unwanted)
        return;
    if (statement->row.columns == nullptr)
        prepare_writer(&statement->row, layout, statement->controls, statement->memory);
    result->row = write_row(statement->row, values, nulls);
}

RowStatement *row_statement(const RowCall &call, BuildStatement build) {
    const StringInfoData bytes = shape_of(call);
    const PlanKey shape = plan_key(PlanKind::row_flow, bytes.data, bytes.len);
    PlanEntry *entry = find_plans(shape);
    if (entry == nullptr) {
        entry = make_statement(call, build, shape);
        add_plans(entry);
    }
    use_plans(entry);
    return static_cast<RowStatement *>(entry);
}

RowValues read_row_values(RowStatement *statement, const RowCall &call) {
    const int count = Max(statement->parameters, 1);
    RowValues read{static_cast<Datum *>(palloc0(sizeof(Datum) * count)), static_cast<char *>(palloc(count))};
    memset(read.nulls, 'n', count);
    for (int i = 0; i < call.objects; i++)
        read_values(statement->reader[i], call.object[i], read.values + statement->first[i] - 1,
                    read.nulls + statement->first[i] - 1);
    return read;
}

} // namespace

int add_parameter(RowStatement *statement, Oid type) {
    statement->types[statement->parameters] = type;
    return ++statement->parameters;
}

void prepare_plan(RowStatement *statement, int plan, const StringInfoData &sql) {
    statement->plan[plan] = SPI_prepare_cursor(sql.data, statement->parameters, statement->types, CURSOR_OPT_GENERIC_PLAN);
    if (statement->plan[plan] == nullptr)
        elog(ERROR, "could not prepare statement: %s", SPI_result_code_string(SPI_result));
}

void append_row(StringInfo sql, const RowCall &call) {
    for (int i = 0; i < call.visible.count; i++) {
        appendStringInfoString(sql, ", ");
        append_column(sql, call.table, call.visible.columns[i]);
    }
}

RowRun prepare_run(const RowCall &call, BuildStatement build, FirstObject first, MemoryContext memory) {
    RowStatement *statement = row_statement(call, build);
    const RowValues values = read_row_values(statement, call);
    if (first == FirstObject::key)
        refuse_nulls(statement->reader[0], values.nulls, "key");
    return {statement, values, memory};
}

RowRun begin_run(const RowCall &call, BuildStatement build, FirstObject first) {
    if (IsInParallelMode())
        PreventCommandIfParallelMode(psprintf("%s()", call.function));
    const MemoryContext memory = CurrentMemoryContext;
    SPI_connect();
    return prepare_run(call, build, first, memory);
}

void end_run(const RowCall &call) {
    SPI_finish();
    relation_close(call.table, NoLock);
}

void require_runnable(const RowRun &run, int plan) {
    plan_by_index(run, plan);
    CachedPlan *cached = SPI_plan_get_cached_plan(run.statement->plan[plan]);
    const ListCell *cell;
    foreach (cell, cached->stmt_list)
        compat_check_permissions(lfirst_node(PlannedStmt, cell));
    ReleaseCachedPlan(cached, CurrentResourceOwner);
}

bool run_plan(const RowRun &run, int plan, RowResult *result, Row row, Snapshot snapshot, const RowObserver *observer) {
    const MemoryContext callers = CurrentMemoryContext; // SPI switches to another
    plan_by_index(run, plan);
    const int status = execute_plan(run, plan, snapshot, observer);
    if (status < 0)
        elog(ERROR, "row flow statement failed: %s", SPI_result_code_string(status));
    const bool found = SPI_processed > 0;
    if (found) {
        MemoryContextSwitchTo(run.memory);
        take_result(run.statement, result, row);
    }
    SPI_freetuptable(SPI_tuptable);
    MemoryContextSwitchTo(callers);
    return found;
}

void row_statement_initialize() {
    on_relation_change(table_changed);
    CacheRegisterSyscacheCallback(NAMESPACEOID, names_changed, Datum{0});
    CacheRegisterSyscacheCallback(OPEROID, names_changed, Datum{0});
    CacheRegisterSyscacheCallback(COLLOID, names_changed, Datum{0});
    CacheRegisterSyscacheCallback(CLAOID, names_changed, Datum{0});
    CacheRegisterSyscacheCallback(TYPEOID, type_changed, Datum{0});
}

} // namespace idem
