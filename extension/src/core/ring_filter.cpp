#include "core/ring_filter.hpp"

namespace idem::core {

namespace {

constexpr int kPositionBits = 9;
static_assert(1 << kPositionBits == kPositionsPerBlock);
constexpr int kBlockBits = 64 - kPositionBits * kPositionsPerKey;
static_assert(kBlockBits > 0);

// The finalizer of SplitMix64 (Steele, Lea, Flood 2014), a bijection.
std::uint64_t mixed(std::uint64_t value) {
    value ^= value >> 30;
    value *= 0xbf58476d1ce4e5b9U;
    value ^= value >> 27;
    value *= 0x94d049bb133111ebU;
    return value ^ (value >> 31);
}

std::uint32_t position_at(const unsigned char *bytes, int count) {
    std::uint32_t windows = 0;
    for (int i = 0; i < count; i++)
        windows |= std::uint32_t{bytes[i]} << (8 * i);
    return windows;
}

bool bit_at(const unsigned char *bits, std::size_t at) { return (bits[at / 8] >> (at % 8) & 1) != 0; }

} // namespace

FilterShape grown_for(FilterShape shape, std::uint64_t keys) {
    while (shape.capacity() < keys && shape.pages < kMaxFilterPages)
        shape.pages *= 2;
    return shape;
}

FilterPlace place_of(const FilterShape &shape, std::uint64_t hash) {
    FilterPlace place;
    place.page = static_cast<std::uint32_t>(hash) & (shape.pages - 1);
    std::uint64_t rest = mixed(hash);
    const auto block = static_cast<std::uint32_t>(((rest >> (64 - kBlockBits)) * shape.blocks_per_page()) >> kBlockBits);
    for (std::uint16_t &position : place.positions) {
        position = static_cast<std::uint16_t>(block * kPositionsPerBlock + (rest & (kPositionsPerBlock - 1)));
        rest >>= kPositionBits;
    }
    return place;
}

std::uint32_t windows_at(const FilterShape &shape, const unsigned char *page, const FilterPlace &place) {
    std::uint32_t windows = UINT32_MAX;
    for (const std::uint16_t position : place.positions)
        windows &= position_at(page + std::size_t{position} * shape.position_bytes, shape.position_bytes);
    return windows;
}

void FilterSlice::add(std::uint64_t hash) {
    const FilterPlace place = place_of(shape, hash);
    if (place.page < first_page || place.page - first_page >= page_count)
        return;
    unsigned char *page_bits = bits + (place.page - first_page) * bytes_per_page(shape);
    for (const std::uint16_t position : place.positions)
        page_bits[position / 8] |= static_cast<unsigned char>(1 << (position % 8));
}

bool FilterSlice::may_contain(std::uint64_t hash) const {
    const FilterPlace place = place_of(shape, hash);
    const unsigned char *page_bits = bits + (place.page - first_page) * bytes_per_page(shape);
    for (const std::uint16_t position : place.positions)
        if (!bit_at(page_bits, position))
            return false;
    return true;
}

void FilterSlice::write_to(unsigned char *page_positions, std::uint32_t page, int window) const {
    const unsigned char *page_bits = bits + (page - first_page) * bytes_per_page(shape);
    const auto mask = static_cast<unsigned char>(1 << (window % 8));
    unsigned char *byte = page_positions + window / 8;
    for (int position = 0; position < shape.positions_per_page(); position++, byte += shape.position_bytes) {
        const int bit = bit_at(page_bits, position) ? mask : 0;
        *byte = static_cast<unsigned char>((*byte & ~mask) | bit);
    }
}

} // namespace idem::core
