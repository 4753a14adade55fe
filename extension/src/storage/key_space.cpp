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
    {"completed_at", TIMESTAMPTZOID, kNullable},
    {"status_code", INT4OID, kNullable},
    {"response_omitted", BOOLOID, kNullable},
    {"owner", TEXTOID, kNullable},
    {"fingerprint", BYTEAOID, kNullable},
    {"steps", JSONBOID, kNullable},
    {"response", JSONBOID, kNullable},
};
static_assert(lengthof(kColumns) == KeyColumn::count);

constexpr Column kRateColumns[] = {
    {"expires_at", TIMESTAMPTZOID}, {"as_of", TIMESTAMPTZOID}, {"full_at", INT8OID}, {"scope", TEXTOID}, {"key", TEXTOID},
};
static_assert(lengthof(kRateColumns) == RateColumn::count);

constexpr Column kCounterColumns[] = {{"expires_at", TIMESTAMPTZOID}, {"hits", INT8OID}, {"scope", TEXTOID}, {"key", TEXTOID}};
static_assert(lengthof(kCounterColumns) == CounterColumn::count);

constexpr Member table_of_keys(const char *name) { return member_table(name, kColumns, KeyColumn::scope, KeyColumn::key, 1); }

// By KeySpace.
constinit Member tables[] = {table_of_keys("idem_keys"), table_of_keys("idem_tokens"), table_of_keys("idem_locks"),
                             member_table("idem_rates", kRateColumns, RateColumn::scope, RateColumn::key),
                             member_table("idem_counters", kCounterColumns, CounterColumn::scope, CounterColumn::key)};
static_assert(lengthof(tables) == lengthof(kKeySpaces));

} // namespace

Member member_window(const char *name) {
    Member member = table_of_keys(name);
    member.layout.parent = &table_of(KeySpace::keys).layout;
    return member;
}

Member &table_of(KeySpace space) { return tables[static_cast<int>(space)]; }

} // namespace idem
