#include "core/snowflake.hpp"

namespace idem::core {

namespace {

constexpr int kSequences = 1 << kSequenceBits;

// The least id of `node` greater than `last`. Another session, or this server earlier, may have issued `last` as another node.
IdParts successor(IdParts last, int node) {
    if (node > last.node)
        return {last.millis, node, 0};
    if (node == last.node && last.sequence + 1 < kSequences)
        return {last.millis, node, last.sequence + 1};
    return {last.millis + 1, node, 0};
}

} // namespace

std::int64_t compose_id(IdParts parts) {
    return parts.millis << (kNodeBits + kSequenceBits) | std::int64_t{parts.node} << kSequenceBits | parts.sequence;
}

IdParts id_parts(std::int64_t id) {
    return {id >> (kNodeBits + kSequenceBits), static_cast<int>(id >> kSequenceBits) & (kNodes - 1),
            static_cast<int>(id & (kSequences - 1))};
}

std::optional<std::int64_t> next_id(std::int64_t last, std::int64_t clock, int node) {
    IdParts next = successor(id_parts(last), node);
    if (clock > next.millis)
        next = {clock, node, 0};
    if (next.millis > kLastIdMillis)
        return std::nullopt;
    return compose_id(next);
}

} // namespace idem::core
