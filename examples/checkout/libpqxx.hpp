// libpqxx, and a few of its calls in a spelling that is the same for each of its versions.
#pragma once

#include <idem/pqxx_compat.hpp>

namespace checkout {

using idem::detail::exec_with;
using idem::detail::one_row;

} // namespace checkout
