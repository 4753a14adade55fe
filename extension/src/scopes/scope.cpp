#include "scopes/scope.hpp"

#include "core/http_message.hpp"
#include "server/arguments.hpp"
#include "server/compat.hpp"
#include "server/generation_cache.hpp"
#include "server/settings.hpp"

namespace idem {

namespace {

constexpr Column kColumns[] = {
    {"scope", TEXTOID},
    {"ttl", INTERVALOID, kNullable},
    {"keep_forever", BOOLOID, kNullable},
    {"lease", INTERVALOID, kNullable},
    {"on_lease_expiry", TEXTOID, kNullable},
    {"max_response_size", INT4OID, kNullable},
    {"owner", REGROLEOID, kNullable},
    {"response_ttl", INTERVALOID, kNullable},
    {"missing_key", TEXTOID, kNullable},
    {"keyed_methods", TEXTARRAYOID, kNullable},
    {"unstored_statuses", TEXTARRAYOID, kNullable},
    {"documentation_url", TEXTOID, kNullable},
    {"missing_key_status", INT4OID, kNullable},
    {"malformed_key_status", INT4OID, kNullable},
    {"mismatch_status", INT4OID, kNullable},
    {"in_flight_status", INT4OID, kNullable},
    {"in_doubt_status", INT4OID, kNullable},
    {"stored_headers", TEXTARRAYOID, kNullable},
};

} // namespace

constinit Member scopes_table = member_table("idem_scopes", kColumns, 1, InvalidAttrNumber, kAnyChecks);

namespace {

// The row of one scope. A scope without a row is cached as well.
struct CachedScope {
    bool registered;
    core::Micros ttl;   // 0: not set
    core::Micros lease; // 0: not set
    bool keep_forever;
    bool manual_on_lease_expiry;
    int max_response_size; // -1: not set
    Oid owner;
    core::Micros response_ttl; // core::kForever: not set
    HttpPolicy http;           // 0 and nullptr: not set; the strings are in the cache's memory
};

constinit GenerationCache<CachedScope> cache("idem scopes", {false, 0, 0, false, false, -1, InvalidOid, core::kForever, {}});

struct ScopeColumn {
    enum : AttrNumber {
        scope = 1,
        ttl,
        keep_forever,
        lease,
        on_lease_expiry,
        max_response_size,
        owner,
        response_ttl,
        missing_key,
        keyed_methods,
        unstored_statuses,
        documentation_url,
        first_http_status,
        stored_headers = first_http_status + kHttpRefusals
    };
};
static_assert(lengthof(kColumns) == ScopeColumn::stored_headers);

// The items of a text array, joined by commas. No item contains a comma.
const char *joined_items(MemoryContext memory, Datum array) {
    Datum *items;
    bool *nulls;
    int count;
    deconstruct_array(DatumGetArrayTypeP(array), TEXTOID, -1, false, TYPALIGN_INT, &items, &nulls, &count);
    StringInfoData list;
    initStringInfo(&list);
    for (int i = 0; i < count; i++)
        if (!nulls[i])
            appendStringInfo(&list, "%s%s", list.len > 0 ? "," : "", TextDatumGetCString(items[i]));
    return MemoryContextStrdup(memory, list.data);
}

// nullptr when the column is null.
const char *cached_list(MemoryContext memory, HeapTuple row, TupleDesc layout, AttrNumber column) {
    bool is_null;
    const Datum items = heap_getattr(row, column, layout, &is_null);
    return is_null ? nullptr : joined_items(memory, items);
}

void read_http_columns(MemoryContext memory, HeapTuple row, TupleDesc layout, HttpPolicy *policy) {
    bool is_null;
    for (int i = 0; i < kHttpRefusals; i++) {
        const Datum value = heap_getattr(row, ScopeColumn::first_http_status + i, layout, &is_null);
        policy->statuses[i] = is_null ? 0 : DatumGetInt32(value);
    }
    Datum value = heap_getattr(row, ScopeColumn::missing_key, layout, &is_null);
    policy->runs_without_key = !is_null && strcmp(TextDatumGetCString(value), "run") == 0;
    value = heap_getattr(row, ScopeColumn::documentation_url, layout, &is_null);
    policy->documentation_url = is_null ? nullptr : MemoryContextStrdup(memory, TextDatumGetCString(value));
    policy->keyed_methods = cached_list(memory, row, layout, ScopeColumn::keyed_methods);
    policy->unstored_statuses = cached_list(memory, row, layout, ScopeColumn::unstored_statuses);
    policy->stored_fields = cached_list(memory, row, layout, ScopeColumn::stored_headers);
}

core::Micros response_ttl_in(HeapTuple row, TupleDesc layout) {
    bool is_null;
    const Datum value = heap_getattr(row, ScopeColumn::response_ttl, layout, &is_null);
    return is_null ? core::kForever : positive_span_of(DatumGetIntervalP(value), "response_ttl");
}

void read_row(MemoryContext memory, HeapTuple row, TupleDesc layout, CachedScope *scope) {
    bool is_null;
    scope->registered = true;
    Datum value = heap_getattr(row, ScopeColumn::ttl, layout, &is_null);
    if (!is_null)
        scope->ttl = positive_span_of(DatumGetIntervalP(value), "ttl");
    value = heap_getattr(row, ScopeColumn::keep_forever, layout, &is_null);
    scope->keep_forever = !is_null && DatumGetBool(value);
    value = heap_getattr(row, ScopeColumn::lease, layout, &is_null);
    if (!is_null)
        scope->lease = positive_span_of(DatumGetIntervalP(value), "lease");
    value = heap_getattr(row, ScopeColumn::on_lease_expiry, layout, &is_null);
    scope->manual_on_lease_expiry = !is_null && strcmp(TextDatumGetCString(value), "manual") == 0;
    value = heap_getattr(row, ScopeColumn::max_response_size, layout, &is_null);
    if (!is_null)
        scope->max_response_size = DatumGetInt32(value);
    value = heap_getattr(row, ScopeColumn::owner, layout, &is_null);
    if (!is_null)
        scope->owner = DatumGetObjectId(value);
    scope->response_ttl = response_ttl_in(row, layout);
    read_http_columns(memory, row, layout, &scope->http);
}

// Reads the current rows, as of a catalog, whatever the transaction's snapshot is. An operator's change takes effect
// immediately. Returns whether there are none.
bool read_scope(const text *name, MemoryContext memory, CachedScope *scope) {
    Relation table = open_member(scopes_table, AccessShareLock);
    const bool is_empty = RelationGetNumberOfBlocks(table) == 0;
    if (!is_empty) {
        const Oid index = compat_primary_key(table);
        ScanKeyData entry;
        ScanKeyInit(&entry, ScopeColumn::scope, BTEqualStrategyNumber, F_TEXTEQ, PointerGetDatum(name));
        SysScanDesc scan = systable_beginscan(table, index, OidIsValid(index), nullptr, 1, &entry);
        HeapTuple row = systable_getnext(scan);
        if (HeapTupleIsValid(row))
            read_row(memory, row, RelationGetDescr(table), scope);
        systable_endscan(scan);
    }
    table_close(table, AccessShareLock);
    return is_empty;
}

// Valid until the next look-up.
const CachedScope &look_up(const text *name) {
    (void)generation_of(scopes_table);
    return cache.look_up(name, scopes_table.generation,
                         [&](CachedScope *scope, MemoryContext memory) { return read_scope(name, memory, scope); });
}

bool is_usable(const CachedScope &scope) { return !OidIsValid(scope.owner) || has_privs_of_role(GetUserId(), scope.owner); }

void check_owner(const text *name, const CachedScope &scope) {
    if (!is_usable(scope))
        raise_scope_denied(name);
}

ScopePolicy policy_of(const CachedScope &scope) {
    ScopePolicy policy;
    policy.keep_forever = scope.keep_forever;
    policy.ttl = scope.keep_forever ? core::kForever : scope.ttl != 0 ? scope.ttl : settings::default_ttl * USECS_PER_SEC;
    policy.lease = scope.lease != 0 ? scope.lease : settings::default_lease * core::Micros{1000};
    policy.manual_on_lease_expiry = scope.manual_on_lease_expiry;
    policy.max_response_size = scope.max_response_size >= 0 ? scope.max_response_size : settings::max_response_size;
    return policy;
}

} // namespace

const text *scope_argument(FunctionCallInfo fcinfo, int arg) {
    return PG_ARGISNULL(arg) ? cstring_to_text("") : required_scope_argument(fcinfo, arg);
}

const text *required_scope_argument(FunctionCallInfo fcinfo, int arg) {
    const text *scope = required_text(fcinfo, arg, "scope");
    const auto bytes = VARSIZE_ANY_EXHDR(scope);
    if (bytes > kMaxScopeBytes)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("scope is too long"),
                        errdetail("The scope has %zu bytes; the most is %d.", static_cast<size_t>(bytes), kMaxScopeBytes)));
    return scope;
}

ScopePolicy scope_policy(const text *name) {
    const CachedScope &scope = look_up(name);
    if (!scope.registered && settings::require_registered_scope)
        ereport(ERROR, (errcode(ERRCODE_UNDEFINED_OBJECT), errmsg("scope \"%s\" is not registered", text_to_cstring(name)),
                        errhint("Register it with idem_scope_set, or turn idem.require_registered_scope off.")));
    check_owner(name, scope);
    return policy_of(scope);
}

HttpPolicy http_policy(const text *name) {
    constexpr int32 kStatuses[kHttpRefusals] = {400, 400, 422, 409, 409};
    HttpPolicy policy = look_up(name).http;
    for (int i = 0; i < kHttpRefusals; i++)
        if (policy.statuses[i] == 0)
            policy.statuses[i] = kStatuses[i];
    if (policy.keyed_methods == nullptr)
        policy.keyed_methods = core::kKeyedMethods.data();
    if (policy.unstored_statuses == nullptr)
        policy.unstored_statuses = "";
    if (policy.stored_fields == nullptr)
        policy.stored_fields = core::kStoredFields.data();
    return policy;
}

bool find_usable_scope(const text *name, ScopePolicy *policy) {
    const CachedScope &scope = look_up(name);
    *policy = policy_of(scope);
    return is_usable(scope);
}

void raise_scope_denied(const text *name) {
    const char *scope = text_to_cstring(name);
    const Oid owner = look_up(name).owner;
    if (OidIsValid(owner) && !SearchSysCacheExists1(AUTHOID, ObjectIdGetDatum(owner)))
        ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE), errmsg("permission denied for scope \"%s\"", scope),
                        errdetail("The scope's owner, the role with OID %u, was dropped.", owner),
                        errhint("A superuser can give the scope a new owner: SELECT idem_scope_set(%s, owner => '...').",
                                quote_literal_cstr(scope))));
    ereport(ERROR, (errcode(ERRCODE_INSUFFICIENT_PRIVILEGE), errmsg("permission denied for scope \"%s\"", scope),
                    errdetail("Only roles that have the privileges of the scope's owner may use it.")));
    pg_unreachable();
}

bool is_manual_on_lease_expiry(const text *scope) { return look_up(scope).manual_on_lease_expiry; }

core::Micros response_ttl_of(const text *scope) { return look_up(scope).response_ttl; }

core::Micros shortest_response_ttl() {
    static constinit uint64 read_at = 0; // the generation
    static constinit core::Micros shortest = core::kForever;
    const uint64 now = generation_of(scopes_table);
    if (read_at == now)
        return shortest;
    core::Micros found = core::kForever;
    Relation table = open_member(scopes_table, AccessShareLock);
    SysScanDesc scan = systable_beginscan(table, InvalidOid, false, nullptr, 0, nullptr);
    while (HeapTuple row = systable_getnext(scan))
        found = Min(found, response_ttl_in(row, RelationGetDescr(table)));
    systable_endscan(scan);
    table_close(table, AccessShareLock);
    shortest = found;
    read_at = now;
    return shortest;
}

bool is_registered_scope(const text *name) { return look_up(name).registered; }

void check_scope_access(const text *name) { check_owner(name, look_up(name)); }

} // namespace idem
