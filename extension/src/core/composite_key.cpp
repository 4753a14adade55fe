#include "core/composite_key.hpp"

namespace idem::core {

void CompositeKey::append(std::string_view part) {
    if (!first_)
        joined_ += ':';
    first_ = false;
    for (char c : part) {
        if (c == ':' || c == '\\')
            joined_ += '\\';
        joined_ += c;
    }
}

} // namespace idem::core
