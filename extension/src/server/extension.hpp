// The extension in this database: its schema, its owner and its objects. They are found through pg_extension, never through
// search_path. Each backend caches the result until any function of the database changes. Dropping the extension, moving it to
// another schema or changing its owner changes all of its functions.
#pragma once

#include "server/pg.hpp"

namespace idem {

struct Extension {
    Oid oid;
    Oid schema;
    Oid owner; // internal SQL runs as this role
};

// Raises 55000 if the extension is not installed, or the library does not serve its version.
const Extension &extension();

// The name of one of the extension's objects, quoted and qualified with the extension's schema.
char *qualified_name(const char *object);

// One of the extension's trigger functions; 55000 if it does not exist.
Oid member_trigger_function(const char *name);

// One of the extension's types; 55000 if it does not exist.
Oid member_type(const char *name);

// One of the extension's enum types. Each is a constinit global of the file that returns its values.
struct EnumType {
    static constexpr int kMaxLabels = 8;
    const char *name;
    const char *labels[kMaxLabels];
    int count;
    // The cache, valid while `generation` is current.
    Oid type;
    Oid values[kMaxLabels];
    uint64 generation;
};
Oid type_of(EnumType &type);
void check_enum(EnumType &type); // reads the catalog again
Datum enum_value(EnumType &type, int label);

// Raises 55000: `object` is not as CREATE EXTENSION made it, or this version of the library needs another one. `why` is a
// sentence.
[[noreturn]] void raise_not_as_installed(const char *object, const char *why);

// Raises 40001 if the called function was dropped while the call waited, as by DROP EXTENSION and CREATE EXTENSION: the type of
// its result, which the caller's statement names, is gone.
void require_function(FunctionCallInfo fcinfo);

// Registers the invalidation callback. REQUIRES: called once per backend.
void extension_initialize();

} // namespace idem
