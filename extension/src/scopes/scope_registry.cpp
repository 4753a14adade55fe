// idem_scope_set, idem_http_scope_set, idem_scope_reset, idem_scope_drop.
#include "core/http_message.hpp"
#include "rings/ring_work.hpp"
#include "scopes/scope.hpp"
#include "server/arguments.hpp"
#include "server/extension.hpp"
#include "server/writable.hpp"
#include "storage/internal_sql.hpp"
#include "storage/ring.hpp"
#include "storage/scope_places.hpp"

#include <algorithm>
#include <string_view>

namespace {

using namespace idem;

struct Argument {
    enum { scope, ttl, keep_forever, lease, on_lease_expiry, max_response_size, owner, ring, response_ttl, count };
};

// Whether the caller, a parameter of the statement, has the privileges of the scope's owner. The statement checks the row
// version that it writes over, because one that was changed by hand, without idem's functions, may have an owner now.
#define IDEM_MAY_USE(caller)                                                                                                   \
    " (c.owner IS NULL OR c.owner OPERATOR(pg_catalog.=) 0::pg_catalog.oid"                                                    \
    " OR pg_catalog.pg_has_role(" caller ", c.owner::pg_catalog.oid, 'USAGE'))"

constexpr const char *kSet =
    "INSERT INTO %s AS c (scope, ttl, keep_forever, lease, on_lease_expiry, max_response_size, owner, response_ttl)"
    " VALUES ($1, $2, $3, $4, $5, $6, $7, $9)" // $8, the ring, is no column
    " ON CONFLICT (scope) DO UPDATE SET ttl = coalesce(excluded.ttl, c.ttl),"
    " keep_forever = coalesce(excluded.keep_forever, c.keep_forever), lease = coalesce(excluded.lease, c.lease),"
    " on_lease_expiry = coalesce(excluded.on_lease_expiry, c.on_lease_expiry),"
    " max_response_size = coalesce(excluded.max_response_size, c.max_response_size), owner = coalesce(excluded.owner, c.owner),"
    " response_ttl = coalesce(excluded.response_ttl, c.response_ttl)"
    " WHERE" IDEM_MAY_USE("$10") " RETURNING 1";

// The arguments of idem_http_scope_set. The statuses are in the order of HttpRefusal.
struct HttpArgument {
    enum {
        scope,
        missing_key,
        keyed_methods,
        unstored_statuses,
        documentation_url,
        first_status,
        stored_headers = first_status + kHttpRefusals,
        ignored_methods,
        key_syntax,
        compare,
        fingerprint_of,
        error_format,
        echo_key,
        profile,
        count
    };
};
constexpr const char *kStatusNames[kHttpRefusals] = {"missing_key_status", "malformed_key_status", "mismatch_status",
                                                     "in_flight_status", "in_doubt_status"};
constexpr Oid kHttpArgumentTypes[HttpArgument::count] = {
    TEXTOID, TEXTOID,      TEXTARRAYOID, TEXTARRAYOID, TEXTOID, INT4OID,      INT4OID, INT4OID, INT4OID,
    INT4OID, TEXTARRAYOID, TEXTARRAYOID, TEXTOID,      TEXTOID, TEXTARRAYOID, TEXTOID, BOOLOID, TEXTOID};
constexpr const char *kProfiles[] = {"ietf", "stripe", "acp", "ucp"}; // those of idem_http_profiles()
constexpr size_t kMaxUrlBytes = 1000;

// The columns of the arguments from the second on, without the profile.
constexpr const char *kHttpColumns[] = {"missing_key",       "keyed_methods",      "unstored_statuses",
                                        "documentation_url", "missing_key_status", "malformed_key_status",
                                        "mismatch_status",   "in_flight_status",   "in_doubt_status",
                                        "stored_headers",    "ignored_methods",    "key_syntax",
                                        "compare",           "fingerprint_of",     "error_format",
                                        "echo_key"};
static_assert(lengthof(kHttpColumns) == HttpArgument::profile - 1);

// What the call gives, else what its profile says, else what the row has.
const char *http_set_statement() {
    StringInfoData columns, values, changes;
    initStringInfo(&columns);
    initStringInfo(&values);
    initStringInfo(&changes);
    for (int i = 0; i < static_cast<int>(lengthof(kHttpColumns)); i++) {
        const char *column = kHttpColumns[i];
        appendStringInfo(&columns, ", %s", column);
        appendStringInfo(&values, ", coalesce($%d, p.%s)", i + 2, column);
        appendStringInfo(&changes, ", %s = coalesce(excluded.%s, c.%s)", column, column, column);
    }
    return psprintf(
        "INSERT INTO %s AS c (scope, ttl%s) SELECT $1, p.ttl%s FROM (SELECT) given LEFT JOIN %s() p"
        " ON p.profile OPERATOR(pg_catalog.=) $%d"
        " ON CONFLICT (scope) DO UPDATE SET ttl = coalesce(excluded.ttl, c.ttl)%s WHERE" IDEM_MAY_USE("$%d") " RETURNING 1",
        member_name(scopes_table), columns.data, values.data, qualified_name("idem_http_profiles"), HttpArgument::profile + 1,
        changes.data, HttpArgument::count + 1);
}

constexpr const char *kDrop =
    "DELETE FROM %s AS c WHERE c.scope OPERATOR(pg_catalog.=) $1 AND" IDEM_MAY_USE("$2") " RETURNING 1";

// The second %s is a list of assignments, which may be empty.
constexpr const char *kReset =
    "UPDATE %s AS c SET scope = c.scope%s WHERE c.scope OPERATOR(pg_catalog.=) $1 AND" IDEM_MAY_USE("$2") " RETURNING 1";

constexpr Oid kArgumentTypes[Argument::count] = {TEXTOID, INTERVALOID, BOOLOID, INTERVALOID, TEXTOID,
                                                 INT4OID, REGROLEOID,  TEXTOID, INTERVALOID};

void check_values(FunctionCallInfo fcinfo) {
    if (!PG_ARGISNULL(Argument::ttl))
        check_deadline(positive_span_of(PG_GETARG_INTERVAL_P(Argument::ttl), "ttl"), "ttl");
    if (!PG_ARGISNULL(Argument::lease))
        check_deadline(lease_of(PG_GETARG_INTERVAL_P(Argument::lease), "lease"), "lease");
    if (!PG_ARGISNULL(Argument::response_ttl))
        (void)positive_span_of(PG_GETARG_INTERVAL_P(Argument::response_ttl), "response_ttl");
    if (!PG_ARGISNULL(Argument::on_lease_expiry)) {
        const char *policy = text_to_cstring(PG_GETARG_TEXT_PP(Argument::on_lease_expiry));
        if (strcmp(policy, "takeover") != 0 && strcmp(policy, "manual") != 0)
            ereport(ERROR,
                    (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("unknown policy \"%s\" for on_lease_expiry", policy),
                     errhint("Use 'takeover' or 'manual'.")));
    }
    if (!PG_ARGISNULL(Argument::max_response_size) && PG_GETARG_INT32(Argument::max_response_size) < 0)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("max_response_size must not be negative")));
    if (!PG_ARGISNULL(Argument::owner) && OidIsValid(PG_GETARG_OID(Argument::owner)))
        (void)GetUserNameFromId(PG_GETARG_OID(Argument::owner), false); // raises for a role that does not exist
}

void check_method(const char *method) {
    if (!core::is_http_token(method))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("\"%s\" is no HTTP method", method)));
}

void check_status_pattern(const char *pattern) {
    if (!core::is_http_status_pattern(pattern))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("\"%s\" is no HTTP status", pattern),
                        errhint("Give statuses, such as '429', or classes of them, such as '5xx'.")));
}

void check_stored_header(const char *name) {
    if (!core::is_http_token(name))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("\"%s\" is no name of a header field", name)));
    if (core::names_http_field(core::kNeverStoredFields, name))
        ereport(ERROR,
                (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("header field \"%s\" cannot be stored", name),
                 errdetail("Cookies are for the client that got them, and fields of a connection for that connection.")));
}

// Checks each item of the optional array `arg`. `item` is what messages call one: "a name in stored_headers".
void check_items(FunctionCallInfo fcinfo, int arg, const char *item, void (*check)(const char *)) {
    if (PG_ARGISNULL(arg))
        return;
    Datum *items;
    bool *nulls;
    int count;
    deconstruct_array(PG_GETARG_ARRAYTYPE_P(arg), TEXTOID, -1, false, TYPALIGN_INT, &items, &nulls, &count);
    for (int i = 0; i < count; i++) {
        if (nulls[i])
            raise_null_argument(item);
        check(TextDatumGetCString(items[i]));
    }
}

// The page is sent as <...> in a header field.
bool is_documentation_url(std::string_view url) {
    const bool has_scheme = url.substr(0, 8) == "https://" || url.substr(0, 7) == "http://";
    return has_scheme && url.size() <= kMaxUrlBytes && url.size() > url.find("//") + 2 &&
           std::all_of(url.begin(), url.end(),
                       [](char c) { return c > ' ' && c < 0x7f && strchr("<>\"\\^`{|}", c) == nullptr; });
}

void check_part(const char *part) {
    if (!core::names_http_method(core::kFingerprintOf, part))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("\"%s\" is no part of a request", part),
                        errhint("The parts are 'method', 'route' and 'body'.")));
}

void check_parts(FunctionCallInfo fcinfo) {
    check_items(fcinfo, HttpArgument::fingerprint_of, "a part in fingerprint_of", check_part);
    if (!PG_ARGISNULL(HttpArgument::fingerprint_of) && ARR_NDIM(PG_GETARG_ARRAYTYPE_P(HttpArgument::fingerprint_of)) == 0)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("fingerprint_of must not be empty"),
                        errhint("The parts are 'method', 'route' and 'body'.")));
}

// The optional argument `arg`, which is one of the words.
template <int count> void check_word(FunctionCallInfo fcinfo, int arg, const char *name, const char *const (&words)[count]) {
    const text *given = optional_text(fcinfo, arg);
    if (given == nullptr)
        return;
    StringInfoData known;
    initStringInfo(&known);
    for (int i = 0; i < count; i++) {
        if (strcmp(text_to_cstring(given), words[i]) == 0)
            return;
        appendStringInfo(&known, "%s'%s'", i == 0 ? "" : i == count - 1 ? " or " : ", ", words[i]);
    }
    ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE),
                    errmsg("unknown value \"%s\" for %s", text_to_cstring(given), name), errhint("Use %s.", known.data)));
}

void check_http_values(FunctionCallInfo fcinfo) {
    constexpr const char *kMissingKey[] = {"reject", "run"}, *kCompare[] = {"bytes", "json"};
    check_word(fcinfo, HttpArgument::missing_key, "missing_key", kMissingKey);
    check_word(fcinfo, HttpArgument::key_syntax, "key_syntax", kHttpKeySyntaxes);
    check_word(fcinfo, HttpArgument::compare, "compare", kCompare);
    check_word(fcinfo, HttpArgument::error_format, "error_format", kHttpErrorFormats);
    check_word(fcinfo, HttpArgument::profile, "profile", kProfiles);
    check_parts(fcinfo);
    check_items(fcinfo, HttpArgument::keyed_methods, "a method in keyed_methods", check_method);
    check_items(fcinfo, HttpArgument::ignored_methods, "a method in ignored_methods", check_method);
    check_items(fcinfo, HttpArgument::unstored_statuses, "a status in unstored_statuses", check_status_pattern);
    if (const text *url = optional_text(fcinfo, HttpArgument::documentation_url))
        if (VARSIZE_ANY_EXHDR(url) > 0 && !is_documentation_url({VARDATA_ANY(url), VARSIZE_ANY_EXHDR(url)}))
            ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("documentation_url is malformed"),
                            errdetail("It must be an absolute http or https URI of at most %zu bytes.", kMaxUrlBytes)));
    for (int i = 0; i < kHttpRefusals; i++) {
        const int arg = HttpArgument::first_status + i;
        if (!PG_ARGISNULL(arg) && (PG_GETARG_INT32(arg) < 400 || PG_GETARG_INT32(arg) > 599))
            ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s must be from 400 to 599", kStatusNames[i])));
    }
    check_items(fcinfo, HttpArgument::stored_headers, "a name in stored_headers", check_stored_header);
}

// A call that changes a scope calls this before it writes. The owner, which may be the family's, is that of the moment of the
// change: it may have changed while the call waited.
void begin_change(const text *scope, const char *function) {
    prevent_unless_writable(function);
    lock_scope_settings(scope);
    check_scope_access(scope);
}

// Writes the scope's row from the arguments of the call. The first of them is the scope.
void write_scope(FunctionCallInfo fcinfo, const char *statement, const Oid *types, int count) {
    auto *values = static_cast<SqlArgument *>(palloc(sizeof(SqlArgument) * (count + 1)));
    for (int i = 0; i < count; i++)
        values[i] = {types[i], PG_GETARG_DATUM(i), PG_ARGISNULL(i)};
    values[count] = {OIDOID, ObjectIdGetDatum(GetUserId()), false};
    if (!run_as_owner(statement, values, count + 1))
        raise_scope_denied(PG_GETARG_TEXT_PP(0));
    invalidate_member(scopes_table);
}

// Changes the scope's row by a statement with the parameters scope and caller. Returns false if the scope has none.
bool change_row(const text *scope, const char *statement) {
    const SqlArgument values[] = {{TEXTOID, PointerGetDatum(scope), false}, {OIDOID, ObjectIdGetDatum(GetUserId()), false}};
    const bool changed = run_as_owner(statement, values, lengthof(values));
    invalidate_member(scopes_table);
    if (changed)
        return true;
    check_scope_access(scope); // the row does not exist, or the caller may not change it
    if (IsolationUsesXactSnapshot() && has_scope_row(scope))
        ereport(ERROR,
                (errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
                 errmsg("could not serialize access due to concurrent registration of scope \"%s\"", text_to_cstring(scope))));
    return false;
}

// --- idem_scope_reset: each column that may be NULL is a setting, and NULL is its default ------------------------------------

struct Names {
    Datum *list;
    int count;
};

Names names_argument(FunctionCallInfo fcinfo, int arg) {
    if (PG_ARGISNULL(arg))
        raise_null_argument("settings");
    bool *nulls;
    Names names;
    deconstruct_array(PG_GETARG_ARRAYTYPE_P(arg), TEXTOID, -1, false, TYPALIGN_INT, &names.list, &nulls, &names.count);
    for (int i = 0; i < names.count; i++)
        if (nulls[i])
            raise_null_argument("a name in settings");
    return names;
}

constexpr const char *kRing = "ring"; // a setting that is no column: where the scope's keys are

bool contains(const Names &names, const char *name) {
    for (int i = 0; i < names.count; i++)
        if (strcmp(TextDatumGetCString(names.list[i]), name) == 0)
            return true;
    return false;
}

template <typename Visit> void for_each_setting(Visit visit) {
    const MemberLayout &table = scopes_table.layout;
    for (int i = 0; i < table.count; i++)
        if (table.columns[i].is_nullable)
            visit(table.columns[i].name);
}

void check_settings(const Names &names) {
    for (int i = 0; i < names.count; i++) {
        const char *name = TextDatumGetCString(names.list[i]);
        bool is_known = strcmp(name, kRing) == 0;
        StringInfoData known;
        initStringInfo(&known);
        for_each_setting([&](const char *setting) {
            is_known = is_known || strcmp(setting, name) == 0;
            appendStringInfo(&known, "%s%s", known.len > 0 ? ", " : "", setting);
        });
        if (!is_known)
            ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("a scope has no setting \"%s\"", name),
                            errhint("The settings are %s, %s.", known.data, kRing)));
    }
}

// The assignments of kReset, each after a comma.
const char *assignments(const Names &names) {
    StringInfoData list;
    initStringInfo(&list);
    for_each_setting([&](const char *setting) {
        if (contains(names, setting))
            appendStringInfo(&list, ", %s = NULL", quote_identifier(setting));
    });
    return list.data;
}

// The id of the ring that the call names; kInIdemKeys: none.
int ring_argument(FunctionCallInfo fcinfo) {
    const text *name = optional_text(fcinfo, Argument::ring);
    return name == nullptr ? kInIdemKeys : ring_named(name);
}

// A ring's keys are all retained for the same time.
void check_ring(const text *name) {
    CommandCounterIncrement();
    if (read_places(name).current() == kInIdemKeys)
        return;
    const SqlArgument value = {TEXTOID, PointerGetDatum(name), false};
    if (run_as_owner(
            psprintf("SELECT FROM ONLY %s WHERE scope OPERATOR(pg_catalog.=) $1 AND keep_forever", member_name(scopes_table)),
            &value, 1))
        ereport(ERROR,
                (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("a scope that keeps its keys forever cannot live in a ring"),
                 errdetail("Scope \"%s\" has keep_forever.", text_to_cstring(name)),
                 errhint("SELECT idem_scope_reset(%s, 'keep_forever');", quote_literal_cstr(text_to_cstring(name)))));
}

} // namespace

// A call that writes the scope's row and moves its keys locks the row first, as docs/architecture.md says.

SQL_FUNCTION(idem_scope_set) {
    const text *name = required_scope_argument(fcinfo, Argument::scope);
    check_scope_access(name);
    check_values(fcinfo);
    const int ring = ring_argument(fcinfo);
    begin_change(name, "idem_scope_set()");
    write_scope(fcinfo, psprintf(kSet, member_name(scopes_table)), kArgumentTypes, Argument::count);
    if (ring != kInIdemKeys)
        move_scope(name, ring);
    check_ring(name);
    PG_RETURN_VOID();
}

SQL_FUNCTION(idem_http_scope_set) {
    const text *name = required_scope_argument(fcinfo, HttpArgument::scope);
    check_scope_access(name);
    check_http_values(fcinfo);
    begin_change(name, "idem_http_scope_set()");
    write_scope(fcinfo, http_set_statement(), kHttpArgumentTypes, HttpArgument::count);
    PG_RETURN_VOID();
}

SQL_FUNCTION(idem_scope_reset) {
    const text *name = required_scope_argument(fcinfo, 0);
    const Names names = names_argument(fcinfo, 1);
    check_scope_access(name);
    check_settings(names);
    begin_change(name, "idem_scope_reset()");
    const bool is_registered = change_row(name, psprintf(kReset, member_name(scopes_table), assignments(names)));
    if (contains(names, kRing))
        move_scope(name, kInIdemKeys);
    PG_RETURN_BOOL(is_registered);
}

SQL_FUNCTION(idem_scope_drop) {
    const text *name = required_scope_argument(fcinfo, 0);
    check_scope_access(name);
    begin_change(name, "idem_scope_drop()");
    const bool is_dropped = change_row(name, psprintf(kDrop, member_name(scopes_table)));
    if (read_places(name).count > 0)
        move_scope(name, kInIdemKeys);
    PG_RETURN_BOOL(is_dropped);
}
