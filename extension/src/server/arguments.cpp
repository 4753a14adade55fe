#include "server/arguments.hpp"

#include "core/duration.hpp"
#include "server/compat.hpp"
#include "server/settings.hpp"

namespace idem {

static_assert(DT_NOEND == core::kForever);

namespace {

const char *interval_text(const Interval *interval) {
    return DatumGetCString(DirectFunctionCall1(interval_out, IntervalPGetDatum(interval)));
}

} // namespace

void raise_null_argument(const char *name) {
    ereport(ERROR, (errcode(ERRCODE_NULL_VALUE_NOT_ALLOWED), errmsg("%s must not be null", name)));
    pg_unreachable();
}

const text *required_text(FunctionCallInfo fcinfo, int arg, const char *name) {
    if (PG_ARGISNULL(arg))
        raise_null_argument(name);
    return PG_GETARG_TEXT_PP(arg);
}

void check_key(const text *key, const char *name) {
    const auto bytes = VARSIZE_ANY_EXHDR(key);
    if (bytes == 0)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s must not be empty", name)));
    if (bytes > kMaxKeyBytes)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s is too long", name),
                        errdetail("The %s has %zu bytes; the most is %d.", name, static_cast<size_t>(bytes), kMaxKeyBytes),
                        errhint("Use a hash of it, such as encode(sha256(convert_to(%s, 'UTF8')), 'hex').", name)));
}

const text *key_argument(FunctionCallInfo fcinfo, int arg, const char *name) {
    const text *key = required_text(fcinfo, arg, name);
    check_key(key, name);
    return key;
}

const text *owner_argument(FunctionCallInfo fcinfo, int arg) {
    const text *owner = optional_text(fcinfo, arg);
    if (owner != nullptr && VARSIZE_ANY_EXHDR(owner) == 0)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("owner must not be empty"),
                        errhint("Leave it out, or give a name that no other caller gives.")));
    return owner;
}

const bytea *fingerprint_argument(FunctionCallInfo fcinfo, int arg) {
    if (PG_ARGISNULL(arg))
        return nullptr;
    const bytea *fingerprint = PG_GETARG_BYTEA_PP(arg);
    const auto bytes = VARSIZE_ANY_EXHDR(fingerprint);
    if (bytes == 0 || bytes > kMaxFingerprintBytes)
        ereport(ERROR,
                (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("fingerprint has %zu bytes", static_cast<size_t>(bytes)),
                 errdetail("It must have from 1 to %d.", kMaxFingerprintBytes),
                 errhint("Use idem_fingerprint, idem_fingerprint_text or idem_fingerprint_bytes.")));
    return fingerprint;
}

core::Micros span_of(const Interval *interval, const char *name) {
    if (!compat_interval_is_finite(interval))
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s must be finite", name)));
    const auto span = core::duration(interval->month, interval->day, interval->time);
    if (!span)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s is out of range", name)));
    return *span;
}

core::Micros positive_span_of(const Interval *interval, const char *name) {
    const core::Micros span = span_of(interval, name);
    if (span <= 0)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s must be positive", name),
                        errhint("Give a span of time such as '30 s' or '1 day'.")));
    return span;
}

core::Micros lease_of(const Interval *interval, const char *name) {
    const core::Micros span = positive_span_of(interval, name);
    if (span > settings::max_lease * USECS_PER_SEC)
        ereport(ERROR,
                (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s is longer than idem.max_lease", name),
                 errdetail("It is %s; idem.max_lease is %s.", interval_text(interval),
                           GetConfigOptionByName("idem.max_lease", nullptr, false)),
                 errhint("A number without a unit is seconds: '30000' is over eight hours. Say '30 s' or '500 ms', or raise "
                         "idem.max_lease.")));
    return span;
}

core::Micros deadline_after(core::Micros now, core::Micros span, const char *name) {
    const auto end = core::deadline(now, span, END_TIMESTAMP - 1);
    if (!end)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("%s is out of range", name)));
    return *end;
}

void check_deadline(core::Micros span, const char *name) { (void)deadline_after(clock_now(), span, name); }

core::Micros wait_argument(FunctionCallInfo fcinfo, int arg) {
    if (PG_ARGISNULL(arg))
        return 0;
    const core::Micros span = span_of(PG_GETARG_INTERVAL_P(arg), "wait");
    if (span < 0)
        ereport(ERROR, (errcode(ERRCODE_INVALID_PARAMETER_VALUE), errmsg("wait must not be negative"),
                        errhint("Use '0' not to wait.")));
    return span == 0 ? 0 : deadline_after(clock_now(), span, "wait");
}

} // namespace idem
