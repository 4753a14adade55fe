#include "storage/key_space.hpp"

namespace idem {

namespace {

constexpr Column kColumns[] = {
    {"created_at", TIMESTAMPTZOID},
    {"expires_at", TIMESTAMPTZOID},
    {"attempt", INT4OID},
    {"state", CHAROID},
    {"scope", TEXTOID},
    {"key", TEXTOID},
    {"lease_until", TIMESTAMPTZOID, kNullable},
    {"fence", INT8OID, kNullable},
    {"status_code", INT4OID, kNullable},
    {"response_omitted", BOOLOID, kNullable},
    {"owner", TEXTOID, kNullable},
    {"fingerprint", BYTEAOID, kNullable},
    {"recovery_point", TEXTOID, kNullable},
    {"response", JSONBOID, kNullable},
};
static_assert(lengthof(kColumns) == KeyColumn::count);

constexpr Member space(const char *name) { return member_table(name, kColumns, KeyColumn::scope, KeyColumn::key, 1); }

} // namespace

constinit Member key_tables[kKeySpaces] = {space("idem_keys"), space("idem_tokens"), space("idem_locks"), space("idem_rates")};

} // namespace idem
