// libpqxx, and a few of its calls in a spelling that is the same for each of its versions.
#pragma once

#include <idem/pqxx_compat.hpp>

namespace demo {

using idem::detail::copy_into;
using idem::detail::exec_prepared;
using idem::detail::one_row;

} // namespace demo
