// Scopes: the space in which a key is unique, its policy, and the roles that may use it.
#pragma once

#include "core/http_key.hpp"
#include "core/key_state.hpp"
#include "storage/member.hpp"

namespace idem {

extern Member scopes_table;

// A scope "a/b" belongs to the family "a": a setting that its own row does not have is that of the row "a". Only the part
// before the first '/' counts; "/b" and "" have no family.

// The policy of one scope. The settings supply the values that the scope does not set.
struct ScopePolicy {
    core::Micros ttl; // core::kForever: keys never expire
    bool keep_forever;
    core::Micros lease;
    bool manual_on_lease_expiry;
    int max_response_size; // bytes of the jsonb value
};

// The reasons for which an HTTP request is rejected, and a scope's responses to HTTP requests.
enum class HttpRefusal { missing_key, malformed_key, mismatch, in_flight, in_doubt };
inline constexpr int kHttpRefusals = 5;
enum class HttpErrorFormat { problem, stripe, acp, ucp };
inline constexpr const char *kHttpErrorFormats[] = {"problem", "stripe", "acp", "ucp"};
// The parts of a request that its fingerprint is of, as bits.
enum class HttpPart { method = 1, route = 2, body = 4 };
inline constexpr int kAllHttpParts = 7;
inline constexpr const char *kHttpKeySyntaxes[] = {"string_or_bare", "string", "opaque"}; // core::HttpKeySyntax
// The strings are in the cache: valid until the next look-up of a scope. Lists are separated by commas.
struct HttpPolicy {
    int32 statuses[kHttpRefusals]; // by HttpRefusal
    bool runs_without_key;         // a request that needs a key and has none
    bool compares_json;            // bodies by their canonical form
    bool echoes_key;
    core::HttpKeySyntax key_syntax;
    HttpErrorFormat error_format;
    int fingerprint_of; // HttpPart
    const char *keyed_methods;
    const char *ignored_methods;   // a key is not used with these
    const char *unstored_statuses; // patterns such as "5xx"
    const char *documentation_url; // nullptr: none
    const char *stored_fields;     // in addition to core::kAlwaysStoredFields
};
HttpPolicy http_policy(const text *scope);

// The policy of `scope`. Raises 42501 unless the current user may use the scope, 42704 for an unknown one where
// idem.require_registered_scope is on.
ScopePolicy scope_policy(const text *scope);

// As scope_policy, for callers that visit many scopes: returns false unless the current user may use the scope, registered or
// not.
bool find_usable_scope(const text *scope, ScopePolicy *policy);

// Raises 42501 unless the current user may use the scope, registered or not.
void check_scope_access(const text *scope);

// Waits for changes of the scope's settings and of its family's, and prevents others until the transaction ends. Changes of two
// scopes of a family do not wait for each other.
void lock_scope_settings(const text *scope);

// Whether the scope has a row, whatever the transaction's snapshot shows.
bool has_scope_row(const text *scope);

// Whether the scope leaves an expired lease to an operator. Does not check the current user's right to use it.
bool is_manual_on_lease_expiry(const text *scope);

// How long the scope's responses are kept; core::kForever: as long as their keys. Does not check the current user's right
// either.
core::Micros response_ttl_of(const text *scope);

// The shortest response_ttl of all scopes; core::kForever: no scope has one.
core::Micros shortest_response_ttl();

[[noreturn]] void raise_scope_denied(const text *scope);

// The optional argument `arg` of the call as a scope name, '' when NULL: 22023 over 255 bytes.
const text *scope_argument(FunctionCallInfo fcinfo, int arg);

// As scope_argument, but 22004 when NULL.
const text *required_scope_argument(FunctionCallInfo fcinfo, int arg);

} // namespace idem
