#include "core/version.hpp"

#include <charconv>
#include <optional>

namespace idem::core {

namespace {

std::optional<unsigned> major_of(std::string_view version) {
    unsigned major = 0;
    const auto [end, error] = std::from_chars(version.data(), version.data() + version.size(), major);
    if (error != std::errc() || (end != version.data() + version.size() && *end != '.'))
        return std::nullopt;
    return major;
}

} // namespace

bool is_served(std::string_view sql_version, std::string_view library_version) {
    const auto major = major_of(sql_version);
    return major && major == major_of(library_version);
}

} // namespace idem::core
