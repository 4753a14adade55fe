#include "storage/key_index.hpp"

#include "server/bytes.hpp"
#include "server/compat.hpp"
#include "server/settings.hpp"

namespace idem {

namespace {

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

IndexTuple entry_at(Page page, OffsetNumber at) {
    return reinterpret_cast<IndexTuple>(PageGetItem(page, PageGetItemId(page, at)));
}

const char *data_of(IndexTuple entry) { return reinterpret_cast<const char *>(entry) + IndexInfoFindDataOffset(entry->t_info); }

// Compares the key with a pivot, which is an entry of an internal page or a high key. As _bt_compare: a column that was
// truncated is less than any value, and so is a row's position that was truncated.
int compare_pivot(IndexCursor *cursor, Page page, OffsetNumber at) {
    IndexTuple pivot = entry_at(page, at);
    const int columns = BTreeTupleGetNAtts(pivot, cursor->index);
    if (columns == 0)
        return 1;
    int order;
    if (!cursor->wanted.compare(data_of(pivot), columns, &order))
        return _bt_compare(cursor->index, &cursor->search, page, at);
    return order != 0 ? order : BTreeTupleGetHeapTID(pivot) == nullptr;
}

// Whether the key sorts after the page's last entry. The page then has a right neighbour.
bool is_beyond(IndexCursor *cursor, Page page) {
    return !P_RIGHTMOST(BTPageGetOpaque(page)) && compare_pivot(cursor, page, P_HIKEY) > 0;
}

// The page, or a right neighbour, where the key belongs: the page may have been split, or deleted, since its parent was read.
Buffer move_right(IndexCursor *cursor, Buffer buffer) {
    for (;;) {
        Page page = BufferGetPage(buffer);
        BTPageOpaque opaque = BTPageGetOpaque(page);
        if (P_RIGHTMOST(opaque) && P_IGNORE(opaque))
            elog(ERROR, "fell off the end of index \"%s\"", RelationGetRelationName(cursor->index));
        if (!P_IGNORE(opaque) && !is_beyond(cursor, page))
            return buffer;
        buffer = _bt_relandgetbuf(cursor->index, buffer, opaque->btpo_next, BT_READ);
    }
}

// The first offset from `low` on, and before `high`, of which `is_before_key` is false; `high` if there is none.
template <typename IsBeforeKey> OffsetNumber first_not_before(OffsetNumber low, OffsetNumber high, IsBeforeKey is_before_key) {
    while (low < high) {
        const OffsetNumber middle = low + (high - low) / 2;
        if (is_before_key(middle))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// The entry of an internal page that is the first not before the key, or one past the last. The key belongs in the child of the
// entry before it. The first entry sorts before every key.
OffsetNumber entry_behind_child(IndexCursor *cursor, Page page) {
    return first_not_before(P_FIRSTDATAKEY(BTPageGetOpaque(page)) + 1, PageGetMaxOffsetNumber(page) + 1,
                            [&](OffsetNumber at) { return compare_pivot(cursor, page, at) > 0; });
}

BlockNumber child_before(Page page, OffsetNumber at) { return BTreeTupleGetDownLink(entry_at(page, at - 1)); }

BlockNumber child_for(IndexCursor *cursor, Page page) { return child_before(page, entry_behind_child(cursor, page)); }

// Locks the page of that level on which the key belongs, or the root if it is below that level. InvalidBuffer: the index is
// empty. Leaves are level 0.
Buffer descend(IndexCursor *cursor, uint32 level) {
    Buffer buffer = compat_bt_getroot(cursor->table, cursor->index);
    while (BufferIsValid(buffer)) {
        buffer = move_right(cursor, buffer);
        Page page = BufferGetPage(buffer);
        if (BTPageGetOpaque(page)->btpo_level <= level)
            break;
        buffer = _bt_relandgetbuf(cursor->index, buffer, child_for(cursor, page), BT_READ);
    }
    return buffer;
}

// Locks the leaf on which the key's entries belong. False: the index is empty.
bool descend_to_leaf(IndexCursor *cursor) {
    if (cursor->is_searchable)
        cursor->leaf = descend(cursor, 0);
    else
        compat_bt_search(cursor->table, cursor->index, &cursor->search, &cursor->leaf);
    return BufferIsValid(cursor->leaf);
}

// Compares the key with an entry of a leaf. Returns the result of _bt_compare, and calls it for compressed columns.
int compare_entry(IndexCursor *cursor, Page page, OffsetNumber at) {
    IndexTuple entry = entry_at(page, at);
    int order;
    return cursor->wanted.compare(data_of(entry), 2, &order) ? order : _bt_compare(cursor->index, &cursor->search, page, at);
}

// The first entry that does not sort before the key; one past the last entry if all do.
OffsetNumber first_not_before(IndexCursor *cursor, Page page) {
    return first_not_before(P_FIRSTDATAKEY(BTPageGetOpaque(page)), PageGetMaxOffsetNumber(page) + 1,
                            [&](OffsetNumber at) { return compare_entry(cursor, page, at) > 0; });
}

void add_entry(IndexEntries *entries, ItemPointer row) {
    if (entries->count == IndexEntries::kMaxRows)
        entries->overflow = true;
    else
        entries->rows[entries->count++] = *row;
}

// `at`: the first entry that does not sort before the key.
void collect_entries(IndexCursor *cursor, Page page, OffsetNumber at, IndexEntries *entries) {
    const OffsetNumber last = PageGetMaxOffsetNumber(page);
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
    if (at > last && !P_RIGHTMOST(BTPageGetOpaque(page)) && compare_pivot(cursor, page, P_HIKEY) == 0)
        entries->overflow = true;
}

void aim_at(IndexCursor *cursor, const text *scope, const text *key) {
    cursor->wanted.set(scope, key);
    cursor->search.scankeys[0].sk_argument = PointerGetDatum(scope);
    cursor->search.scankeys[1].sk_argument = PointerGetDatum(key);
}

void release(Buffer *page) {
    if (BufferIsValid(*page))
        ReleaseBuffer(*page);
    *page = InvalidBuffer;
}

void clear(IndexEntries *entries) {
    entries->count = 0;
    entries->overflow = false;
}

// --- Groups of keys ----------------------------------------------------------------------------------------------------------

// Locks the last group's parent page if the key belongs there, too.
bool lock_parent(IndexCursor *cursor) {
    if (!BufferIsValid(cursor->parent))
        return false;
    _bt_lockbuf(cursor->index, cursor->parent, BT_READ);
    Page page = BufferGetPage(cursor->parent);
    BTPageOpaque opaque = BTPageGetOpaque(page);
    if (opaque->btpo_level == 1 && !P_IGNORE(opaque) && !is_beyond(cursor, page))
        return true;
    _bt_relbuf(cursor->index, cursor->parent);
    cursor->parent = InvalidBuffer;
    return false;
}

// Whether the key belongs in the child of the previous key, which does not sort behind it.
bool is_in_last_child(IndexCursor *cursor, Page page) {
    if (cursor->behind_child == InvalidOffsetNumber || PageGetLSN(page) != cursor->parent_lsn)
        return false;
    return cursor->behind_child > PageGetMaxOffsetNumber(page) || compare_pivot(cursor, page, cursor->behind_child) <= 0;
}

// The block of the leaf on which the key belongs, if nothing changes before it is read. InvalidBlockNumber: there is none.
BlockNumber find_leaf_block(IndexCursor *cursor) {
    if (!lock_parent(cursor)) {
        cursor->parent = descend(cursor, 1);
        cursor->behind_child = InvalidOffsetNumber;
    }
    if (!BufferIsValid(cursor->parent))
        return InvalidBlockNumber;
    Page page = BufferGetPage(cursor->parent);
    if (P_ISLEAF(BTPageGetOpaque(page))) {
        cursor->child = BufferGetBlockNumber(cursor->parent);
    } else if (!is_in_last_child(cursor, page)) {
        cursor->behind_child = entry_behind_child(cursor, page);
        cursor->child = child_before(page, cursor->behind_child);
        cursor->parent_lsn = PageGetLSN(page);
    }
    _bt_unlockbuf(cursor->index, cursor->parent);
    return cursor->child;
}

constexpr int kLine = 64; // bytes that the processor fetches from memory together

void prefetch(const char *from, Size bytes) {
    for (Size at = 0; at < bytes; at += kLine)
        __builtin_prefetch(from + at);
}

// The header and line pointers of a page of some 200 entries, and its end, which a search reads first.
void prefetch_search(Page page) {
    prefetch(page, 12 * kLine);
    __builtin_prefetch(page + BLCKSZ - 1);
}

void release_group(IndexCursor *cursor) {
    for (Buffer &leaf : cursor->group)
        release(&leaf);
}

// The search for one key of a group.
struct Search {
    const text *key;
    Buffer leaf;    // or InvalidBuffer: another way has to find the key
    bool owns_lock; // the previous key is on another leaf
    Page page;
    OffsetNumber low;
    OffsetNumber high;

    OffsetNumber middle() const { return low + (high - low) / 2; }
    bool is_over() const { return low >= high; }
};

// Pins the leaves of the group. Their memory is on its way when this returns.
void pin_leaves(IndexCursor *cursor, const text *scope, const text *const *keys, int count, Search *searches) {
    BlockNumber previous = InvalidBlockNumber;
    for (int i = 0; i < count; i++) {
        Search *search = &searches[i];
        *search = {keys[i], InvalidBuffer, false, nullptr, 0, 0};
        aim_at(cursor, scope, keys[i]);
        const BlockNumber block = find_leaf_block(cursor);
        if (block == InvalidBlockNumber)
            continue;
        search->owns_lock = block != previous;
        if (search->owns_lock)
            cursor->group[i] = ReadBuffer(cursor->index, block);
        search->leaf = search->owns_lock ? cursor->group[i] : searches[i - 1].leaf; // the index does not become empty
        search->page = BufferGetPage(search->leaf);
        if (search->owns_lock)
            prefetch_search(search->page);
        previous = block;
    }
}

// Locks the leaves from left to right, as every other holder of several does. A key whose leaf was split or deleted meanwhile
// counts as one with too many entries.
void lock_leaves(IndexCursor *cursor, const text *scope, int count, Search *searches, IndexEntries *entries) {
    for (int i = 0; i < count; i++) {
        Search *search = &searches[i];
        if (!BufferIsValid(search->leaf))
            continue;
        if (search->owns_lock) {
            _bt_lockbuf(cursor->index, search->leaf, BT_READ);
            _bt_checkpage(cursor->index, search->leaf);
        }
        BTPageOpaque opaque = BTPageGetOpaque(search->page);
        aim_at(cursor, scope, search->key);
        if (P_ISLEAF(opaque) && !P_IGNORE(opaque) && !is_beyond(cursor, search->page)) {
            search->low = P_FIRSTDATAKEY(opaque);
            search->high = PageGetMaxOffsetNumber(search->page) + 1;
        } else {
            entries[i].overflow = true;
        }
    }
}

void prefetch_middle(const Search &search) {
    constexpr Size kTypicalEntry = 56;
    prefetch(reinterpret_cast<const char *>(entry_at(search.page, search.middle())), kTypicalEntry);
}

// Finds the first entry of each key that does not sort before it.
void search_together(IndexCursor *cursor, const text *scope, int count, Search *searches) {
    bool is_over = false;
    while (!is_over) {
        is_over = true;
        for (int i = 0; i < count; i++)
            if (!searches[i].is_over())
                prefetch_middle(searches[i]);
        for (int i = 0; i < count; i++) {
            Search *search = &searches[i];
            if (search->is_over())
                continue;
            const OffsetNumber middle = search->middle();
            aim_at(cursor, scope, search->key);
            if (compare_entry(cursor, search->page, middle) > 0)
                search->low = middle + 1;
            else
                search->high = middle;
            is_over &= search->is_over();
        }
    }
}

// The column that starts at or after `at`, or nullptr if it is not stored plain. Moves `at` behind the column.
const char *plain_column(const char *&at) {
    const char *column = reinterpret_cast<const char *>(att_align_pointer(at, TYPALIGN_INT, -1, at));
    if (!is_plain(PointerGetDatum(column)))
        return nullptr;
    at = column + VARSIZE_ANY(column);
    return column;
}

} // namespace

void StoredKey::set(const text *new_scope, const text *new_key) {
    key = new_key;
    if (scope == new_scope)
        return;
    scope = new_scope;
    const Size bytes = VARSIZE_ANY_EXHDR(scope);
    scope_size = bytes + VARHDRSZ_SHORT <= VARATT_SHORT_MAX ? bytes + VARHDRSZ_SHORT : 0;
    if (scope_size == 0)
        return;
    SET_VARSIZE_SHORT(scope_column, scope_size);
    memcpy(scope_column + VARHDRSZ_SHORT, VARDATA_ANY(scope), bytes);
}

bool StoredKey::compare(const char *stored, int columns, int *order) const {
    if (scope_size != 0 && *stored == *scope_column && memcmp(stored, scope_column, scope_size) == 0) {
        stored += scope_size; // a key with a short header follows without padding, one with a long header is aligned below
    } else {
        const char *column = plain_column(stored);
        if (column == nullptr)
            return false;
        *order = compare_bytes(scope, column);
        if (*order != 0)
            return true;
    }
    if (columns == 1) {
        *order = 1;
        return true;
    }
    const char *column = plain_column(stored);
    if (column == nullptr)
        return false;
    *order = compare_bytes(key, column);
    return true;
}

void open_cursor(IndexCursor *cursor, Relation table, Relation index) {
    cursor->table = table;
    cursor->index = index;
    cursor->leaf = InvalidBuffer;
    cursor->parent = InvalidBuffer;
    cursor->behind_child = InvalidOffsetNumber;
    for (Buffer &leaf : cursor->group)
        leaf = InvalidBuffer;
    cursor->wanted.scope = nullptr;
    BTScanInsert search = &cursor->search;
    _bt_metaversion(index, &search->heapkeyspace, &search->allequalimage);
    cursor->is_searchable = search->heapkeyspace && settings::index_descent;
    search->anynullkeys = false;
    search->nextkey = false;
    compat_search_forward(search);
    search->scantid = nullptr;
    search->keysz = 2;
    prepare_column(&search->scankeys[0], 1);
    prepare_column(&search->scankeys[1], 2);
}

void find_entries(IndexCursor *cursor, const text *scope, const text *key, IndexEntries *entries) {
    aim_at(cursor, scope, key);
    clear(entries);
    pgstat_count_index_scan(cursor->index);
    release(&cursor->leaf);
    if (!descend_to_leaf(cursor))
        return;
    Page page = BufferGetPage(cursor->leaf);
    collect_entries(cursor, page, first_not_before(cursor, page), entries);
    _bt_unlockbuf(cursor->index, cursor->leaf);
}

void find_entries_of_group(IndexCursor *cursor, const text *scope, const text *const *keys, int count, IndexEntries *entries) {
    Search searches[kKeysPerGroup];
    release_group(cursor);
    for (int i = 0; i < count; i++) {
        clear(&entries[i]);
        entries[i].overflow = !cursor->is_searchable;
        pgstat_count_index_scan(cursor->index);
    }
    if (!cursor->is_searchable)
        return;
    pin_leaves(cursor, scope, keys, count, searches);
    lock_leaves(cursor, scope, count, searches, entries);
    search_together(cursor, scope, count, searches);
    for (int i = 0; i < count; i++)
        if (BufferIsValid(searches[i].leaf) && !entries[i].overflow) {
            aim_at(cursor, scope, keys[i]);
            collect_entries(cursor, searches[i].page, searches[i].low, &entries[i]);
        }
    for (int i = 0; i < count; i++)
        if (searches[i].owns_lock)
            _bt_unlockbuf(cursor->index, searches[i].leaf);
}

void close_cursor(IndexCursor *cursor) {
    release(&cursor->leaf);
    release(&cursor->parent);
    release_group(cursor);
}

} // namespace idem
