#include "rows/equal_hash.hpp"

namespace idem {

namespace {

// Both are requested, as the type cache then withholds a hash function that disagrees with the default equality.
const TypeCacheEntry *type_entry(Oid type) {
    return lookup_type_cache(getBaseType(type), TYPECACHE_EQ_OPR | TYPECACHE_HASH_EXTENDED_PROC_FINFO);
}

bool default_implies(Oid type) { return implies_equal_hashes(type, type_entry(type)->eq_opr); }

bool range_implies(Oid range) {
    HeapTuple tuple = SearchSysCache1(RANGETYPE, ObjectIdGetDatum(range));
    if (!HeapTupleIsValid(tuple))
        elog(ERROR, "cache lookup failed for range type %u", range);
    const auto *form = reinterpret_cast<Form_pg_range>(GETSTRUCT(tuple));
    const Oid subtype = form->rngsubtype, operator_class = form->rngsubopc;
    ReleaseSysCache(tuple);
    const Oid compared = get_opclass_input_type(operator_class);
    return implies_equal_hashes(
        subtype, get_opfamily_member(get_opclass_family(operator_class), compared, compared, BTEqualStrategyNumber));
}

bool columns_imply(Oid row_type) {
    TupleDesc columns = lookup_rowtype_tupdesc(row_type, -1);
    bool all = true;
    for (int i = 0; i < columns->natts && all; i++) {
        Form_pg_attribute column = TupleDescAttr(columns, i);
        all = column->attisdropped || default_implies(column->atttypid);
    }
    ReleaseTupleDesc(columns);
    return all;
}

// Elements, bounds and fields are compared and hashed by the functions of their own types.
bool parts_imply(Oid type) {
    const Oid element = get_element_type(type);
    if (OidIsValid(element))
        return default_implies(element);
    switch (get_typtype(type)) {
    case TYPTYPE_RANGE:
        return range_implies(type);
    case TYPTYPE_MULTIRANGE:
        return range_implies(get_multirange_range(type));
    case TYPTYPE_COMPOSITE:
        return columns_imply(type);
    default:
        return true;
    }
}

} // namespace

const FmgrInfo *hash_function(Oid type) { return &type_entry(type)->hash_extended_proc_finfo; }

bool implies_equal_hashes(Oid type, Oid equality) {
    check_stack_depth();
    return get_op_opfamily_strategy(equality, type_entry(type)->hash_opf) == HTEqualStrategyNumber &&
           parts_imply(getBaseType(type));
}

} // namespace idem
