// Text in the server's encoding, converted to UTF-8: clients and other systems hash and sign that form.
#pragma once

#include "server/pg.hpp"

#include <string_view>

namespace idem {

// `size` bytes of server-encoded text, in UTF-8. Points to `data` if no conversion is needed. Raises an error if the text has
// no form in UTF-8.
inline std::string_view as_utf8(const char *data, int size) {
    const char *converted = pg_server_to_any(data, size, PG_UTF8);
    return {converted, converted == data ? static_cast<size_t>(size) : strlen(converted)};
}
inline std::string_view as_utf8(const text *value) {
    return as_utf8(VARDATA_ANY(value), static_cast<int>(VARSIZE_ANY_EXHDR(value)));
}

// As as_utf8, but returns false when the text has no form in UTF-8, as with some bytes in SQL_ASCII. REQUIRES: size < 256 MB.
inline bool find_utf8(const char *data, int size, std::string_view *utf8) {
    const int encoding = GetDatabaseEncoding();
    *utf8 = {data, static_cast<size_t>(size)};
    if (encoding == PG_UTF8)
        return true;
    if (encoding == PG_SQL_ASCII)
        return pg_verify_mbstr(PG_UTF8, data, size, true);
    const Oid conversion = FindDefaultConversionProc(encoding, PG_UTF8);
    const int capacity = size * MAX_CONVERSION_GROWTH + 1;
    auto *converted = static_cast<char *>(palloc(capacity));
    if (!OidIsValid(conversion) ||
        pg_do_encoding_conversion_buf(conversion, encoding, PG_UTF8,
                                      reinterpret_cast<unsigned char *>(const_cast<char *>(data)), size,
                                      reinterpret_cast<unsigned char *>(converted), capacity, true) < size)
        return false;
    *utf8 = converted;
    return true;
}

} // namespace idem
