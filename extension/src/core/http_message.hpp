// What idem has to know of HTTP messages: which methods need a key, which header fields may be stored, what a status is called.
#pragma once

#include <string_view>

namespace idem::core {

// A method or a field name: RFC 9110, section 5.6.2. Methods are case-sensitive, field names are not.
bool is_http_token(std::string_view text) noexcept;

// Whether a request of this method needs a key so that its repetition is none. Not so for those that RFC 9110, section 9.2,
// calls safe or idempotent: GET, HEAD, OPTIONS, TRACE, PUT, DELETE.
bool needs_http_key(std::string_view method) noexcept;

// Whether `name` is one of `names`, separated by commas.
bool names_http_field(std::string_view names, std::string_view name) noexcept;

inline constexpr std::string_view kStoredFields = "Content-Type,Content-Language,Content-Location,Content-Disposition,Location,"
                                                  "ETag,Last-Modified,Link,Retry-After";

// Fields that no list can have stored: a cookie is for the one who got it, the next ones are about a connection that is gone
// (RFC 9110, section 7.6.1), and the last one says that the response is a replay.
inline constexpr std::string_view kNeverStoredFields =
    "Set-Cookie,Set-Cookie2,Connection,Keep-Alive,Proxy-Connection,TE,Trailer,Transfer-Encoding,Upgrade,Idempotent-Replayed";

inline constexpr const char *kReplayedField = "Idempotent-Replayed";

// No CR, LF or NUL, with which a value would be more than one field.
bool is_http_field_value(std::string_view value) noexcept;

// The reason phrase of a client or server error; of one that is not registered, that of its class (RFC 9110, section 15).
const char *http_reason(int status) noexcept;

} // namespace idem::core
