// A key from two texts, in the form of idem_key.
#pragma once

#include "core/composite_key.hpp"
#include "server/guard.hpp"

namespace idem {

inline const text *composite_key(const text *first, const text *second) {
    return core_string([&] {
        core::CompositeKey key;
        key.append({VARDATA_ANY(first), VARSIZE_ANY_EXHDR(first)});
        key.append({VARDATA_ANY(second), VARSIZE_ANY_EXHDR(second)});
        return std::move(key).take();
    });
}

} // namespace idem
