#include <idem/version.hpp>

namespace idem {

namespace {

constexpr detail::statement version_statement{"idem_version", "SELECT edition, version, server FROM @idem@.idem_version()",
                                              true};

} // namespace

version_info version(const target &at) {
    const detail::record found = detail::call(at, {&version_statement, {}}).at(0);
    return {found.at(0).value(), found.at(1).value(), found.at(2).value()};
}

} // namespace idem
