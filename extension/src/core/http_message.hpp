// HTTP messages: the methods that need a key, the header fields and statuses that may be stored, and the reason phrases.
#pragma once

#include <string_view>

namespace idem::core {

// A method or a field name: RFC 9110, section 5.6.2. Methods are case-sensitive, field names are not.
bool is_http_token(std::string_view text) noexcept;

// The methods that need a key to be repeated safely, unless a scope lists others. RFC 9110, section 9.2, calls the other
// common methods safe or idempotent.
inline constexpr std::string_view kKeyedMethods = "POST,PATCH";

// The parts of a request that its fingerprint has, unless a scope lists others.
inline constexpr std::string_view kFingerprintOf = "method,route,body";

// Whether the comma-separated list `methods` contains `method`.
bool names_http_method(std::string_view methods, std::string_view method) noexcept;

// Whether a response can end with the status: RFC 9110, section 15. 1xx responses precede another one.
bool is_final_http_status(int status) noexcept;

// Whether `pattern` is a status, such as "429", or a class of them, such as "5xx".
bool is_http_status_pattern(std::string_view pattern) noexcept;

// Whether a pattern of the comma-separated list matches the status, which has three digits.
bool matches_http_status(std::string_view patterns, int status) noexcept;

// Whether the comma-separated list `names` contains `name`, in any case.
bool names_http_field(std::string_view names, std::string_view name) noexcept;

// The fields that are stored whatever a scope lists: without them nobody can read the body.
inline constexpr std::string_view kAlwaysStoredFields = "Content-Type,Content-Encoding";

// The further fields that are stored unless a scope lists others.
inline constexpr std::string_view kStoredFields = "Content-Language,Content-Location,Content-Disposition,Location,"
                                                  "ETag,Last-Modified,Link,Retry-After";

// Fields that are never stored, whatever a scope lists. A cookie belongs to the client that received it. The connection's
// fields describe a connection that is gone (RFC 9110, section 7.6.1). The last two fields mark a response as a replay.
inline constexpr std::string_view kNeverStoredFields =
    "Set-Cookie,Set-Cookie2,Connection,Keep-Alive,Proxy-Connection,TE,Trailer,Transfer-Encoding,Upgrade,Idempotent-Replayed,"
    "Idempotent-Body-Omitted";

inline constexpr const char *kKeyField = "Idempotency-Key";
inline constexpr const char *kReplayedField = "Idempotent-Replayed";
inline constexpr const char *kOmittedField = "Idempotent-Body-Omitted";

// Whether a Content-Type names JSON: application/json, or a type that ends in +json (RFC 6839).
bool is_json_media_type(std::string_view content_type) noexcept;

// Returns false for a value with CR, LF or NUL, which could be read as more than one field.
bool is_http_field_value(std::string_view value) noexcept;

// Returns the reason phrase of an error status, or that of its class if it is not registered (RFC 9110, section 15).
const char *http_reason(int status) noexcept;

} // namespace idem::core
