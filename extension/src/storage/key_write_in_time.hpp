// Writes of rows whose times count from the write: a lease, a retention, a counter's window, a bucket's state.
//
// The server waits inside of a write: for the transaction that holds the row, or for somebody's lock on an index. A time that
// was read before such a wait may be over after it. So the row is made again, and written over the first, if the write took so
// long that it may have waited. The row is this transaction's by then, so the repetition waits for nobody.
#pragma once

#include "server/clock.hpp"
#include "storage/key_store.hpp"

namespace idem {

// Replaces a version by the row that `compose(now)` makes: an object with `values` and `nulls`. `now` is the time of the
// decision at first, and that of the written row afterwards. Otherwise as replace_key.
template <typename Compose>
Write replace_key_in_time(const KeyTable &table, KeyVersion *version, core::Micros *now, bool wait, Compose compose) {
    const auto replace = [&] {
        const auto &row = compose(*now);
        return replace_key(table, version, row.values, row.nulls, wait);
    };
    const Write write = replace();
    const core::Micros after = clock_now();
    if (write != Write::done || !may_have_waited(*now, after))
        return write;
    *now = after;
    return replace();
}

// Inserts the row that `compose(now)` makes. Otherwise as insert_key.
template <typename Compose>
bool insert_key_in_time(const KeyTable &table, KeyVersion *version, core::Micros *now, Compose compose) {
    const auto &row = compose(*now);
    if (!insert_key(table, row.values, row.nulls, version))
        return false;
    const core::Micros after = clock_now();
    if (!may_have_waited(*now, after))
        return true;
    *now = after;
    const auto &later = compose(*now);
    if (replace_key(table, version, later.values, later.nulls, true) != Write::done)
        elog(ERROR, "a key that was just inserted was changed by another transaction");
    return true;
}

} // namespace idem
