#include "storage/key_index.hpp"

#include "server/bytes.hpp"
#include "server/compat.hpp"

namespace idem {

namespace {

// After more steps along the leaves, a descent is faster.
constexpr int kMaxSteps = 2;

bool is_plain(Datum value) {
    auto *bytes = DatumGetPointer(value);
    return VARATT_IS_1B(bytes) ? !VARATT_IS_1B_E(bytes) : VARATT_IS_4B_U(bytes);
}

// Returns the result of bttextcmp in the "C" collation, without a lookup of the collation. For a compressed entry, it calls
// bttextcmp.
Datum compare_bytewise(PG_FUNCTION_ARGS) {
    const Datum left_datum = PG_GETARG_DATUM(0);
    const Datum right_datum = PG_GETARG_DATUM(1);
    if (!is_plain(left_datum) || !is_plain(right_datum))
        return DirectFunctionCall2Coll(bttextcmp, C_COLLATION_OID, left_datum, right_datum);
    const void *left = DatumGetPointer(left_datum);
    const void *right = DatumGetPointer(right_datum);
    PG_RETURN_INT32(compare_bytes(left, right));
}

void prepare_column(ScanKey column, AttrNumber number) {
    memset(column, 0, sizeof *column);
    column->sk_attno = number;
    column->sk_collation = C_COLLATION_OID;
    column->sk_func.fn_addr = compare_bytewise;
    column->sk_func.fn_nargs = 2;
    column->sk_func.fn_strict = true;
}

// Whether the key sorts after the leaf's last entry. The leaf then has a right neighbour.
bool is_beyond(IndexCursor *cursor, Page page) {
    return !P_RIGHTMOST(BTPageGetOpaque(page)) && _bt_compare(cursor->index, &cursor->search, page, P_HIKEY) > 0;
}

// Locks the leaf of the last search, or one of the next kMaxSteps leaves, if the key belongs there. REQUIRES: the key does not
// sort before the previous key.
bool step_to_leaf(IndexCursor *cursor) {
    if (!BufferIsValid(cursor->leaf))
        return false;
    _bt_lockbuf(cursor->index, cursor->leaf, BT_READ);
    for (int steps = 0;; steps++) {
        Page page = BufferGetPage(cursor->leaf);
        BTPageOpaque opaque = BTPageGetOpaque(page);
        if (!P_ISLEAF(opaque) || P_IGNORE(opaque))
            break;
        if (!is_beyond(cursor, page))
            return true;
        if (steps == kMaxSteps)
            break;
        cursor->leaf = _bt_relandgetbuf(cursor->index, cursor->leaf, opaque->btpo_next, BT_READ);
    }
    _bt_relbuf(cursor->index, cursor->leaf);
    cursor->leaf = InvalidBuffer;
    return false;
}

// Locks the leaf on which the key's entries belong. False: the index is empty.
bool descend_to_leaf(IndexCursor *cursor) {
    _bt_freestack(compat_bt_search(cursor->table, cursor->index, &cursor->search, &cursor->leaf));
    return BufferIsValid(cursor->leaf);
}

// The column that starts at or after `at`, or nullptr if it is not stored plain. Moves `at` behind the column.
const char *plain_column(const char *&at) {
    const char *column = reinterpret_cast<const char *>(att_align_pointer(at, TYPALIGN_INT, -1, at));
    if (!is_plain(PointerGetDatum(column)))
        return nullptr;
    at = column + VARSIZE_ANY(column);
    return column;
}

// Compares the key with an entry of a leaf. Returns the result of _bt_compare, and calls it for compressed columns.
int compare_entry(IndexCursor *cursor, Page page, OffsetNumber at) {
    auto *entry = reinterpret_cast<IndexTuple>(PageGetItem(page, PageGetItemId(page, at)));
    const char *data = reinterpret_cast<const char *>(entry) + IndexInfoFindDataOffset(entry->t_info);
    const char *scope = plain_column(data);
    const char *key = scope != nullptr ? plain_column(data) : nullptr;
    if (key == nullptr)
        return _bt_compare(cursor->index, &cursor->search, page, at);
    const int order = compare_bytes(scope, cursor->scope);
    return -(order != 0 ? order : compare_bytes(key, cursor->key));
}

// The first entry that does not sort before the key; one past the last entry if all do.
OffsetNumber first_not_before(IndexCursor *cursor, Page page) {
    OffsetNumber low = P_FIRSTDATAKEY(BTPageGetOpaque(page));
    OffsetNumber high = PageGetMaxOffsetNumber(page) + 1;
    while (low < high) {
        const OffsetNumber middle = low + (high - low) / 2;
        if (compare_entry(cursor, page, middle) > 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

void add_entry(IndexEntries *entries, ItemPointer row) {
    if (entries->count == IndexEntries::kMaxRows)
        entries->overflow = true;
    else
        entries->rows[entries->count++] = *row;
}

void collect_entries(IndexCursor *cursor, Page page, IndexEntries *entries) {
    const OffsetNumber last = PageGetMaxOffsetNumber(page);
    OffsetNumber at = first_not_before(cursor, page);
    for (; at <= last && compare_entry(cursor, page, at) == 0; at++) {
        ItemId item = PageGetItemId(page, at);
        if (ItemIdIsDead(item))
            continue;
        auto *entry = reinterpret_cast<IndexTuple>(PageGetItem(page, item));
        if (!BTreeTupleIsPosting(entry)) {
            add_entry(entries, &entry->t_tid);
            continue;
        }
        for (int i = 0; i < BTreeTupleGetNPosting(entry); i++)
            add_entry(entries, BTreeTupleGetPostingN(entry, i));
    }
    // The key's entries may continue on the next page if the high key equals the key.
    if (at > last && !P_RIGHTMOST(BTPageGetOpaque(page)) && _bt_compare(cursor->index, &cursor->search, page, P_HIKEY) == 0)
        entries->overflow = true;
}

} // namespace

void use_bytewise_comparison(Relation index) {
    for (AttrNumber column = 1; column <= 2; column++)
        index_getprocinfo(index, column, BTORDER_PROC)->fn_addr = compare_bytewise;
}

void open_cursor(IndexCursor *cursor, Relation table, Relation index) {
    cursor->table = table;
    cursor->index = index;
    cursor->leaf = InvalidBuffer;
    BTScanInsert search = &cursor->search;
    _bt_metaversion(index, &search->heapkeyspace, &search->allequalimage);
    search->anynullkeys = false;
    search->nextkey = false;
    compat_search_forward(search);
    search->scantid = nullptr;
    search->keysz = 2;
    prepare_column(&search->scankeys[0], 1);
    prepare_column(&search->scankeys[1], 2);
}

void find_entries(IndexCursor *cursor, const text *scope, const text *key, IndexEntries *entries) {
    cursor->scope = scope;
    cursor->key = key;
    cursor->search.scankeys[0].sk_argument = PointerGetDatum(scope);
    cursor->search.scankeys[1].sk_argument = PointerGetDatum(key);
    entries->count = 0;
    entries->overflow = false;
    pgstat_count_index_scan(cursor->index);
    if (!step_to_leaf(cursor) && !descend_to_leaf(cursor))
        return;
    collect_entries(cursor, BufferGetPage(cursor->leaf), entries);
    _bt_unlockbuf(cursor->index, cursor->leaf);
}

void close_cursor(IndexCursor *cursor) {
    if (BufferIsValid(cursor->leaf))
        ReleaseBuffer(cursor->leaf);
    cursor->leaf = InvalidBuffer;
}

} // namespace idem
