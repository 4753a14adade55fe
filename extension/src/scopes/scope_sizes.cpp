// idem_scope_sizes: how many keys each scope has, and how large they are.
#include "scopes/scope.hpp"
#include "server/arguments.hpp"
#include "server/other_role.hpp"
#include "server/row_answer.hpp"
#include "storage/key_space.hpp"

namespace {

using namespace idem;

constexpr Oid kTypes[] = {TEXTOID, INT8OID, INT8OID};

// Of the scopes that the role $1 may use. Windows of rings inherit from idem_keys. The family is that of family_of (scope.cpp).
constexpr const char *kSizes =
    "SELECT k.scope, k.keys, k.bytes FROM (SELECT i.scope, pg_catalog.count(*) AS keys,"
    " pg_catalog.sum(pg_catalog.pg_column_size(i.*)) AS bytes FROM %1$s i GROUP BY i.scope) k"
    " LEFT JOIN ONLY %2$s s ON s.scope OPERATOR(pg_catalog.=) k.scope"
    " LEFT JOIN ONLY %2$s f ON f.scope OPERATOR(pg_catalog.=) CASE WHEN pg_catalog.strpos(k.scope, '/')"
    " OPERATOR(pg_catalog.>) 1 THEN pg_catalog.split_part(k.scope, '/', 1) END"
    " WHERE coalesce(s.owner, f.owner, 0::pg_catalog.oid)::pg_catalog.oid OPERATOR(pg_catalog.=) 0::pg_catalog.oid"
    " OR pg_catalog.pg_has_role($1, coalesce(s.owner, f.owner)::pg_catalog.oid, 'USAGE') ORDER BY k.scope";

} // namespace

SQL_FUNCTION(idem_scope_sizes) {
    const AnswerRows result = begin_answer_rows(fcinfo, kTypes);
    Oid types[] = {OIDOID};
    Datum values[] = {ObjectIdGetDatum(GetUserId())};
    const char *statement = psprintf(kSizes, member_name(table_of(KeySpace::keys)), member_name(scopes_table));
    as_role(extension().owner, [&] {
        SPI_connect();
        SPI_execute_with_args(statement, lengthof(types), types, values, nullptr, false, 0);
        for (uint64 i = 0; i < SPI_processed; i++) {
            Datum columns[lengthof(kTypes)];
            bool nulls[lengthof(kTypes)];
            heap_deform_tuple(SPI_tuptable->vals[i], SPI_tuptable->tupdesc, columns, nulls);
            put_answer_row(result, columns, nulls);
        }
        SPI_finish();
    });
    return Datum{0};
}
