// The index access method idem_filter. An index of it holds the pages of a ring's filter (ring_filter_pages.hpp) and no entry
// of a row: queries cannot use it, and changes of the table do not touch it. Its one column is the number of a window.
#pragma once

#include "server/pg.hpp"

namespace idem {

// Makes the pages of an empty filter for so many windows. REQUIRES: the index has no page.
void init_filter(Relation filter, int windows);

} // namespace idem
