#include "scopes/scope.hpp"

#include "core/http_message.hpp"
#include "server/arguments.hpp"
#include "server/bytes.hpp"
#include "server/compat.hpp"
#include "server/generation_cache.hpp"
#include "server/settings.hpp"
#include "server/value_lock.hpp"

#include <string_view>
#include <utility>

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
    {"ignored_methods", TEXTARRAYOID, kNullable},
    {"key_syntax", TEXTOID, kNullable},
    {"compare", TEXTOID, kNullable},
    {"fingerprint_of", TEXTARRAYOID, kNullable},
    {"error_format", TEXTOID, kNullable},
    {"echo_key", BOOLOID, kNullable},
};

} // namespace

constinit Member scopes_table = member_table("idem_scopes", kColumns, 1, InvalidAttrNumber, kAnyChecks);

namespace {

// What holds for one scope: the settings of its row, and its family's where it has none. A scope without a row is cached as
// well.
struct CachedScope {
    bool has_row;
    bool registered;    // it or its family has a row
    core::Micros ttl;   // 0: not set
    core::Micros lease; // 0: not set
    bool keep_forever;
    bool manual_on_lease_expiry;
    int max_response_size; // -1: not set
    Oid owner;
    core::Micros response_ttl; // core::kForever: not set
    HttpPolicy http;           // 0 and nullptr: not set; the strings are in the cache's memory
};

constinit GenerationCache<CachedScope> cache("idem scopes",
                                             {false, false, 0, 0, false, false, -1, InvalidOid, core::kForever, {}});

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
        stored_headers = first_http_status + kHttpRefusals,
        ignored_methods,
        key_syntax,
        compare,
        fingerprint_of,
        error_format,
        echo_key
    };
};
static_assert(lengthof(kColumns) == ScopeColumn::echo_key);

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

// The columns of a row. A setting is changed by a column that is not null.
class SettingReader {
  public:
    SettingReader(HeapTuple row, TupleDesc layout, MemoryContext memory) : row_(row), layout_(layout), memory_(memory) {}
    bool get(int column, Datum *value) const {
        bool is_null;
        *value = heap_getattr(row_, column, layout_, &is_null);
        return !is_null;
    }
    void read(int column, bool *setting) const {
        if (Datum value; get(column, &value))
            *setting = DatumGetBool(value);
    }
    void read(int column, int32 *setting) const {
        if (Datum value; get(column, &value))
            *setting = DatumGetInt32(value);
    }
    void read_span(int column, const char *name, core::Micros *setting) const {
        if (Datum value; get(column, &value))
            *setting = positive_span_of(DatumGetIntervalP(value), name);
    }
    void read_list(int column, const char **setting) const {
        if (Datum value; get(column, &value))
            *setting = joined_items(memory_, value);
    }
    void read_string(int column, const char **setting) const {
        if (Datum value; get(column, &value))
            *setting = MemoryContextStrdup(memory_, TextDatumGetCString(value));
    }
    // Whether the setting is `word`, as far as it is set.
    void read_word(int column, const char *word, bool *setting) const {
        if (Datum value; get(column, &value))
            *setting = strcmp(TextDatumGetCString(value), word) == 0;
    }
    template <typename Enum, int count> void read_word(int column, const char *const (&words)[count], Enum *setting) const {
        if (Datum value; get(column, &value))
            for (int i = 0; i < count; i++)
                if (strcmp(TextDatumGetCString(value), words[i]) == 0)
                    *setting = static_cast<Enum>(i);
    }

  private:
    HeapTuple row_;
    TupleDesc layout_;
    MemoryContext memory_; // of strings
};

void read_parts(const SettingReader &row, int *parts) {
    const char *names = nullptr;
    row.read_list(ScopeColumn::fingerprint_of, &names);
    if (names == nullptr)
        return;
    *parts = 0;
    for (const auto &[name, part] :
         {std::pair("method", HttpPart::method), std::pair("route", HttpPart::route), std::pair("body", HttpPart::body)})
        if (core::names_http_field(names, name))
            *parts |= static_cast<int>(part);
}

void read_http_settings(const SettingReader &row, HttpPolicy *policy) {
    for (int i = 0; i < kHttpRefusals; i++)
        row.read(ScopeColumn::first_http_status + i, &policy->statuses[i]);
    row.read_word(ScopeColumn::missing_key, "run", &policy->runs_without_key);
    row.read_string(ScopeColumn::documentation_url, &policy->documentation_url);
    row.read_list(ScopeColumn::keyed_methods, &policy->keyed_methods);
    row.read_list(ScopeColumn::unstored_statuses, &policy->unstored_statuses);
    row.read_list(ScopeColumn::stored_headers, &policy->stored_fields);
    row.read_list(ScopeColumn::ignored_methods, &policy->ignored_methods);
    read_parts(row, &policy->fingerprint_of);
    row.read_word(ScopeColumn::key_syntax, kHttpKeySyntaxes, &policy->key_syntax);
    row.read_word(ScopeColumn::compare, "json", &policy->compares_json);
    row.read_word(ScopeColumn::error_format, kHttpErrorFormats, &policy->error_format);
    row.read(ScopeColumn::echo_key, &policy->echoes_key);
}

void read_settings(const SettingReader &row, CachedScope *scope) {
    scope->registered = true;
    row.read_span(ScopeColumn::ttl, "ttl", &scope->ttl);
    row.read(ScopeColumn::keep_forever, &scope->keep_forever);
    row.read_span(ScopeColumn::lease, "lease", &scope->lease);
    row.read_word(ScopeColumn::on_lease_expiry, "manual", &scope->manual_on_lease_expiry);
    row.read(ScopeColumn::max_response_size, &scope->max_response_size);
    if (Datum owner; row.get(ScopeColumn::owner, &owner))
        scope->owner = DatumGetObjectId(owner);
    row.read_span(ScopeColumn::response_ttl, "response_ttl", &scope->response_ttl);
    read_http_settings(row, &scope->http);
}

// False: there is none.
bool read_row_of(Relation table, const text *name, MemoryContext memory, CachedScope *scope) {
    const Oid index = compat_primary_key(table);
    ScanKeyData entry;
    ScanKeyInit(&entry, ScopeColumn::scope, BTEqualStrategyNumber, F_TEXTEQ, PointerGetDatum(name));
    SysScanDesc scan = systable_beginscan(table, index, OidIsValid(index), nullptr, 1, &entry);
    HeapTuple row = systable_getnext(scan);
    const bool is_there = HeapTupleIsValid(row);
    if (is_there)
        read_settings(SettingReader(row, RelationGetDescr(table), memory), scope);
    systable_endscan(scan);
    return is_there;
}

// The part of the name before its first '/'; nullptr where there is none.
const text *family_of(const text *name) {
    const std::string_view whole(VARDATA_ANY(name), VARSIZE_ANY_EXHDR(name));
    const size_t end = whole.find('/');
    return end == 0 || end == whole.npos ? nullptr : cstring_to_text_with_len(whole.data(), static_cast<int>(end));
}

// Reads the current rows, as of a catalog, whatever the transaction's snapshot is. An operator's change takes effect
// immediately. Returns whether there are none.
bool read_scope(const text *name, MemoryContext memory, CachedScope *scope) {
    Relation table = open_member(scopes_table, AccessShareLock);
    const bool is_empty = RelationGetNumberOfBlocks(table) == 0;
    if (!is_empty) {
        if (const text *family = family_of(name))
            (void)read_row_of(table, family, memory, scope);
        scope->has_row = read_row_of(table, name, memory, scope);
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
    if (policy.ignored_methods == nullptr)
        policy.ignored_methods = "";
    if (policy.fingerprint_of == 0)
        policy.fingerprint_of = kAllHttpParts;
    if (policy.documentation_url != nullptr && *policy.documentation_url == '\0')
        policy.documentation_url = nullptr;
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
    while (HeapTuple row = systable_getnext(scan)) {
        core::Micros span = core::kForever;
        SettingReader(row, RelationGetDescr(table), nullptr).read_span(ScopeColumn::response_ttl, "response_ttl", &span);
        found = Min(found, span);
    }
    systable_endscan(scan);
    table_close(table, AccessShareLock);
    shortest = found;
    read_at = now;
    return shortest;
}

void lock_scope_settings(const text *name) {
    table_close(open_member(scopes_table, RowExclusiveLock), NoLock);
    if (const text *family = family_of(name))
        lock_value(ValueLock::scope, hash_of_bytes(family), ShareLock);
    lock_value(ValueLock::scope, hash_of_bytes(name));
}

bool has_scope_row(const text *name) { return look_up(name).has_row; }

void check_scope_access(const text *name) { check_owner(name, look_up(name)); }

} // namespace idem
