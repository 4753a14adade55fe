// Reading SQL arguments: each function checks one kind and raises what the contract says for it.
#pragma once

#include "core/key_state.hpp"
#include "server/pg.hpp"

namespace idem {

inline constexpr int kMaxKeyBytes = 1024;
inline constexpr int kMaxScopeBytes = 255;
inline constexpr int kMaxFingerprintBytes = 255;

// The optional argument `arg`, or nullptr; the varlena is detoasted and may have a short header.
inline const text *optional_text(FunctionCallInfo fcinfo, int arg) {
    return PG_ARGISNULL(arg) ? nullptr : PG_GETARG_TEXT_PP(arg);
}
inline const Interval *optional_interval(FunctionCallInfo fcinfo, int arg) {
    return PG_ARGISNULL(arg) ? nullptr : PG_GETARG_INTERVAL_P(arg);
}

[[noreturn]] void raise_null_argument(const char *name);

// 22004 when NULL.
const text *required_text(FunctionCallInfo fcinfo, int arg, const char *name);

// A key: 22004 when NULL, 22023 when empty or over 1024 bytes. `name`: of the argument, for messages.
const text *key_argument(FunctionCallInfo fcinfo, int arg, const char *name = "key");
void check_key(const text *key, const char *name = "key");

// The optional fingerprint `arg`, or nullptr: 22023 when empty or over 255 bytes.
const bytea *fingerprint_argument(FunctionCallInfo fcinfo, int arg);

// A span of time in microseconds; `name` is the argument's, for the message. 22023 when infinite or out of range.
core::Micros span_of(const Interval *interval, const char *name);

// The same, and 22023 when zero or negative.
core::Micros positive_span_of(const Interval *interval, const char *name);

// `now + span` as a timestamp; 22023 when that lies past the last timestamp there is.
core::Micros deadline_after(core::Micros now, core::Micros span, const char *name);

// The argument `wait`: until when to wait; 0: not at all, core::kForever (NULL): without bound. 22023 when negative.
core::Micros wait_argument(FunctionCallInfo fcinfo, int arg);

// Database time. PostgreSQL's timestamptz counts microseconds, and so does everything here; 'infinity' is core::kForever.
inline core::Micros clock_now() { return GetCurrentTimestamp(); }

// For how long something lasts, within one process: goes on at its pace when somebody sets the clock.
inline core::Micros monotonic_now() {
    instr_time now;
    INSTR_TIME_SET_CURRENT(now);
    return static_cast<core::Micros>(INSTR_TIME_GET_MICROSEC(now));
}

// What is left of a wait, as wait_argument has it: core::kForever, or 0 and less when it is over.
inline core::Micros time_left(core::Micros wait_until) {
    return wait_until == 0 || wait_until == core::kForever ? wait_until : wait_until - clock_now();
}

} // namespace idem
