#include <idem/ids.hpp>

namespace idem {

namespace {

using detail::statement;

constexpr statement next_statement{"idem_next_id", "SELECT @idem@.idem_next_id()", true};
constexpr statement next_many_statement{
    "idem_next_ids", "SELECT @idem@.idem_next_id() FROM pg_catalog.generate_series(1::pg_catalog.int8, $1::pg_catalog.int8)",
    true};
constexpr statement uuid_statement{"idem_uuid_v7", "SELECT @idem@.idem_uuid_v7()", true};

} // namespace

std::int64_t next_id(const target &at) { return detail::to_integer(detail::call(at, {&next_statement, {}}).at(0).at(0)); }

std::vector<std::int64_t> next_ids(const target &at, std::size_t count) {
    std::vector<std::int64_t> ids;
    for (const detail::record &each : detail::call(at, {&next_many_statement, {std::to_string(count)}}))
        ids.push_back(detail::to_integer(each.at(0)));
    return ids;
}

std::string uuid_v7(const target &at) { return detail::call(at, {&uuid_statement, {}}).at(0).at(0).value(); }

} // namespace idem
