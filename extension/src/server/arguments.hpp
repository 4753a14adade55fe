// Reading SQL arguments: each function checks one kind of argument and raises the contract's error for it.
#pragma once

#include "server/clock.hpp"

namespace idem {

inline constexpr int kMaxKeyBytes = 1024;
inline constexpr int kMaxScopeBytes = 255;
inline constexpr int kMaxFingerprintBytes = 255;

// The optional argument `arg`, or nullptr if it is NULL. A text is detoasted and may have a short header.
inline const text *optional_text(FunctionCallInfo fcinfo, int arg) {
    return PG_ARGISNULL(arg) ? nullptr : PG_GETARG_TEXT_PP(arg);
}
inline const Interval *optional_interval(FunctionCallInfo fcinfo, int arg) {
    return PG_ARGISNULL(arg) ? nullptr : PG_GETARG_INTERVAL_P(arg);
}

[[noreturn]] void raise_null_argument(const char *name);

// 22004 when NULL.
const text *required_text(FunctionCallInfo fcinfo, int arg, const char *name);

// A key: 22004 when NULL, 22023 when empty or over kMaxKeyBytes. Messages call the argument `name`.
const text *key_argument(FunctionCallInfo fcinfo, int arg, const char *name = "key");
void check_key(const text *key, const char *name = "key");

// The optional owner `arg`, or nullptr: 22023 when empty, which would be the same owner for all who forgot theirs.
const text *owner_argument(FunctionCallInfo fcinfo, int arg);

// The optional fingerprint `arg`, or nullptr: 22023 when empty or over kMaxFingerprintBytes.
const bytea *fingerprint_argument(FunctionCallInfo fcinfo, int arg);

// A span of time in microseconds: 22023 when infinite or out of range. Messages call the argument `name`.
core::Micros span_of(const Interval *interval, const char *name);

// As span_of; also 22023 when zero or negative.
core::Micros positive_span_of(const Interval *interval, const char *name);

// The length of a lease: as positive_span_of; also 22023 when over idem.max_lease.
core::Micros lease_of(const Interval *interval, const char *name);

// `now + span` as a timestamp: 22023 when it exceeds the largest timestamp.
core::Micros deadline_after(core::Micros now, core::Micros span, const char *name);
// Raises the same error for a span that is used later.
void check_deadline(core::Micros span, const char *name);

// The optional argument `wait` as the time until which the call may wait; 0, also when it is NULL, means no wait. 22023 when
// negative.
core::Micros wait_argument(FunctionCallInfo fcinfo, int arg);

// The microseconds that remain of a wait returned by wait_argument: core::kForever if it has no limit, 0 or less if it is over.
inline core::Micros time_left(core::Micros wait_until) {
    return wait_until == 0 || wait_until == core::kForever ? wait_until : wait_until - clock_now();
}

} // namespace idem
