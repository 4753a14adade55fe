// conditional_adjust: add to a number unless the sum leaves its bounds.
#include "rows/compare_and_set.hpp"
#include "server/arguments.hpp"
#include "server/row_answer.hpp"

namespace {

using namespace idem;

struct Argument {
    enum { target, key, column_name, delta, minimum, maximum };
};

// The statement's own parameters, after the key's.
struct Parameters {
    int delta, minimum, maximum;
};

// The bounds of a call, as bits of RowCall::variant. The statement compares with these bounds only.
constexpr int kHasMinimum = 1, kHasMaximum = 2;

bool is_number(Oid type) {
    return type == INT2OID || type == INT4OID || type == INT8OID || type == NUMERICOID || type == FLOAT4OID ||
           type == FLOAT8OID;
}

struct NumberColumn {
    Oid type; // without its domain
    int32 typmod;
};

NumberColumn number_column(Relation table, AttrNumber number) {
    Form_pg_attribute column = column_form(table, number);
    int32 typmod = column->atttypmod;
    const Oid type = getBaseTypeAndTypmod(column->atttypid, &typmod);
    if (!is_number(type))
        ereport(ERROR, (errcode(ERRCODE_DATATYPE_MISMATCH),
                        errmsg("column \"%s\" of table \"%s\" is of type %s", NameStr(column->attname),
                               RelationGetRelationName(table), format_type_be(column->atttypid)),
                        errdetail("Only a number can be adjusted."), errtablecol(table, number)));
    return {type, typmod};
}

// The type to calculate in. Floating-point numbers keep their type, as they would lose digits as numeric.
const char *calculation_type(Oid column_type) {
    if (column_type == FLOAT4OID)
        return "pg_catalog.float4";
    return column_type == FLOAT8OID ? "pg_catalog.float8" : "pg_catalog.numeric";
}

void build(RowStatement *statement, const RowCall &call) {
    const AttrNumber column = column_number(call.table, call.name[0]);
    const char *type = calculation_type(number_column(call.table, column).type);
    const Parameters own{add_parameter(statement, NUMERICOID), add_parameter(statement, NUMERICOID),
                         add_parameter(statement, NUMERICOID)};
    CompareAndSet flow = begin_compare_and_set(statement, call);
    StringInfoData sum;
    initStringInfo(&sum);
    appendStringInfoString(&flow.control, "CAST(");
    append_column(&flow.control, call.table, column);
    appendStringInfo(&flow.control, " AS %s)", type);
    appendStringInfo(&sum, "%s OPERATOR(pg_catalog.+) CAST($%d AS %s)", flow.control.data, own.delta, type);
    const bool from_below = (call.variant & kHasMinimum) != 0, from_above = (call.variant & kHasMaximum) != 0;
    if (from_below)
        appendStringInfo(&flow.expected, "%s OPERATOR(pg_catalog.>=) CAST($%d AS %s)", sum.data, own.minimum, type);
    if (from_above)
        appendStringInfo(&flow.expected, "%s%s OPERATOR(pg_catalog.<=) CAST($%d AS %s)", from_below ? " AND " : "", sum.data,
                         own.maximum, type);
    // NULL cannot be adjusted, even without bounds.
    if (!from_below && !from_above)
        appendStringInfo(&flow.expected, "%s IS NOT NULL", flow.control.data);
    appendStringInfo(&flow.changes, "%s = %s", quote_identifier(call.name[0]), sum.data);
    prepare_compare_and_set(statement, call, flow);
}

// A value of the calculation type, with all its digits.
Datum numeric_value(Datum value, Oid column_type) {
    char text[DOUBLE_SHORTEST_DECIMAL_LEN];
    if (column_type == FLOAT4OID)
        float_to_shortest_decimal_buf(DatumGetFloat4(value), text);
    else if (column_type == FLOAT8OID)
        double_to_shortest_decimal_buf(DatumGetFloat8(value), text);
    else
        return value;
    return DirectFunctionCall3(numeric_in, CStringGetDatum(text), ObjectIdGetDatum(InvalidOid), Int32GetDatum(-1));
}

Numeric bound(FunctionCallInfo fcinfo, int arg, const char *name) {
    if (PG_ARGISNULL(arg))
        return nullptr;
    const Numeric number = PG_GETARG_NUMERIC(arg);
    if (numeric_is_nan(number))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s must not be NaN", name)));
    return number;
}

bool is_less(Numeric a, Numeric b) {
    return DatumGetBool(DirectFunctionCall2(numeric_lt, NumericGetDatum(a), NumericGetDatum(b)));
}

// Not given: 0. '-infinity': there is none, and the result is nullptr.
Numeric minimum_argument(FunctionCallInfo fcinfo) {
    const Numeric minimum = bound(fcinfo, Argument::minimum, "minimum");
    if (minimum == nullptr)
        return int64_to_numeric(0);
    return numeric_is_inf(minimum) && is_less(minimum, int64_to_numeric(0)) ? nullptr : minimum;
}

// The s of numeric(p, s), from the type modifier as the server packs it.
int32 scale_of(int32 typmod) { return (((typmod - VARHDRSZ) & 0x7ff) ^ 1024) - 1024; }

// Rejects a delta that the column would round, such as 1.5 for an integer: the sum would not be exact.
void check_delta(Numeric delta, const NumberColumn &column, const char *name) {
    if (numeric_is_nan(delta) || numeric_is_inf(delta))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("delta must be finite")));
    if (column.type == FLOAT4OID || column.type == FLOAT8OID || (column.type == NUMERICOID && column.typmod < 0))
        return;
    const int32 scale = column.type == NUMERICOID ? scale_of(column.typmod) : 0;
    const Datum rounded = DirectFunctionCall2(numeric_round, NumericGetDatum(delta), Int32GetDatum(scale));
    if (!DatumGetBool(DirectFunctionCall2(numeric_eq, rounded, NumericGetDatum(delta))))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("column \"%s\" cannot hold a delta of %s exactly", name,
                               DatumGetCString(DirectFunctionCall1(numeric_out, NumericGetDatum(delta))))));
}

const char *outcome_of(Compared compared) {
    switch (compared) {
    case Compared::changed:
        return "adjusted";
    case Compared::differs:
        return "out_of_range";
    case Compared::missing:
        break;
    }
    return "not_found";
}

[[noreturn]] void raise_null_value(Relation table, const char *column) {
    ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED),
                    errmsg("column \"%s\" of the row of table \"%s\" is null", column, RelationGetRelationName(table)),
                    errdetail("Nothing can be added to it.")));
    pg_unreachable();
}

} // namespace

SQL_FUNCTION(conditional_adjust) {
    RowCall call{};
    call.function = "conditional_adjust";
    call.table = open_target(fcinfo, Argument::target, RowExclusiveLock);
    call.objects = 1;
    call.object[0] = row_object_argument(fcinfo, Argument::key, "key");
    const AttrNumber column = column_argument(fcinfo, Argument::column_name, call.table, "column_name");
    if (PG_ARGISNULL(Argument::delta))
        raise_null_argument("delta");
    const Numeric least = minimum_argument(fcinfo), most = bound(fcinfo, Argument::maximum, "maximum");
    if (least != nullptr && most != nullptr && is_less(most, least))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("minimum must not be greater than maximum")));
    const char *name = column_name(call.table, column);
    call.names = 1;
    call.name = &name;
    call.variant = (least != nullptr ? kHasMinimum : 0) | (most != nullptr ? kHasMaximum : 0);
    const NumberColumn number = number_column(call.table, column);
    check_delta(PG_GETARG_NUMERIC(Argument::delta), number, name);

    RowRun run = begin_run(call, build);
    const int own = run.statement->parameters - 2;
    run.values.set(own, PG_GETARG_DATUM(Argument::delta));
    if (least != nullptr)
        run.values.set(own + 1, NumericGetDatum(least));
    if (most != nullptr)
        run.values.set(own + 2, NumericGetDatum(most));
    const Changed done = compare_and_set(run, call, Row::unwanted);
    if (done.outcome == Compared::differs && !done.has_control)
        raise_null_value(call.table, name);
    end_run(call);
    const Datum value = done.has_control ? numeric_value(done.control, number.type) : Datum{0};
    return make_answer(fcinfo, outcome_of(done.outcome), {NUMERICOID, value, !done.has_control});
}
