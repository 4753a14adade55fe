// What idem_http_begin and idem_http_complete share: the scope, and the body of a message as text or as bytes.
#pragma once

#include "core/http_key.hpp"
#include "server/pg.hpp"

#include <string_view>

namespace idem {

// The scope `arg`: 22004 when NULL, 22023 when empty or over 255 bytes. Keys of two clients must not meet, so a request always
// names one.
const text *http_scope_argument(FunctionCallInfo fcinfo, int arg);

// At most one is set; neither: there is no body.
struct HttpBody {
    const text *as_text;
    const bytea *as_bytes;
    bool is_absent() const { return as_text == nullptr && as_bytes == nullptr; }
};

// The optional arguments `arg`, body, and the next one, body_bytes. 22023 when both are given.
HttpBody http_body_argument(FunctionCallInfo fcinfo, int arg);

// The key in a header field; nullptr when it is malformed.
const text *http_key_in(const text *field, core::HttpKeySyntax syntax);

// The bytes of the body: of a text its form in UTF-8. Empty when there is none.
std::string_view bytes_of(const HttpBody &body);

} // namespace idem
