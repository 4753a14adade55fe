#include "rows/row_name.hpp"

#include "rows/unique_key.hpp"

namespace idem {

namespace {

// Output functions of the server's own types and of enums are the server's.
bool is_printable(Oid column_type) {
    const Oid type = getBaseType(column_type);
    return type < FirstNormalObjectId || type_is_enum(type);
}

} // namespace

const char *row_name(Relation table, HeapTuple row) {
    UniqueKey key;
    if (InNoForceRLSOperation() || !find_main_key(table, &key))
        return "";
    StringInfoData names, values;
    initStringInfo(&names);
    initStringInfo(&values);
    for (int i = 0; i < key.count; i++) {
        Form_pg_attribute column = column_form(table, key.columns[i]);
        if (!may_read(table, key.columns[i]) || !is_printable(column->atttypid))
            continue;
        bool is_null, is_varlena;
        const Datum value = heap_getattr(row, key.columns[i], RelationGetDescr(table), &is_null);
        Oid output;
        getTypeOutputInfo(column->atttypid, &output, &is_varlena);
        const char *separator = names.len > 0 ? ", " : "";
        appendStringInfo(&names, "%s%s", separator, quote_identifier(NameStr(column->attname)));
        appendStringInfo(&values, "%s%s", separator, is_null ? "null" : OidOutputFunctionCall(output, value));
    }
    return names.len == 0 ? "" : psprintf(" The row has the key (%s)=(%s).", names.data, values.data);
}

} // namespace idem
