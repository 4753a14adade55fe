#include "core/ring_filter.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <random>
#include <set>
#include <vector>

namespace idem::core {
namespace {

constexpr int kPageBytes = 8152;

// A whole filter in memory.
struct Filter {
    FilterShape shape;
    std::vector<std::vector<unsigned char>> pages;

    explicit Filter(int windows, std::uint32_t page_count = 1)
        : shape{page_count, position_bytes_for(windows), kPageBytes},
          pages(page_count, std::vector<unsigned char>(kPageBytes)) {}

    std::uint32_t windows_of(std::uint64_t hash) const {
        const FilterPlace place = place_of(shape, hash);
        return windows_at(shape, pages.at(place.page).data(), place);
    }
    bool says_maybe(std::uint64_t hash, int window) const { return (windows_of(hash) >> window & 1) != 0; }

    // Writes the window's slice in parts of `part` pages.
    void write(int window, const std::vector<std::uint64_t> &keys, std::uint32_t part) {
        for (std::uint32_t first = 0; first < shape.pages; first += part) {
            FilterSlice slice{shape, first, std::min(part, shape.pages - first), nullptr};
            std::vector<unsigned char> bits(slice.bytes());
            slice.bits = bits.data();
            for (const std::uint64_t key : keys)
                slice.add(key);
            for (std::uint32_t page = first; page < first + slice.page_count; page++)
                slice.write_to(pages.at(page).data(), page, window);
        }
    }
    void grow(std::uint64_t keys) {
        const FilterShape grown = grown_for(shape, keys);
        while (pages.size() < grown.pages)
            pages.push_back(pages.at(pages.size() - std::bit_floor(pages.size())));
        shape = grown;
    }
};

std::vector<std::uint64_t> random_keys(std::size_t count, std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<std::uint64_t> keys(count);
    for (std::uint64_t &key : keys)
        key = random();
    return keys;
}

TEST(RingFilter, NeverSaysAbsentOfAKeyThatWasAdded) {
    for (const int windows : {3, 8, 9, 16, 24, 32}) {
        Filter filter(windows, 4);
        std::vector<std::vector<std::uint64_t>> keys;
        for (int window = 0; window < windows; window++) {
            keys.push_back(random_keys(filter.shape.capacity(), window));
            filter.write(window, keys.back(), 3);
        }
        for (int window = 0; window < windows; window++)
            for (const std::uint64_t key : keys[window])
                ASSERT_TRUE(filter.says_maybe(key, window)) << windows << " windows, window " << window;
    }
}

TEST(RingFilter, OfAnEmptyFilterEverythingIsAbsent) {
    const Filter filter(8);
    for (const std::uint64_t key : random_keys(10'000, 1))
        ASSERT_EQ(filter.windows_of(key), 0U);
}

TEST(RingFilter, WritingASliceLeavesTheOtherWindowsAlone) {
    Filter filter(16, 2);
    const auto old = random_keys(1000, 1), other = random_keys(1000, 2), renewed = random_keys(10, 3);
    filter.write(9, old, 1);
    filter.write(8, other, 1);
    filter.write(9, renewed, 1);
    for (const std::uint64_t key : other)
        ASSERT_TRUE(filter.says_maybe(key, 8));
    int left = 0;
    for (const std::uint64_t key : old)
        left += filter.says_maybe(key, 9);
    EXPECT_LT(left, 5);
}

TEST(RingFilter, AnEmptySliceClearsItsWindow) {
    Filter filter(8, 2);
    filter.write(0, random_keys(5000, 1), 2);
    filter.write(7, random_keys(5000, 2), 2);
    filter.write(0, {}, 1);
    for (const auto &page : filter.pages)
        for (const unsigned char byte : page)
            ASSERT_EQ(byte & 0x7f, 0);
}

TEST(RingFilter, AllPositionsLieInOneBlockOfThePage) {
    for (const int bytes : {1, 2, 3, 4}) {
        const FilterShape shape{1 << 10, bytes, kPageBytes};
        std::set<int> blocks;
        int least = kPositionsPerBlock, greatest = 0;
        for (const std::uint64_t key : random_keys(100'000, bytes)) {
            const FilterPlace place = place_of(shape, key);
            ASSERT_LT(place.page, shape.pages);
            const int block = place.positions[0] / kPositionsPerBlock;
            blocks.insert(block);
            for (const std::uint16_t position : place.positions) {
                ASSERT_EQ(position / kPositionsPerBlock, block);
                ASSERT_LE((position + 1) * bytes, kPageBytes);
                least = std::min(least, position % kPositionsPerBlock);
                greatest = std::max(greatest, position % kPositionsPerBlock);
            }
        }
        EXPECT_EQ(static_cast<int>(blocks.size()), shape.blocks_per_page());
        EXPECT_EQ(least, 0);
        EXPECT_EQ(greatest, kPositionsPerBlock - 1);
    }
    EXPECT_EQ((FilterShape{1, 1, kPageBytes}.blocks_per_page()), 15);
    EXPECT_EQ((FilterShape{1, 2, kPageBytes}.blocks_per_page()), 7);
    EXPECT_EQ((FilterShape{1, 3, kPageBytes}.blocks_per_page()), 5);
    EXPECT_EQ((FilterShape{1, 4, kPageBytes}.blocks_per_page()), 3);
}

// The share of false positives of a block with i keys is (1 - (1 - 1/512)^(6 i))^6, and i is Poisson-distributed.
double theory(double keys_per_block) {
    double share = 0;
    double probability = std::exp(-keys_per_block);
    for (int i = 0; i < 400; i++) {
        share += probability * std::pow(1 - std::pow(1 - 1.0 / kPositionsPerBlock, kPositionsPerKey * i), kPositionsPerKey);
        probability *= keys_per_block / (i + 1);
    }
    return share;
}

TEST(RingFilter, FalsePositivesAreAsTheTheorySaysAndAtMostOneAndAHalfPercent) {
    constexpr int kProbes = 400'000;
    Filter filter(8, 64);
    filter.write(3, random_keys(filter.shape.capacity(), 1), 64);
    int positives = 0;
    for (const std::uint64_t key : random_keys(kProbes, 2))
        positives += filter.says_maybe(key, 3);
    const double measured = static_cast<double>(positives) / kProbes;
    EXPECT_NEAR(measured, theory(static_cast<double>(kPositionsPerBlock) / kBitsPerKey), 0.001);
    EXPECT_LE(measured, 0.015);
}

TEST(RingFilter, GrowsByDoublingAndForgetsNothing) {
    Filter filter(8);
    const auto keys = random_keys(filter.shape.capacity(), 1);
    filter.write(2, keys, 1);
    filter.grow(filter.shape.capacity() * 5);
    EXPECT_EQ(filter.shape.pages, 8U);
    for (const std::uint64_t key : keys)
        ASSERT_TRUE(filter.says_maybe(key, 2));
    const auto more = random_keys(filter.shape.capacity(), 3);
    filter.write(1, more, 3);
    for (const std::uint64_t key : more)
        ASSERT_TRUE(filter.says_maybe(key, 1));
    for (const std::uint64_t key : keys)
        ASSERT_TRUE(filter.says_maybe(key, 2));
}

TEST(RingFilter, GrowsNoFurtherThanNeeded) {
    const FilterShape shape{4, 1, kPageBytes};
    EXPECT_EQ(grown_for(shape, 0).pages, 4U);
    EXPECT_EQ(grown_for(shape, shape.capacity()).pages, 4U);
    EXPECT_EQ(grown_for(shape, shape.capacity() + 1).pages, 8U);
    EXPECT_EQ(grown_for(shape, UINT64_MAX).pages, kMaxFilterPages);
}

TEST(RingFilter, ASliceOfSomePagesTakesOnlyTheirKeys) {
    const FilterShape shape{8, 1, kPageBytes};
    FilterSlice slice{shape, 2, 3, nullptr};
    std::vector<unsigned char> bits(slice.bytes());
    slice.bits = bits.data();
    for (const std::uint64_t key : random_keys(1000, 1)) {
        const std::uint32_t page = place_of(shape, key).page;
        slice.add(key);
        if (page >= 2 && page < 5) {
            ASSERT_TRUE(slice.may_contain(key));
        }
    }
    std::vector<unsigned char> page(kPageBytes, 0xff);
    slice.write_to(page.data(), 4, 5);
    EXPECT_NE(page[0] | page[1] | page[2], 0);
}

} // namespace
} // namespace idem::core
