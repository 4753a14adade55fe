#include "catalog.hpp"

#include "compat.hpp"

namespace idem {

namespace {

enum class Nulls { none, allowed };

struct Column {
    const char *name;
    Oid type;
    Nulls nulls = Nulls::none;
};

constexpr Column kKeyColumns[] = {
    {"created_at", TIMESTAMPTZOID},
    {"expires_at", TIMESTAMPTZOID},
    {"attempt", INT4OID},
    {"state", CHAROID},
    {"scope", TEXTOID},
    {"key", TEXTOID},
    {"lease_until", TIMESTAMPTZOID, Nulls::allowed},
    {"fence", INT8OID, Nulls::allowed},
    {"status_code", INT4OID, Nulls::allowed},
    {"response_omitted", BOOLOID, Nulls::allowed},
    {"owner", TEXTOID, Nulls::allowed},
    {"fingerprint", BYTEAOID, Nulls::allowed},
    {"recovery_point", TEXTOID, Nulls::allowed},
    {"response", JSONBOID, Nulls::allowed},
};
static_assert(lengthof(kKeyColumns) == KeyColumn::count);

constexpr Column kScopeColumns[] = {
    {"scope", TEXTOID},
    {"ttl", INTERVALOID, Nulls::allowed},
    {"keep_forever", BOOLOID, Nulls::allowed},
    {"lease", INTERVALOID, Nulls::allowed},
    {"on_lease_expiry", TEXTOID, Nulls::allowed},
    {"max_response_size", INT4OID, Nulls::allowed},
    {"owner", REGROLEOID, Nulls::allowed},
    {"missing_key_status", INT4OID, Nulls::allowed},
    {"malformed_key_status", INT4OID, Nulls::allowed},
    {"mismatch_status", INT4OID, Nulls::allowed},
    {"in_flight_status", INT4OID, Nulls::allowed},
    {"in_doubt_status", INT4OID, Nulls::allowed},
    {"stored_headers", TEXTARRAYOID, Nulls::allowed},
};
// The SQL of version 0.1.0, with which this library has to work until the update, has the first of them.
constexpr int kScopeColumnsOf010 = 7;

constexpr Column kCounterColumns[] = {{"expires_at", TIMESTAMPTZOID}, {"hits", INT8OID}, {"scope", TEXTOID}, {"key", TEXTOID}};

constexpr Column kMachineColumns[] = {{"name", TEXTOID}, {"definition", JSONBOID}};

constexpr Column kLogColumns[] = {
    {"target", TEXTOID},   {"key", JSONBOID},      {"state_column", TEXTOID}, {"from_state", TEXTOID, Nulls::allowed},
    {"to_state", TEXTOID}, {"at", TIMESTAMPTZOID}, {"by", TEXTOID},
};
static_assert(lengthof(kLogColumns) == LogColumn::count);
constexpr Column kSecretColumns[] = {
    {"key_id", INT4OID}, {"database", OIDOID}, {"created_at", TIMESTAMPTZOID}, {"secret", BYTEAOID}};

constexpr Column kApiKeyColumns[] = {
    {"key_id", TEXTOID}, {"created_at", TIMESTAMPTZOID}, {"expires_at", TIMESTAMPTZOID}, {"secret", BYTEAOID}};

constexpr Column kOutboxColumns[] = {
    {"id", INT8OID},
    {"due_at", TIMESTAMPTZOID, Nulls::allowed},
    {"returned_by", INT8OID, Nulls::allowed},
    {"failures", INT4OID},
    {"topic", TEXTOID},
    {"key", TEXTOID, Nulls::allowed},
    {"payload", JSONBOID},
    {"headers", JSONBOID, Nulls::allowed},
};
constexpr Column kOutboxLeaseColumns[] = {{"fence", INT8OID},
                                          {"lease_until", TIMESTAMPTZOID},
                                          {"topic", TEXTOID},
                                          {"ids", INT8ARRAYOID},
                                          {"key_hashes", INT8ARRAYOID}};
constexpr Column kOutboxParkedColumns[] = {
    {"id", INT8OID},
    {"parked_at", TIMESTAMPTZOID},
    {"returned_by", INT8OID},
    {"failures", INT4OID},
    {"cause", TEXTOID},
    {"topic", TEXTOID},
    {"key", TEXTOID, Nulls::allowed},
    {"payload", JSONBOID},
    {"headers", JSONBOID, Nulls::allowed},
};

constexpr const char *kSpaceTables[kKeySpaces] = {"idem_keys", "idem_tokens", "idem_locks", "idem_rates"};

constexpr const char *kOutcomeNames[core::kOutcomes] = {"acquired",  "taken_over", "in_flight",
                                                        "completed", "mismatch",   "in_doubt"};

constexpr const char *kTokenOutcomeNames[core::kTokenOutcomes] = {"accepted", "duplicate", "in_flight", "expired", "invalid"};

constexpr const char *kRequestOutcomeNames[kRequestOutcomes] = {"accepted", "replayed", "stale", "invalid"};

constinit Catalog cached{};
constinit bool cached_is_valid = false;
constinit uint64 generation_of_scopes = 1;
constinit uint64 generation_of_machines = 1;
constinit uint64 generation_of_secrets = 1;

constinit uint64 changes_seen = 0;

constexpr int kMostLooks = 8;

// Of the SQL, as pg_extension has it; for messages.
constinit char installed_version[NAMEDATALEN] = "";

void relation_changed(Datum, Oid relation) {
    // While nothing is cached, any relation may be one of those that are being looked at.
    const bool all = relation == InvalidOid || !cached_is_valid;
    if (all)
        changes_seen++;
    if (all || relation == cached.scopes)
        generation_of_scopes++;
    if (all || relation == cached.machines)
        generation_of_machines++;
    if (all || relation == cached.token_secrets || relation == cached.api_keys)
        generation_of_secrets++;
    bool ours = all || relation == cached.scopes || relation == cached.counters || relation == cached.machines ||
                relation == cached.transition_log || relation == cached.fence_high_water || relation == cached.id_high_water ||
                relation == cached.token_secrets || relation == cached.api_keys || relation == cached.outbox ||
                relation == cached.outbox_leases || relation == cached.outbox_parked;
    for (const Oid table : cached.spaces)
        ours |= relation == table;
    if (ours)
        cached_is_valid = false;
}

[[noreturn]] void not_as_installed(const char *relation, const char *why) {
    if (strcmp(installed_version, library_version()) != 0)
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("\"%s\" of extension \"idem\" is not what this version of the library needs", relation),
                        errdetail("The library has version %s, the extension's SQL in this database %s. %s", library_version(),
                                  installed_version, why),
                        errhint("Run ALTER EXTENSION idem UPDATE, or install the library that belongs to the SQL and restart "
                                "the server.")));
    ereport(ERROR,
            (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
             errmsg("relation \"%s\" of extension \"idem\" is not the one that was installed", relation), errdetail("%s", why),
             errhint("Restore it as CREATE EXTENSION idem made it, or drop and create the extension.")));
    pg_unreachable();
}

// SQL of another version may do without it (until ALTER EXTENSION UPDATE), and a script that is not done yet.
bool may_be_absent(const Catalog &found, const char *relation) {
    return (creating_extension || strcmp(installed_version, library_version()) != 0) &&
           !OidIsValid(get_relname_relid(relation, found.schema));
}

Oid member_relation(const Catalog &found, const char *name) {
    const Oid relation = get_relname_relid(name, found.schema);
    if (!OidIsValid(relation))
        not_as_installed(name, "The relation does not exist.");
    if (getExtensionOfObject(RelationRelationId, relation) != found.extension)
        not_as_installed(name, "The relation does not belong to the extension.");
    return relation;
}

// Extensions that spread a table over other servers leave an ordinary-looking, empty shell behind.
bool is_distributed(Oid relation) {
    const Oid registry = get_relname_relid("pg_dist_partition", PG_CATALOG_NAMESPACE);
    if (!OidIsValid(registry))
        return false;
    const AttrNumber column = get_attnum(registry, "logicalrelid");
    if (column == InvalidAttrNumber)
        return false;
    Relation table = table_open(registry, AccessShareLock);
    ScanKeyData entry;
    ScanKeyInit(&entry, column, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(relation));
    SysScanDesc scan = systable_beginscan(table, InvalidOid, false, nullptr, 1, &entry);
    const bool listed = HeapTupleIsValid(systable_getnext(scan));
    systable_endscan(scan);
    table_close(table, AccessShareLock);
    return listed;
}

void check_storage(Relation relation, char kind, const char *name) {
    if (relation->rd_rel->relkind != kind || relation->rd_rel->relispartition)
        not_as_installed(name, "It is not a plain local relation.");
    if (relation->rd_rel->relpersistence != RELPERSISTENCE_PERMANENT)
        not_as_installed(name, "It is not logged, so a crash would forget its rows.");
    // relhassubclass may still say so when the last child is gone.
    if (relation->rd_rel->relhassubclass && find_inheritance_children(RelationGetRelid(relation), NoLock) != NIL)
        not_as_installed(name, "Other tables inherit from it.");
    if (is_distributed(RelationGetRelid(relation)))
        not_as_installed(name, "Another extension has distributed it.");
}

void check_columns(Relation table, const Column *columns, int count, const char *name) {
    TupleDesc layout = RelationGetDescr(table);
    bool same = layout->natts == count;
    for (int i = 0; same && i < count; i++) {
        Form_pg_attribute column = TupleDescAttr(layout, i);
        same = !column->attisdropped && column->atttypid == columns[i].type &&
               column->attnotnull == (columns[i].nulls == Nulls::none) &&
               strcmp(NameStr(column->attname), columns[i].name) == 0;
    }
    if (!same)
        not_as_installed(name, "Its columns were changed.");
}

// The primary key is what a table is searched by, and arbitrates who holds a key: it must be a live B-tree over these columns
// (the second may be none), with the bytewise collation where they have one.
void check_primary_key(Relation table, AttrNumber first, AttrNumber second, const char *name) {
    const AttrNumber wanted[] = {first, second};
    const int count = second == InvalidAttrNumber ? 1 : 2;
    for (;;) {
        const Oid index_oid = compat_primary_key(table);
        if (!OidIsValid(index_oid))
            not_as_installed(name, "It has no primary key.");
        Relation index = index_open(index_oid, AccessShareLock);
        Form_pg_index form = index->rd_index;
        bool right = index->rd_rel->relam == BTREE_AM_OID && form->indisunique && form->indimmediate && form->indisvalid &&
                     form->indnkeyatts == count;
        for (int i = 0; right && i < count; i++)
            right = form->indkey.values[i] == wanted[i] &&
                    (!OidIsValid(index->rd_indcollation[i]) || index->rd_indcollation[i] == C_COLLATION_OID);
        index_close(index, AccessShareLock);
        if (right)
            return;
        // REINDEX CONCURRENTLY may have put another in its place before we had it open.
        if (compat_primary_key(table) == index_oid)
            not_as_installed(name, "Its primary key is not that of the installation, in the \"C\" collation.");
    }
}

// What a write past the executor would not check must not be there: CHECK constraints besides our own, and uniqueness that
// waits for the commit.
void check_constraints(Oid oid, int checks, const char *name) {
    Relation table = table_open(oid, AccessShareLock);
    const TupleConstr *constraints = RelationGetDescr(table)->constr;
    if (constraints == nullptr || constraints->num_check != checks)
        not_as_installed(name, "Its check constraints were changed.");
    List *indexes = RelationGetIndexList(table);
    ListCell *cell;
    foreach (cell, indexes) {
        Relation index = index_open(lfirst_oid(cell), AccessShareLock);
        const bool immediate = index->rd_index->indimmediate;
        index_close(index, AccessShareLock);
        if (!immediate)
            not_as_installed(name, "It has a deferrable constraint.");
    }
    list_free(indexes);
    table_close(table, AccessShareLock);
}

void check_table(Oid oid, const Column *columns, int count, AttrNumber first, AttrNumber second, const char *name) {
    Relation table = table_open(oid, AccessShareLock);
    check_storage(table, RELKIND_RELATION, name);
    if (table->rd_rel->relam != HEAP_TABLE_AM_OID)
        not_as_installed(name, "It does not use the heap access method.");
    check_columns(table, columns, count, name);
    if (first != InvalidAttrNumber)
        check_primary_key(table, first, second, name);
    table_close(table, AccessShareLock);
}

void find_extension(Catalog &found) {
    found.extension = get_extension_oid("idem", true);
    Relation extensions = table_open(ExtensionRelationId, AccessShareLock);
    ScanKeyData entry;
    ScanKeyInit(&entry, Anum_pg_extension_oid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(found.extension));
    SysScanDesc scan = systable_beginscan(extensions, ExtensionOidIndexId, true, nullptr, 1, &entry);
    HeapTuple tuple = systable_getnext(scan);
    if (!HeapTupleIsValid(tuple))
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("extension \"idem\" is not installed in this database"), errhint("Run CREATE EXTENSION idem.")));
    auto *form = reinterpret_cast<Form_pg_extension>(GETSTRUCT(tuple));
    found.schema = form->extnamespace;
    found.owner = form->extowner;
    bool is_null;
    const Datum version = heap_getattr(tuple, Anum_pg_extension_extversion, RelationGetDescr(extensions), &is_null);
    strlcpy(installed_version, is_null ? "" : TextDatumGetCString(version), sizeof installed_version);
    systable_endscan(scan);
    table_close(extensions, AccessShareLock);
}

Oid type_named(const Catalog &found, const char *name) {
    const Oid type = GetSysCacheOid2(TYPENAMENSP, Anum_pg_type_oid, PointerGetDatum(name), ObjectIdGetDatum(found.schema));
    if (!OidIsValid(type))
        not_as_installed(name, "The type does not exist.");
    return type;
}

void find_labels(const Catalog &found, const char *enum_name, const char *const *names, int count, Oid *labels) {
    const Oid type = type_named(found, enum_name);
    for (int i = 0; i < count; i++) {
        labels[i] = GetSysCacheOid2(ENUMTYPOIDNAME, Anum_pg_enum_oid, ObjectIdGetDatum(type), PointerGetDatum(names[i]));
        if (!OidIsValid(labels[i]))
            not_as_installed(enum_name, "A label of the type is missing.");
    }
}

// Secrets are written past whatever indexes the table may have, and past logical decoding; with a full replica identity, that
// would still get the rows that are deleted.
void check_secrets(Oid oid, const char *name) {
    Relation table = table_open(oid, AccessShareLock);
    const bool has_indexes = RelationGetIndexList(table) != NIL;
    const bool identity_is_full = table->rd_rel->relreplident == REPLICA_IDENTITY_FULL;
    table_close(table, AccessShareLock);
    if (has_indexes)
        not_as_installed(name, "It has an index.");
    if (identity_is_full)
        not_as_installed(name, "Its replica identity is full, so logical replication would carry what is deleted.");
}

Oid find_space(const Catalog &found, const char *name) {
    if (may_be_absent(found, name))
        return InvalidOid;
    const Oid table = member_relation(found, name);
    check_table(table, kKeyColumns, lengthof(kKeyColumns), KeyColumn::scope, KeyColumn::key, name);
    check_constraints(table, 1, name);
    return table;
}

Oid high_water_sequence(const Catalog &found, const char *name) {
    const Oid oid = member_relation(found, name);
    Relation sequence = relation_open(oid, AccessShareLock);
    check_storage(sequence, RELKIND_SEQUENCE, name);
    relation_close(sequence, AccessShareLock);
    return oid;
}

// A table that is written as plain_table.hpp says.
template <int count>
Oid find_plain(const Catalog &found, const char *name, const Column (&columns)[count], AttrNumber first, AttrNumber second) {
    if (may_be_absent(found, name))
        return InvalidOid;
    const Oid table = member_relation(found, name);
    check_table(table, columns, count, first, second, name);
    check_constraints(table, 0, name);
    return table;
}

Catalog find_everything() {
    Catalog found{};
    find_extension(found);
    found.scopes = member_relation(found, "idem_scopes");
    found.counters = member_relation(found, "idem_counters");
    found.machines = member_relation(found, "idem_machines");
    found.transition_log = member_relation(found, "idem_transition_log");
    found.fence_high_water = high_water_sequence(found, "idem_fence_high_water");
    found.id_high_water = high_water_sequence(found, "idem_id_high_water");
    for (int i = 0; i < kKeySpaces; i++)
        found.spaces[i] = find_space(found, kSpaceTables[i]);
    check_table(found.scopes, kScopeColumns,
                strcmp(installed_version, "0.1.0") == 0 ? kScopeColumnsOf010 : static_cast<int>(lengthof(kScopeColumns)),
                InvalidAttrNumber, InvalidAttrNumber, "idem_scopes");
    check_table(found.counters, kCounterColumns, lengthof(kCounterColumns), 3, 4, "idem_counters");
    check_table(found.machines, kMachineColumns, lengthof(kMachineColumns), InvalidAttrNumber, InvalidAttrNumber,
                "idem_machines");
    check_table(found.transition_log, kLogColumns, lengthof(kLogColumns), InvalidAttrNumber, InvalidAttrNumber,
                "idem_transition_log");
    check_constraints(found.transition_log, 0, "idem_transition_log");
    found.token_secrets = member_relation(found, "idem_token_secrets");
    check_table(found.token_secrets, kSecretColumns, lengthof(kSecretColumns), InvalidAttrNumber, InvalidAttrNumber,
                "idem_token_secrets");
    check_secrets(found.token_secrets, "idem_token_secrets");
    if (!may_be_absent(found, "idem_api_keys")) {
        found.api_keys = member_relation(found, "idem_api_keys");
        check_table(found.api_keys, kApiKeyColumns, lengthof(kApiKeyColumns), InvalidAttrNumber, InvalidAttrNumber,
                    "idem_api_keys");
        check_secrets(found.api_keys, "idem_api_keys");
        find_labels(found, "idem_request_outcome", kRequestOutcomeNames, kRequestOutcomes, found.request_outcome_labels);
    }
    found.outbox = find_plain(found, "idem_outbox", kOutboxColumns, 5, 1);
    found.outbox_leases = find_plain(found, "idem_outbox_leases", kOutboxLeaseColumns, 1, InvalidAttrNumber);
    found.outbox_parked = find_plain(found, "idem_outbox_parked", kOutboxParkedColumns, 1, InvalidAttrNumber);
    found.ticket_type = type_named(found, "idem_ticket");
    found.key_info_type = type_named(found, "idem_key_info");
    find_labels(found, "idem_outcome", kOutcomeNames, core::kOutcomes, found.outcome_labels);
    find_labels(found, "idem_token_outcome", kTokenOutcomeNames, core::kTokenOutcomes, found.token_outcome_labels);
    return found;
}

} // namespace

const Catalog &catalog() {
    // Learn what other sessions changed, even where every lock we need is held already.
    AcceptInvalidationMessages();
    if (!cached_is_valid) {
        // A change that arrives while we look must not be lost. Where they never cease, do without the cache.
        uint64 seen = 0;
        for (int tries = 0; tries < kMostLooks && !cached_is_valid; tries++) {
            seen = changes_seen;
            cached = find_everything();
            cached_is_valid = seen == changes_seen;
        }
    }
    return cached;
}

namespace {

// `which`: where the relation's OID is in a catalog.
template <typename Which> Relation open_checked(LOCKMODE lock, Which which) {
    for (;; check_for_interrupts()) {
        const Oid wanted = which(catalog());
        if (!OidIsValid(wanted)) {
            cached_is_valid = false; // it may be there by now
            if (OidIsValid(which(catalog())))
                continue;
            ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                            errmsg("this function needs the SQL of version %s of extension \"idem\"", library_version()),
                            errdetail("The SQL in this database has version %s.", installed_version),
                            errhint("Run ALTER EXTENSION idem UPDATE.")));
        }
        Relation relation = relation_open(wanted, lock);
        if (which(catalog()) == wanted)
            return relation;
        relation_close(relation, lock);
    }
}

} // namespace

Relation open_member(Oid Catalog::*member, LOCKMODE lock) {
    return open_checked(lock, [member](const Catalog &found) { return found.*member; });
}

Relation open_member(Oid Catalog::*member, LOCKMODE lock, HeldLock *held) {
    const LocalTransactionId transaction = compat_local_transaction();
    if (held->transaction == transaction && held->relation == catalog().*member)
        return RelationIdGetRelation(held->relation);
    Relation relation = open_member(member, lock);
    // Once more for the whole transaction: the first would go with a subtransaction that is rolled back.
    const ResourceOwner owner = CurrentResourceOwner;
    CurrentResourceOwner = TopTransactionResourceOwner;
    LockRelationOid(RelationGetRelid(relation), lock);
    CurrentResourceOwner = owner;
    *held = {RelationGetRelid(relation), transaction};
    return relation;
}

Relation open_space(KeySpace space, LOCKMODE lock) {
    return open_checked(lock, [space](const Catalog &found) { return found.spaces[static_cast<int>(space)]; });
}

const char *table_of(KeySpace space) { return kSpaceTables[static_cast<int>(space)]; }

uint64 scopes_generation() { return generation_of_scopes; }

uint64 machines_generation() { return generation_of_machines; }
uint64 secrets_generation() { return generation_of_secrets; }

char *qualified_name(const char *object) { return quote_qualified_identifier(get_namespace_name(catalog().schema), object); }

Oid member_trigger_function(const char *name) {
    oidvector *no_arguments = buildoidvector(nullptr, 0);
    const Oid function = GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid, CStringGetDatum(name),
                                         PointerGetDatum(no_arguments), ObjectIdGetDatum(catalog().schema));
    if (!OidIsValid(function))
        not_as_installed(name, "The function does not exist.");
    return function;
}

const char *library_version() { return IDEM_VERSION; }

void catalog_initialize() { CacheRegisterRelcacheCallback(relation_changed, Datum{0}); }

} // namespace idem
