// idem_execute: claim a key, run one statement, and store its rows as the response, in one round trip and one transaction.
#include "keys/claim.hpp"
#include "keys/holder.hpp"
#include "keys/ticket.hpp"
#include "server/arguments.hpp"
#include "server/compat.hpp"
#include "server/json_value.hpp"
#include "server/row_writer.hpp"
#include "server/statement_cache.hpp"

namespace {

using namespace idem;

struct Argument {
    enum { key, statement, args, fingerprint, ttl, scope };
};

// The parameters of one execution. An element of `args` is converted to the type that the plan expects when the parameter is
// first used.
struct JsonParameters {
    const PreparedStatement *prepared;
    MemoryContext memory;
    int count;
    JsonbValue *elements;
    ParamExternData *values; // ptype is InvalidOid until converted
};

ParamExternData *fetch_parameter(ParamListInfo list, int number, bool, ParamExternData *) {
    auto *parameters = static_cast<JsonParameters *>(list->paramFetchArg);
    ParamExternData *value = &parameters->values[number - 1];
    const Oid type =
        number <= parameters->prepared->parameters ? parameters->prepared->parameter_types[number - 1] : InvalidOid;
    if (value->ptype == type && OidIsValid(type))
        return value;
    value->pflags = PARAM_FLAG_CONST;
    value->ptype = type;
    value->isnull = true;
    if (OidIsValid(type)) {
        const MemoryContext caller = MemoryContextSwitchTo(parameters->memory);
        value->value = value_of_json(parameters->elements[number - 1], type, &value->isnull);
        MemoryContextSwitchTo(caller);
    }
    return value;
}

ParamListInfo parameter_list(JsonParameters *parameters) {
    ParamListInfo list = makeParamList(0);
    list->paramFetch = fetch_parameter;
    list->paramFetchArg = parameters;
    list->numParams = parameters->count;
    return list;
}

void check_parameters(const PreparedStatement *prepared, int given) {
    if (prepared->parameters != given)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                        errmsg("statement has %d parameters, but %d args were given", prepared->parameters, given)));
    for (int i = 0; i < given; i++) {
        const Oid type = prepared->parameter_types[i];
        if (!OidIsValid(type) || type == UNKNOWNOID)
            ereport(ERROR,
                    (errcode(ERRCODE_INDETERMINATE_DATATYPE), errmsg("could not determine data type of parameter $%d", i + 1)));
    }
}

// The elements of `args`, or none when it was not given.
JsonParameters *json_parameters(const Jsonb *args, const PreparedStatement *prepared) {
    auto *parameters = static_cast<JsonParameters *>(palloc0(sizeof(JsonParameters)));
    parameters->prepared = prepared;
    parameters->memory = CurrentMemoryContext;
    parameters->count = args == nullptr ? 0 : JB_ROOT_COUNT(args);
    parameters->elements = static_cast<JsonbValue *>(palloc(sizeof(JsonbValue) * Max(parameters->count, 1)));
    parameters->values = static_cast<ParamExternData *>(palloc0(sizeof(ParamExternData) * Max(parameters->count, 1)));
    check_parameters(prepared, parameters->count);
    if (parameters->count == 0)
        return parameters;
    JsonbIterator *members = JsonbIteratorInit(const_cast<JsonbContainer *>(&args->root));
    JsonbValue member;
    int i = 0;
    for (auto token = JsonbIteratorNext(&members, &member, true); token != WJB_DONE;
         token = JsonbIteratorNext(&members, &member, true))
        if (token == WJB_ELEM)
            parameters->elements[i++] = member;
    return parameters;
}

void check_column_names(TupleDesc columns) {
    for (int i = 0; i < columns->natts; i++)
        for (int j = 0; j < i; j++)
            if (strcmp(NameStr(TupleDescAttr(columns, i)->attname), NameStr(TupleDescAttr(columns, j)->attname)) == 0)
                ereport(ERROR, (errcode(ERRCODE_DUPLICATE_COLUMN),
                                errmsg("column name \"%s\" appears more than once in the statement's result",
                                       NameStr(TupleDescAttr(columns, i)->attname)),
                                errhint("Give each result column a name of its own.")));
}

// The rows of the last statement as a jsonb array of objects; [] when it returned none.
Jsonb *rows_as_jsonb() {
    JsonBuilder rows;
    rows.begin_array();
    if (SPI_tuptable != nullptr) {
        TupleDesc columns = SPI_tuptable->tupdesc;
        check_column_names(columns);
        RowWriter writer;
        prepare_writer(&writer, columns, 0, CurrentMemoryContext);
        auto *values = static_cast<Datum *>(palloc(sizeof(Datum) * Max(columns->natts, 1)));
        auto *nulls = static_cast<bool *>(palloc(Max(columns->natts, 1)));
        for (uint64 i = 0; i < SPI_tuptable->numvals; i++) {
            heap_deform_tuple(SPI_tuptable->vals[i], columns, values, nulls);
            push_row(&rows, writer, values, nulls);
        }
    }
    rows.end_array();
    return rows.document();
}

// Runs the statement as the caller, and returns its rows in the caller's memory context.
Jsonb *run(const text *source, const Jsonb *args) {
    SPI_connect();
    PreparedStatement *prepared = begin_statement(source);
    SPIExecuteOptions options{};
    options.params = parameter_list(json_parameters(args, prepared));
    const int status = SPI_execute_plan_extended(prepared->plan[0], &options);
    if (status == SPI_ERROR_TRANSACTION || status == SPI_ERROR_COPY)
        ereport(ERROR, (errcode(ERRCODE_FEATURE_NOT_SUPPORTED),
                        errmsg("cannot run %s in idem_execute",
                               status == SPI_ERROR_COPY ? "COPY to or from the client" : "a transaction control statement")));
    if (status < 0)
        elog(ERROR, "could not run statement: %s", SPI_result_code_string(status));
    const Jsonb *rows = rows_as_jsonb();
    auto *result = static_cast<Jsonb *>(SPI_palloc(VARSIZE(rows)));
    memcpy(result, rows, VARSIZE(rows));
    end_statement(prepared);
    SPI_finish();
    return result;
}

// The array `args`, or nullptr if it was not given.
const Jsonb *args_argument(FunctionCallInfo fcinfo) {
    if (PG_ARGISNULL(Argument::args))
        return nullptr;
    const Jsonb *args = PG_GETARG_JSONB_P(Argument::args);
    if (!JB_ROOT_IS_ARRAY(args) || JB_ROOT_IS_SCALAR(args))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("args must be a JSON array"),
                        errhint("Give one element for each parameter, such as '[7, \"text\", null]'.")));
    return args;
}

} // namespace

SQL_FUNCTION(idem_execute) {
    ClaimRequest request{};
    request.wants_row = true;
    request.function = "idem_execute()";
    request.key = key_argument(fcinfo, Argument::key);
    const text *source = required_text(fcinfo, Argument::statement, "statement");
    const Jsonb *args = args_argument(fcinfo);
    request.scope = scope_argument(fcinfo, Argument::scope);
    request.fingerprint = fingerprint_argument(fcinfo, Argument::fingerprint);
    const ScopePolicy policy = scope_policy(request.scope);
    apply_policy(&request, policy, optional_interval(fcinfo, Argument::ttl));
    request.records_doubt = true;
    const KeyTable table = open_keys(Access::write, KeySpace::keys, request.scope);
    const Claimed claimed = claim_key(table, request);
    count_outcome(request, claimed.outcome);
    if (!is_granted(claimed.outcome)) {
        close_keys(table);
        return make_ticket(fcinfo, claimed);
    }
    const Jsonb *response = run(source, args);
    complete_claim(table, request, policy, claimed, response);
    close_keys(table);
    return make_ticket(fcinfo, claimed, response, response_size(response) > policy.max_response_size);
}
