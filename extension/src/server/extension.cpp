#include "server/extension.hpp"

#include "core/version.hpp"
#include "server/compat.hpp"
#include "server/library.hpp"

namespace idem {

namespace {

constinit Extension cached{};
constinit bool cached_is_valid = false;
constinit uint64 generation = 1; // increases with each invalidation; an EnumType of another generation is stale

void function_changed(Datum, SyscacheNumber, uint32) {
    cached_is_valid = false;
    generation++;
}

struct Installed {
    Extension extension;
    char version[NAMEDATALEN];
};

Installed read_pg_extension() {
    Installed found{};
    found.extension.oid = get_extension_oid("idem", true);
    Relation extensions = table_open(ExtensionRelationId, AccessShareLock);
    ScanKeyData entry;
    ScanKeyInit(&entry, Anum_pg_extension_oid, BTEqualStrategyNumber, F_OIDEQ, ObjectIdGetDatum(found.extension.oid));
    SysScanDesc scan = systable_beginscan(extensions, ExtensionOidIndexId, true, nullptr, 1, &entry);
    HeapTuple tuple = systable_getnext(scan);
    if (!HeapTupleIsValid(tuple))
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("extension \"idem\" is not installed in this database"), errhint("Run CREATE EXTENSION idem.")));
    auto *form = reinterpret_cast<Form_pg_extension>(GETSTRUCT(tuple));
    found.extension.schema = form->extnamespace;
    found.extension.owner = form->extowner;
    bool is_null;
    const Datum version = heap_getattr(tuple, Anum_pg_extension_extversion, RelationGetDescr(extensions), &is_null);
    strlcpy(found.version, is_null ? "" : TextDatumGetCString(version), sizeof found.version);
    systable_endscan(scan);
    table_close(extensions, AccessShareLock);
    return found;
}

void check_version(const Installed &installed) {
    if (!core::is_served(installed.version, library_version()))
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("the library of extension \"idem\" does not belong to the SQL in this database"),
                        errdetail("The library has version %s, the SQL %s. Their major versions must be the same.",
                                  library_version(), installed.version),
                        errhint("Install the library of the SQL's version, or run ALTER EXTENSION idem UPDATE; then start new "
                                "sessions, or restart the server if it preloads idem.")));
}

void find_labels(EnumType &type) {
    const uint64 generation_before = generation;
    type.type = member_type(type.name);
    for (int i = 0; i < type.count; i++) {
        type.values[i] =
            GetSysCacheOid2(ENUMTYPOIDNAME, Anum_pg_enum_oid, ObjectIdGetDatum(type.type), PointerGetDatum(type.labels[i]));
        if (!OidIsValid(type.values[i]))
            raise_not_as_installed(type.name, "A label of the type is missing.");
    }
    type.generation = generation_before;
}

} // namespace

const Extension &extension() {
    if (!cached_is_valid) {
        // After a change that arrives while the catalog is read, the next call reads the catalog again.
        const uint64 generation_before = generation;
        const Installed installed = read_pg_extension();
        check_version(installed);
        cached = installed.extension;
        cached_is_valid = generation_before == generation;
    }
    return cached;
}

char *qualified_name(const char *object) { return quote_qualified_identifier(get_namespace_name(extension().schema), object); }

Oid member_trigger_function(const char *name) {
    oidvector *no_arguments = buildoidvector(nullptr, 0);
    const Oid function = GetSysCacheOid3(PROCNAMEARGSNSP, Anum_pg_proc_oid, CStringGetDatum(name),
                                         PointerGetDatum(no_arguments), ObjectIdGetDatum(extension().schema));
    if (!OidIsValid(function))
        raise_not_as_installed(name, "The function does not exist.");
    return function;
}

Oid member_type(const char *name) {
    const Oid type =
        GetSysCacheOid2(TYPENAMENSP, Anum_pg_type_oid, PointerGetDatum(name), ObjectIdGetDatum(extension().schema));
    if (!OidIsValid(type))
        raise_not_as_installed(name, "The type does not exist.");
    return type;
}

Oid type_of(EnumType &type) {
    if (type.generation != generation)
        find_labels(type);
    return type.type;
}

void check_enum(EnumType &type) { find_labels(type); }

Datum enum_value(EnumType &type, int label) {
    (void)type_of(type);
    return ObjectIdGetDatum(type.values[label]);
}

void raise_not_as_installed(const char *object, const char *why) {
    const Installed installed = read_pg_extension();
    if (strcmp(installed.version, library_version()) != 0)
        ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                        errmsg("\"%s\" of extension \"idem\" is not what this version of the library needs", object),
                        errdetail("The library has version %s, the extension's SQL in this database %s. %s", library_version(),
                                  installed.version, why),
                        errhint("Run ALTER EXTENSION idem UPDATE, or install the library that belongs to the SQL and restart "
                                "the server.")));
    ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                    errmsg("\"%s\" of extension \"idem\" is not the one that was installed", object), errdetail("%s", why),
                    errhint("Restore it as CREATE EXTENSION idem made it, or drop and create the extension.")));
    pg_unreachable();
}

void require_function(FunctionCallInfo fcinfo) {
    if (!SearchSysCacheExists1(PROCOID, ObjectIdGetDatum(fcinfo->flinfo->fn_oid)))
        ereport(ERROR, (errcode(ERRCODE_T_R_SERIALIZATION_FAILURE),
                        errmsg("could not return the result, as extension \"idem\" was dropped and created again"),
                        errdetail("The call waited for that, and the type of its result is gone."),
                        errhint("The transaction might succeed if retried.")));
}

void extension_initialize() { CacheRegisterSyscacheCallback(PROCOID, function_changed, Datum{0}); }

} // namespace idem
