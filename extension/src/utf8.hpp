// Text of the server's encoding as the outside world hashes and signs it.
#pragma once

#include "pg.hpp"

#include <string_view>

namespace idem {

// The bytes of `size` bytes of server-encoded text in UTF-8.
inline std::string_view as_utf8(const char *data, int size) {
    const char *converted = pg_server_to_any(data, size, PG_UTF8);
    return {converted, converted == data ? static_cast<size_t>(size) : strlen(converted)};
}
inline std::string_view as_utf8(const text *value) {
    return as_utf8(VARDATA_ANY(value), static_cast<int>(VARSIZE_ANY_EXHDR(value)));
}

} // namespace idem
