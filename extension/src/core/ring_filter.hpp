// The arithmetic of a ring's Bloom filter: one filter for up to 32 windows of keys, bit-sliced and blocked.
//
// The filter is an array of positions, and bit w of each position belongs to window w. A key has kPositionsPerKey positions,
// all in one block of kPositionsPerBlock and so on one page: one read of a page answers for all windows at once. The filter
// says "maybe" of a window that has all of the key's bits, and "absent" otherwise; a key that was added is never absent.
//
// The number of pages is a power of two. A filter grows by doubling: page p is copied to page p + pages, since a key of page p
// belongs on one of the two afterwards.
//
// Source: Putze, Sanders, Singler, "Cache-, Hash- and Space-Efficient Bloom Filters" (2007), for the blocks.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace idem::core {

inline constexpr int kPositionsPerBlock = 512;
inline constexpr int kPositionsPerKey = 6;
inline constexpr int kBitsPerKey = 10; // the least number of positions for each key of a window
inline constexpr int kMaxFilterWindows = 32;
inline constexpr std::uint32_t kMaxFilterPages = std::uint32_t{1} << 30;

// How a filter is laid out. A window's number is less than 8 * position_bytes.
struct FilterShape {
    std::uint32_t pages; // a power of two
    int position_bytes;  // 1 to 4
    int page_bytes;      // of positions on a page

    int blocks_per_page() const { return page_bytes / (kPositionsPerBlock * position_bytes); }
    int positions_per_page() const { return blocks_per_page() * kPositionsPerBlock; }
    // How many keys of a window a filter of this shape is meant for.
    std::uint64_t capacity() const { return std::uint64_t{pages} * (positions_per_page() / kBitsPerKey); }
};

// The bytes of a position for so many windows.
constexpr int position_bytes_for(int windows) { return (windows + 7) / 8; }

// The shape with the fewest pages, but no fewer than `shape` has, that is meant for so many keys of a window.
FilterShape grown_for(FilterShape shape, std::uint64_t keys);

// Where a key's bits are: positions are counted from the start of the page. REQUIRES: a uniformly distributed hash.
struct FilterPlace {
    std::uint32_t page;
    std::array<std::uint16_t, kPositionsPerKey> positions;
};
FilterPlace place_of(const FilterShape &shape, std::uint64_t hash);

// The windows of which the filter says "maybe", as bits.
std::uint32_t windows_at(const FilterShape &shape, const unsigned char *page, const FilterPlace &place);

// The bits of one window for some successive pages, from `first_page` on. The caller owns the memory: bytes_for(...) bytes,
// zero at first.
struct FilterSlice {
    FilterShape shape;
    std::uint32_t first_page;
    std::uint32_t page_count;
    unsigned char *bits;

    static std::size_t bytes_per_page(const FilterShape &shape) {
        return static_cast<std::size_t>(shape.positions_per_page()) / 8;
    }
    std::size_t bytes() const { return page_count * bytes_per_page(shape); }

    // Adds a key, if it belongs on one of the pages.
    void add(std::uint64_t hash);
    // Whether the slice says "maybe" of a key. REQUIRES: the key belongs on one of the pages.
    bool may_contain(std::uint64_t hash) const;
    // Makes the bits of `window` on a page those of the slice. `page`: its number in the filter.
    void write_to(unsigned char *page_positions, std::uint32_t page, int window) const;
};

} // namespace idem::core
