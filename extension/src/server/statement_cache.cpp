#include "server/statement_cache.hpp"

namespace idem {

namespace {

// Discards the types of the last analysis, so that each analysis infers them again.
void infer_parameters(ParseState *state, void *argument) {
    auto *statement = static_cast<PreparedStatement *>(argument);
    statement->parameters = 0;
    setup_parse_variable_parameters(state, &statement->parameter_types, &statement->parameters);
}

// Raises the errors that a client's PREPARE of the text raises. SPI's own analysis does not check that the inferred type of a
// parameter also fits its earlier uses.
void check_statement(const char *source) {
    List *statements = raw_parser(source, RAW_PARSE_DEFAULT);
    if (list_length(statements) != 1)
        ereport(ERROR,
                (errcode(ERRCODE_SYNTAX_ERROR),
                 statements == NIL ? errmsg("statement is empty") : errmsg("cannot run more than one statement at a time")));
    Oid *types = nullptr;
    int count = 0;
    (void)parse_analyze_varparams(linitial_node(RawStmt, statements), source, &types, &count, nullptr);
}

PreparedStatement *make_statement(const PlanKey &key) {
    auto *statement = static_cast<PreparedStatement *>(new_plans(key, sizeof(PreparedStatement)));
    // The parser enlarges this array, in the same context.
    statement->parameter_types = static_cast<Oid *>(MemoryContextAllocZero(statement->memory, 8 * sizeof(Oid)));
    check_statement(statement->key);
    SPIPrepareOptions options{};
    options.parserSetup = infer_parameters;
    options.parserSetupArg = statement;
    statement->plan[0] = SPI_prepare_extended(statement->key, &options);
    if (statement->plan[0] == nullptr)
        elog(ERROR, "could not prepare statement: %s", SPI_result_code_string(SPI_result));
    return statement;
}

} // namespace

PreparedStatement *begin_statement(const text *source) {
    const PlanKey key = plan_key(PlanKind::execute, VARDATA_ANY(source), VARSIZE_ANY_EXHDR(source));
    PlanEntry *entry = find_plans(key);
    if (entry == nullptr) {
        entry = make_statement(key);
        add_plans(entry);
    }
    use_plans(entry);
    entry->is_valid = false; // until the run has succeeded
    return static_cast<PreparedStatement *>(entry);
}

void end_statement(PreparedStatement *statement) { statement->is_valid = true; }

} // namespace idem
