#include "storage/internal_sql.hpp"

#include "server/extension.hpp"
#include "server/other_role.hpp"

namespace idem {

bool run_as_owner(const char *statement, const SqlArgument *arguments, int count, Datum *result) {
    auto *types = static_cast<Oid *>(palloc(sizeof(Oid) * Max(count, 1)));
    auto *values = static_cast<Datum *>(palloc(sizeof(Datum) * Max(count, 1)));
    auto *nulls = static_cast<char *>(palloc(Max(count, 1)));
    for (int i = 0; i < count; i++) {
        types[i] = arguments[i].type;
        values[i] = arguments[i].value;
        nulls[i] = arguments[i].is_null ? 'n' : ' ';
    }
    bool has_row = false;
    as_role(extension().owner, [&] {
        SPI_connect();
        const int status = SPI_execute_with_args(statement, count, types, values, nulls, false, 0);
        if (status < 0)
            elog(ERROR, "internal statement failed: %s", SPI_result_code_string(status));
        static_assert(SIZEOF_DATUM == 8, "an int8 result must not point into memory that SPI_finish frees");
        has_row = SPI_processed > 0;
        if (has_row && result != nullptr) {
            bool is_null;
            *result = SPI_getbinval(SPI_tuptable->vals[0], SPI_tuptable->tupdesc, 1, &is_null);
        }
        SPI_finish();
    });
    return has_row;
}

void run_as_caller(const char *statement) {
    SPI_connect();
    const int status = SPI_execute(statement, false, 0);
    if (status < 0)
        elog(ERROR, "internal statement failed: %s", SPI_result_code_string(status));
    SPI_finish();
}

} // namespace idem
