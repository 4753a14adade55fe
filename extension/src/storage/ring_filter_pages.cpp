#include "storage/ring_filter_pages.hpp"

#include "server/bytes.hpp"
#include "server/compat.hpp"
#include "server/random.hpp"

namespace idem {

namespace {

// At the start of each page, so that one read of memory has it all. `pages` and `seed`: the filter's, when the page was last
// written. A reader that remembers fewer pages, or another seed, would search for a key in the wrong place. `checksums`: of
// each block of positions, CRC-32C; on page 0, of the head.
struct PageTag {
    static constexpr int kMostBlocks = 15;
    uint32 magic;
    BlockNumber block;
    uint32 pages;
    uint32 seed;
    pg_crc32c checksums[kMostBlocks];
};
constexpr uint32 kMagic = 0x1de3f117;
constexpr int kContentsAt = MAXALIGN(MAXALIGN(SizeOfPageHeaderData) + sizeof(PageTag));
constexpr int kPageBytes = BLCKSZ - kContentsAt;
static_assert(kPageBytes / core::kPositionsPerBlock <= PageTag::kMostBlocks);

struct StoredSlice {
    SliceState state;
    uint64 token; // not 0: the slice is being written, or was taken out
};

// Page 0.
struct Head {
    uint32 version;
    uint32 position_bytes;
    uint32 pages;
    uint64 seed;
    StoredSlice slices[core::kMaxFilterWindows];
};
constexpr uint32 kVersion = 1;
static_assert(sizeof(Head) <= kPageBytes);

PageTag *tag_of(Page page) { return reinterpret_cast<PageTag *>(PageGetContents(page)); }

// The head, or the positions.
unsigned char *contents_of(Page page) { return reinterpret_cast<unsigned char *>(page) + kContentsAt; }

Head *head_of(Page page) { return reinterpret_cast<Head *>(contents_of(page)); }

pg_crc32c checksum_of(const unsigned char *bytes, int size) {
    pg_crc32c checksum;
    INIT_CRC32C(checksum);
    COMP_CRC32C(checksum, bytes, static_cast<size_t>(size));
    FIN_CRC32C(checksum);
    return checksum;
}

bool has_tag(Page page, BlockNumber block) {
    return !PageIsNew(page) && tag_of(page)->magic == kMagic && tag_of(page)->block == block;
}

bool is_block_intact(Page page, const core::FilterShape &shape, int block) {
    const int bytes = core::kPositionsPerBlock * shape.position_bytes;
    return checksum_of(contents_of(page) + static_cast<Size>(block) * bytes, bytes) == tag_of(page)->checksums[block];
}

// Whether all of a page of positions is as it was written.
bool is_intact(Page page, const core::FilterShape &shape, BlockNumber block) {
    bool intact = has_tag(page, block);
    for (int i = 0; intact && i < shape.blocks_per_page(); i++)
        intact = is_block_intact(page, shape, i);
    return intact;
}

void set_checksums(Page page, const core::FilterShape &shape) {
    const int bytes = core::kPositionsPerBlock * shape.position_bytes;
    for (int i = 0; i < shape.blocks_per_page(); i++)
        tag_of(page)->checksums[i] = checksum_of(contents_of(page) + static_cast<Size>(i) * bytes, bytes);
}

bool is_head_intact(Page page) {
    return has_tag(page, 0) && tag_of(page)->checksums[0] == checksum_of(contents_of(page), static_cast<int>(sizeof(Head)));
}

void set_head_checksum(Page page) {
    tag_of(page)->checksums[0] = checksum_of(contents_of(page), static_cast<int>(sizeof(Head)));
}

void init_page(Page page, BlockNumber block, uint32 pages, uint64 seed) {
    PageInit(page, BLCKSZ, 0);
    *tag_of(page) = {kMagic, block, pages, static_cast<uint32>(seed), {}};
    // Nothing between is free, so that images of the page contain all of it.
    reinterpret_cast<PageHeader>(page)->pd_lower = reinterpret_cast<PageHeader>(page)->pd_upper;
}

core::FilterShape shape_of(const Head &head) { return {head.pages, static_cast<int>(head.position_bytes), kPageBytes}; }

bool is_valid(const Head &head) {
    return head.version == kVersion && head.position_bytes >= 1 && head.position_bytes <= sizeof(uint32) && head.pages > 0 &&
           head.pages <= core::kMaxFilterPages && (head.pages & (head.pages - 1)) == 0;
}

// The page's buffer; a damaged page is read as one that is new.
Buffer pin_page(Relation filter, BlockNumber block) {
    return ReadBufferExtended(filter, MAIN_FORKNUM, block, RBM_ZERO_ON_ERROR, nullptr);
}

Buffer lock_page(Relation filter, BlockNumber block, BufferLockMode mode) {
    Buffer buffer = pin_page(filter, block);
    LockBuffer(buffer, mode);
    return buffer;
}

// Fetches from memory what a search reads of one block of positions.
void prefetch_block(Page page, const core::FilterShape &shape, int block) {
    const int bytes = core::kPositionsPerBlock * shape.position_bytes;
    __builtin_prefetch(tag_of(page));
    __builtin_prefetch(&tag_of(page)->checksums[block]);
    for (int at = 0; at < bytes; at += 64)
        __builtin_prefetch(contents_of(page) + static_cast<Size>(block) * bytes + at);
}

// A new page at the end of the filter, locked.
Buffer add_page(Relation filter) {
    LockRelationForExtension(filter, ExclusiveLock);
    Buffer buffer = ReadBuffer(filter, P_NEW);
    LockBuffer(buffer, BUFFER_LOCK_EXCLUSIVE);
    UnlockRelationForExtension(filter, ExclusiveLock);
    return buffer;
}

// Changes a locked page by `change(Page)`, logs all of it, and releases it.
template <typename Change> void change_page(Relation filter, Buffer buffer, Change change) {
    GenericXLogState *record = GenericXLogStart(filter);
    change(GenericXLogRegisterBuffer(record, buffer, GENERIC_XLOG_FULL_IMAGE));
    GenericXLogFinish(record);
    UnlockReleaseBuffer(buffer);
}

// Changes the head by `change(Head *)`, which returns false to leave it. A damaged head stays as it is.
template <typename Change> bool change_head(Relation filter, Change change) {
    Buffer buffer = lock_page(filter, 0, BUFFER_LOCK_EXCLUSIVE);
    Page page = BufferGetPage(buffer);
    if (!is_head_intact(page) || !is_valid(*head_of(page))) {
        UnlockReleaseBuffer(buffer);
        return false;
    }
    Head head = *head_of(page);
    if (!change(&head)) {
        UnlockReleaseBuffer(buffer);
        return false;
    }
    change_page(filter, buffer, [&](Page copy) {
        *head_of(copy) = head;
        set_head_checksum(copy);
    });
    CacheInvalidateRelcache(filter);
    return true;
}

Head read_head(Relation filter, bool *intact) {
    Head head{};
    *intact = RelationGetNumberOfBlocks(filter) > 0;
    if (!*intact)
        return head;
    Buffer buffer = lock_page(filter, 0, BUFFER_LOCK_SHARE);
    Page page = BufferGetPage(buffer);
    *intact = is_head_intact(page) && is_valid(*head_of(page));
    if (*intact)
        head = *head_of(page);
    UnlockReleaseBuffer(buffer);
    return head;
}

uint64 random_number() {
    uint64 number;
    fill_random(&number, sizeof number);
    return number | 1;
}

} // namespace

void init_filter(Relation filter, int windows) {
    const uint64 seed = random_number();
    change_page(filter, add_page(filter), [&](Page page) {
        init_page(page, 0, 1, seed);
        Head *head = head_of(page);
        memset(head, 0, sizeof *head);
        head->version = kVersion;
        head->position_bytes = core::position_bytes_for(windows);
        head->pages = 1;
        head->seed = seed;
        set_head_checksum(page);
    });
    change_page(filter, add_page(filter), [&](Page page) {
        init_page(page, 1, 1, seed);
        memset(contents_of(page), 0, kPageBytes);
        set_checksums(page, {1, core::position_bytes_for(windows), kPageBytes});
    });
}

FilterState read_filter(Relation filter) {
    FilterState state{};
    const Head head = read_head(filter, &state.is_intact);
    if (!state.is_intact)
        return state;
    state.is_intact = RelationGetNumberOfBlocks(filter) > head.pages;
    state.shape = shape_of(head);
    state.seed = head.seed;
    for (int window = 0; state.is_intact && window < core::kMaxFilterWindows; window++)
        if (head.slices[window].token == 0)
            state.slices[window] = head.slices[window].state;
    return state;
}

uint64 hash_for_filter(uint64 seed, const text *scope, const text *key) { return hash_of(scope, key, seed); }

uint32 windows_that_may_have(Relation filter, const core::FilterShape &shape, uint64 seed, uint64 hash) {
    const core::FilterPlace place = core::place_of(shape, hash);
    const BlockNumber block = place.page + 1;
    const int part = place.positions[0] / core::kPositionsPerBlock;
    Buffer buffer = pin_page(filter, block);
    Page page = BufferGetPage(buffer);
    prefetch_block(page, shape, part);
    LockBuffer(buffer, BUFFER_LOCK_SHARE);
    const bool is_known = has_tag(page, block) && tag_of(page)->pages <= shape.pages &&
                          tag_of(page)->seed == static_cast<uint32>(seed) && is_block_intact(page, shape, part);
    const uint32 windows = is_known ? core::windows_at(shape, contents_of(page), place) : UINT32_MAX;
    UnlockReleaseBuffer(buffer);
    return windows;
}

uint64 announce_slice(Relation filter, int window) {
    const uint64 token = random_number();
    const bool announced = change_head(filter, [&](Head *head) {
        head->slices[window] = {{}, token};
        return true;
    });
    return announced ? token : 0;
}

namespace {

// Makes page p + pages a copy of page p.
void copy_page(Relation filter, const core::FilterShape &shape, BlockNumber from, BlockNumber to, uint32 pages, uint64 seed) {
    alignas(MAXIMUM_ALIGNOF) unsigned char positions[kPageBytes];
    Buffer source = lock_page(filter, from, BUFFER_LOCK_SHARE);
    // The bits of a damaged page are set: its keys are not to be absent afterwards.
    if (is_intact(BufferGetPage(source), shape, from))
        memcpy(positions, contents_of(BufferGetPage(source)), kPageBytes);
    else
        memset(positions, 0xff, kPageBytes);
    UnlockReleaseBuffer(source);
    Buffer target = RelationGetNumberOfBlocks(filter) > to ? lock_page(filter, to, BUFFER_LOCK_EXCLUSIVE) : add_page(filter);
    if (BufferGetBlockNumber(target) != to)
        elog(ERROR, "filter \"%s\" was extended by another session", RelationGetRelationName(filter));
    change_page(filter, target, [&](Page page) {
        init_page(page, to, pages, seed);
        memcpy(contents_of(page), positions, kPageBytes);
        set_checksums(page, shape);
    });
}

} // namespace

core::FilterShape grow_filter(Relation filter, uint64 keys) {
    bool intact;
    const Head head = read_head(filter, &intact);
    const core::FilterShape now = shape_of(head);
    if (!intact)
        elog(ERROR, "filter \"%s\" is damaged", RelationGetRelationName(filter));
    const core::FilterShape grown = core::grown_for(now, keys);
    for (uint32 pages = now.pages; pages < grown.pages; pages *= 2) {
        for (uint32 page = 0; page < pages; page++) {
            CHECK_FOR_INTERRUPTS();
            copy_page(filter, now, page + 1, page + pages + 1, pages * 2, head.seed);
        }
        change_head(filter, [&](Head *stored) {
            stored->pages = pages * 2;
            return true;
        });
    }
    return grown;
}

void write_slice(Relation filter, uint64 seed, const core::FilterSlice &slice, int window) {
    for (uint32 page = slice.first_page; page < slice.first_page + slice.page_count; page++) {
        CHECK_FOR_INTERRUPTS();
        const BlockNumber block = page + 1;
        Buffer buffer = lock_page(filter, block, BUFFER_LOCK_EXCLUSIVE);
        change_page(filter, buffer, [&](Page copy) {
            if (!is_intact(copy, slice.shape, block)) {
                init_page(copy, block, slice.shape.pages, seed);
                memset(contents_of(copy), 0xff, kPageBytes); // of the other windows nothing is known
            }
            tag_of(copy)->pages = slice.shape.pages;
            slice.write_to(contents_of(copy), page, window);
            set_checksums(copy, slice.shape);
        });
    }
}

bool publish_slice(Relation filter, int window, uint64 token, const SliceState &state) {
    return change_head(filter, [&](Head *head) {
        if (head->slices[window].token != token)
            return false;
        head->slices[window] = {state, 0};
        return true;
    });
}

namespace {

// A head without contents. A damaged page may read as all zeros, this one does not.
bool is_head_blank(Relation filter) {
    if (RelationGetNumberOfBlocks(filter) == 0)
        return false;
    Buffer buffer = lock_page(filter, 0, BUFFER_LOCK_SHARE);
    Page page = BufferGetPage(buffer);
    const bool is_blank = !PageIsNew(page) && PageIsEmpty(page);
    UnlockReleaseBuffer(buffer);
    return is_blank;
}

// On a standby, or in a backup, the head may be intact: what takes a slice away has to be logged.
void blank_head(Relation filter) {
    Buffer buffer = RelationGetNumberOfBlocks(filter) == 0 ? add_page(filter) : lock_page(filter, 0, BUFFER_LOCK_EXCLUSIVE);
    change_page(filter, buffer, [](Page page) { PageInit(page, BLCKSZ, 0); });
    CacheInvalidateRelcache(filter);
}

} // namespace

bool is_slice_in_use(Relation filter, int window) {
    bool intact;
    const Head head = read_head(filter, &intact);
    if (!intact)
        return !is_head_blank(filter);
    return OidIsValid(head.slices[window].state.file) || head.slices[window].token != 0;
}

void drop_slice(Relation filter, int window) {
    const bool is_dropped = change_head(filter, [&](Head *head) {
        head->slices[window] = {{}, random_number()};
        return true;
    });
    if (!is_dropped)
        blank_head(filter);
}

int64 count_damaged_pages(Relation filter) {
    bool intact;
    const Head head = read_head(filter, &intact);
    if (!intact)
        return 1;
    const BlockNumber blocks = RelationGetNumberOfBlocks(filter);
    int64 damaged = blocks > head.pages ? 0 : int64{head.pages} + 1 - blocks;
    for (BlockNumber block = 1; block <= head.pages && block < blocks; block++) {
        CHECK_FOR_INTERRUPTS();
        Buffer buffer = lock_page(filter, block, BUFFER_LOCK_SHARE);
        damaged += !is_intact(BufferGetPage(buffer), shape_of(head), block);
        UnlockReleaseBuffer(buffer);
    }
    return damaged;
}

} // namespace idem
