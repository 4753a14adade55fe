#include "server/statement_cache.hpp"

#include "server/compat.hpp"

#include <algorithm>

namespace idem {

namespace {

constexpr int kMostStatements = 128;

struct CachedStatement : PreparedStatement {
    MemoryContext memory;
    uint64 hash;
    char *source;
    Size length;
    uint64 last_used;
    bool running;                  // begun and not ended:
    LocalTransactionId running_in; // still so, or failed in that transaction
};

constinit CachedStatement *cache[kMostStatements] = {};
constinit int cached = 0;
constinit uint64 uses = 0;

CachedStatement *find(const char *source, Size length, uint64 hash) {
    for (int i = 0; i < cached; i++)
        if (cache[i]->hash == hash && cache[i]->length == length && memcmp(cache[i]->source, source, length) == 0)
            return cache[i];
    return nullptr;
}

// Forgets what the last analysis found, so that each one infers the types from scratch.
void infer_parameters(ParseState *state, void *argument) {
    auto *statement = static_cast<CachedStatement *>(argument);
    statement->parameters = 0;
    setup_parse_variable_parameters(state, &statement->parameter_types, &statement->parameters);
}

// What a client's PREPARE would say of the text. The analysis that SPI makes lacks one of its checks: that a parameter's
// type, once inferred, also fits the places before.
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

CachedStatement *make_statement(const char *source, Size length, uint64 hash) {
    MemoryContext memory = AllocSetContextCreate(CurrentMemoryContext, "idem statement", ALLOCSET_SMALL_SIZES);
    auto *statement = static_cast<CachedStatement *>(MemoryContextAllocZero(memory, sizeof(CachedStatement)));
    statement->memory = memory;
    statement->hash = hash;
    statement->length = length;
    statement->source = static_cast<char *>(MemoryContextAlloc(memory, length + 1));
    memcpy(statement->source, source, length);
    statement->source[length] = '\0';
    // The parser enlarges this array in the context it was made in.
    statement->parameter_types = static_cast<Oid *>(MemoryContextAllocZero(memory, 8 * sizeof(Oid)));
    check_statement(statement->source);
    SPIPrepareOptions options{};
    options.parserSetup = infer_parameters;
    options.parserSetupArg = statement;
    statement->plan = SPI_prepare_extended(statement->source, &options);
    if (statement->plan == nullptr)
        elog(ERROR, "could not prepare statement: %s", SPI_result_code_string(SPI_result));
    return statement;
}

// Begun in this transaction: running further out, or failed within an exception block. Not to be touched either way.
bool is_in_use(const CachedStatement *statement) {
    return statement->running && statement->running_in == compat_local_transaction();
}

void free_statement(CachedStatement *statement) {
    SPI_freeplan(statement->plan);
    MemoryContextDelete(statement->memory);
}

// Takes a statement out of the cache.
void drop(CachedStatement *statement) {
    CachedStatement **place = std::find(cache, cache + cached, statement);
    *place = cache[--cached];
    free_statement(statement);
}

// Makes room for another; false when all are in use.
bool make_room() {
    if (cached < kMostStatements)
        return true;
    CachedStatement *oldest = nullptr;
    for (int i = 0; i < cached; i++)
        if (!is_in_use(cache[i]) && (oldest == nullptr || cache[i]->last_used < oldest->last_used))
            oldest = cache[i];
    if (oldest == nullptr)
        return false;
    drop(oldest);
    return true;
}

// From here on the statement outlives the call. One that is not kept goes with the caller's SPI connection.
void keep(CachedStatement *statement) {
    if (!make_room())
        return;
    SPI_keepplan(statement->plan);
    MemoryContextSetParent(statement->memory, CacheMemoryContext);
    cache[cached++] = statement;
}

} // namespace

PreparedStatement *begin_statement(const text *text_source) {
    const char *source = VARDATA_ANY(text_source);
    const Size length = VARSIZE_ANY_EXHDR(text_source);
    const uint64 hash = hash_bytes_extended(reinterpret_cast<const unsigned char *>(source), static_cast<int>(length), 0);
    CachedStatement *known = find(source, length, hash);
    if (known != nullptr && known->running && !is_in_use(known)) {
        drop(known); // its last run failed
        known = nullptr;
    }
    CachedStatement *statement = known;
    if (known == nullptr || is_in_use(known))
        statement = make_statement(source, length, hash);
    if (known == nullptr)
        keep(statement);
    statement->last_used = ++uses;
    statement->running = true;
    statement->running_in = compat_local_transaction();
    return statement;
}

void end_statement(PreparedStatement *statement) { static_cast<CachedStatement *>(statement)->running = false; }

} // namespace idem
