#include "statement_cache.hpp"

namespace idem {

namespace {

constexpr int kMostStatements = 128;

struct CachedStatement : PreparedStatement {
    MemoryContext memory;
    uint64 hash;
    char *source;
    Size length;
    uint64 last_used;
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

void require_single(SPIPlanPtr plan) {
    const int statements = list_length(SPI_plan_get_plan_sources(plan));
    if (statements != 1)
        ereport(ERROR,
                (errcode(ERRCODE_SYNTAX_ERROR),
                 statements == 0 ? errmsg("statement is empty") : errmsg("cannot run more than one statement at a time")));
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
    SPIPrepareOptions options{};
    options.parserSetup = infer_parameters;
    options.parserSetupArg = statement;
    statement->plan = SPI_prepare_extended(statement->source, &options);
    if (statement->plan == nullptr)
        elog(ERROR, "could not prepare statement: %s", SPI_result_code_string(SPI_result));
    require_single(statement->plan);
    return statement;
}

int least_recently_used() {
    int oldest = 0;
    for (int i = 1; i < cached; i++)
        if (cache[i]->last_used < cache[oldest]->last_used)
            oldest = i;
    return oldest;
}

// From here on the statement outlives the call; nothing in between may fail halfway.
void keep(CachedStatement *statement) {
    SPI_keepplan(statement->plan);
    MemoryContextSetParent(statement->memory, CacheMemoryContext);
    if (cached < kMostStatements) {
        cache[cached++] = statement;
        return;
    }
    CachedStatement *&place = cache[least_recently_used()];
    SPI_freeplan(place->plan);
    MemoryContextDelete(place->memory);
    place = statement;
}

} // namespace

const PreparedStatement *prepare_statement(const text *statement) {
    const char *source = VARDATA_ANY(statement);
    const Size length = VARSIZE_ANY_EXHDR(statement);
    const uint64 hash = hash_bytes_extended(reinterpret_cast<const unsigned char *>(source), static_cast<int>(length), 0);
    CachedStatement *prepared = find(source, length, hash);
    if (prepared == nullptr) {
        prepared = make_statement(source, length, hash);
        keep(prepared);
    }
    prepared->last_used = ++uses;
    return prepared;
}

} // namespace idem
