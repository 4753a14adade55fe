// The extension in this database: where its objects are, and who owns them. Found through pg_extension, never through
// search_path. The answer is cached per backend and thrown away whenever a function of the database changes, as all of the
// extension's do when it is dropped, moved or given to another role.
#pragma once

#include "server/pg.hpp"

namespace idem {

struct Extension {
    Oid oid;
    Oid schema;
    Oid owner; // internal SQL runs as this role
};

// Raises 55000 where the extension is not installed.
const Extension &extension();

// Name of one of the extension's objects, quoted and qualified with the schema that the extension lives in.
char *qualified_name(const char *object);

// One of the extension's trigger functions.
Oid member_trigger_function(const char *name);

// One of the extension's types.
Oid member_type(const char *name);

// One of its enum types. Each is a constinit global of the file that answers with it.
struct EnumType {
    static constexpr int kMostLabels = 8;
    const char *name;
    const char *labels[kMostLabels];
    int count;
    // What is cached, as of `generation`.
    Oid type;
    Oid values[kMostLabels];
    uint64 generation;
};
Oid type_of(EnumType &type);
void check_enum(EnumType &type); // as it is now, not as it is cached
Datum enum_value(EnumType &type, int label);

// The version of the library, which may differ from that of the SQL installed in this database.
const char *library_version();

// 55000: `object` is not what CREATE EXTENSION made, or what this version of the library needs. `why` is a sentence.
[[noreturn]] void raise_not_as_installed(const char *object, const char *why);

// Registers the invalidation callback; once per backend.
void extension_initialize();

} // namespace idem
