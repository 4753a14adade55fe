#include "statement_cache.hpp"

#include "compat.hpp"

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

bool is_running(const CachedStatement *statement) {
    return statement->running > 0 && statement->running_in == compat_local_transaction();
}

// Where a statement may be put: a free place, or that of the one that was not used for longest; -1 when all are running.
int place_for_another() {
    if (cached < kMostStatements)
        return cached;
    int oldest = -1;
    for (int i = 0; i < cached; i++)
        if (!is_running(cache[i]) && (oldest < 0 || cache[i]->last_used < cache[oldest]->last_used))
            oldest = i;
    return oldest;
}

// From here on the statement outlives the call; nothing in between may fail halfway.
void keep(CachedStatement *statement) {
    const int place = place_for_another();
    if (place < 0)
        return; // it goes with the caller's SPI connection
    SPI_keepplan(statement->plan);
    MemoryContextSetParent(statement->memory, CacheMemoryContext);
    if (place == cached)
        cached++;
    else {
        SPI_freeplan(cache[place]->plan);
        MemoryContextDelete(cache[place]->memory);
    }
    cache[place] = statement;
}

} // namespace

const PreparedStatement *begin_statement(const text *text_source) {
    const char *source = VARDATA_ANY(text_source);
    const Size length = VARSIZE_ANY_EXHDR(text_source);
    const uint64 hash = hash_bytes_extended(reinterpret_cast<const unsigned char *>(source), static_cast<int>(length), 0);
    CachedStatement *statement = find(source, length, hash);
    if (statement == nullptr) {
        statement = make_statement(source, length, hash);
        keep(statement);
    }
    statement->last_used = ++uses;
    if (!is_running(statement))
        statement->running = 0;
    statement->running++;
    statement->running_in = compat_local_transaction();
    return statement;
}

void end_statement(const PreparedStatement *statement) { const_cast<PreparedStatement *>(statement)->running--; }

} // namespace idem
