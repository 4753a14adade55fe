#include "keys/key_row.hpp"

#include "server/arguments.hpp"
#include "server/bytes.hpp"
#include "storage/fence.hpp"

namespace idem {

using core::ClaimWrite;
using core::State;

namespace {

// A fingerprint of the standard form starts with its algorithm's version, a small number.
bool is_standard(const bytea *fingerprint) {
    constexpr Size kBytes = 1 + PG_SHA256_DIGEST_LENGTH;
    constexpr uint8 kGreatestVersion = 15;
    return VARSIZE_ANY_EXHDR(fingerprint) == kBytes && static_cast<uint8>(*VARDATA_ANY(fingerprint)) <= kGreatestVersion;
}

// Fingerprints of different algorithm versions are not comparable, so they do not differ. All others are compared byte by byte.
bool fingerprints_differ(Datum stored, const bytea *given) {
    const auto *left = reinterpret_cast<const bytea *>(PG_DETOAST_DATUM_PACKED(stored));
    if (is_standard(left) && is_standard(given) && *VARDATA_ANY(left) != *VARDATA_ANY(given))
        return false;
    return compare_bytes(left, given) != 0;
}

} // namespace

core::KeyFacts claim_facts(const ClaimRequest &request, const FoundRow &found, const KeyRow &row) {
    core::KeyFacts facts = facts_of(row, found.own_transaction, request.manual_policy);
    facts.fingerprints_differ = request.fingerprint != nullptr && !row.is_null(KeyColumn::fingerprint) &&
                                fingerprints_differ(row.get(KeyColumn::fingerprint), request.fingerprint);
    facts.same_owner = is_owner(row, request.owner);
    return facts;
}

namespace {

void set_optional(KeyRow *row, AttrNumber column, const void *value) {
    if (value != nullptr)
        row->set(column, PointerGetDatum(value));
}

void set_lease(KeyRow *row, const ClaimRequest &request, core::Micros now) {
    row->set(KeyColumn::lease_until, TimestampTzGetDatum(deadline_after(now, request.lease, "lease")));
}

// Sets the columns of the key's present holder and its deadlines.
void set_holder(KeyRow *row, const ClaimRequest &request, core::Micros now, int32 attempt, int64 fence_floor) {
    row->set(KeyColumn::created_at, TimestampTzGetDatum(now));
    row->set(KeyColumn::expires_at, TimestampTzGetDatum(deadline_after(now, request.ttl, "ttl")));
    row->set(KeyColumn::attempt, Int32GetDatum(attempt));
    row->set_null(KeyColumn::completed_at);
    row->set_null(KeyColumn::owner);
    set_optional(row, KeyColumn::owner, request.owner);
    set_optional(row, KeyColumn::fingerprint, request.fingerprint);
    if (request.lease == 0) {
        // The key is completed when the transaction commits. No other session sees this state before that.
        row->set(KeyColumn::state, CharGetDatum(static_cast<char>(State::completed)));
        row->set_null(KeyColumn::fence);
        row->set_null(KeyColumn::lease_until);
    } else {
        row->set(KeyColumn::state, CharGetDatum(static_cast<char>(State::in_progress)));
        row->set(KeyColumn::fence, Int64GetDatum(next_fence(fence_floor)));
        set_lease(row, request, now);
    }
}

} // namespace

KeyRow new_key_row(const ClaimRequest &request, core::Micros now, int64 fence_floor) {
    KeyRow row;
    memset(row.values, 0, sizeof row.values);
    memset(row.nulls, true, sizeof row.nulls);
    row.set(KeyColumn::scope, PointerGetDatum(request.scope));
    row.set(KeyColumn::key, PointerGetDatum(request.key));
    set_holder(&row, request, now, 1, fence_floor);
    return row;
}

KeyRow changed_key_row(const KeyRow &stored, ClaimWrite write, const ClaimRequest &request, core::Micros now) {
    const int64 fence = stored.is_null(KeyColumn::fence) ? 0 : DatumGetInt64(stored.get(KeyColumn::fence));
    KeyRow row = stored;
    switch (write) {
    case ClaimWrite::restart:
        row = new_key_row(request, now, fence);
        break;
    case ClaimWrite::next_attempt:
        set_holder(&row, request, now, DatumGetInt32(stored.get(KeyColumn::attempt)) + 1, fence);
        break;
    case ClaimWrite::renew:
        set_lease(&row, request, now);
        if (request.renewal_extends_ttl)
            row.set(KeyColumn::expires_at, TimestampTzGetDatum(deadline_after(now, request.ttl, "ttl")));
        if (row.is_null(KeyColumn::fingerprint))
            set_optional(&row, KeyColumn::fingerprint, request.fingerprint);
        break;
    case ClaimWrite::mark_in_doubt:
        row.set(KeyColumn::state, CharGetDatum(static_cast<char>(State::in_doubt)));
        break;
    case ClaimWrite::none:
        break;
    }
    return row;
}

int response_size(const Jsonb *body) { return static_cast<int>(VARSIZE(body) - VARHDRSZ); }

bool is_stored(const Response &response, const ScopePolicy &policy) {
    if (response.body == nullptr)
        return response.fallback == nullptr;
    return response_size(response.body) <= policy.max_response_size;
}

KeyRow completed_row(const KeyRow &stored, const Response &response, const ScopePolicy &policy, core::Micros now,
                     bool is_in_ring) {
    KeyRow row = stored;
    const core::Micros expires_at = row.time(KeyColumn::expires_at);
    if (expires_at != core::kForever && !is_in_ring) {
        // A response may be replaced by a later one in the same transaction.
        const AttrNumber start = row.is_null(KeyColumn::completed_at) ? KeyColumn::created_at : KeyColumn::completed_at;
        row.set(KeyColumn::expires_at, TimestampTzGetDatum(deadline_after(now, expires_at - row.time(start), "ttl")));
    }
    row.set(KeyColumn::state, CharGetDatum(static_cast<char>(State::completed)));
    row.set_null(KeyColumn::lease_until);
    row.set(KeyColumn::completed_at, TimestampTzGetDatum(now));
    row.set_null(KeyColumn::status_code);
    if (response.has_status_code)
        row.set(KeyColumn::status_code, Int32GetDatum(response.status_code));
    row.set_null(KeyColumn::response);
    row.set_null(KeyColumn::response_omitted);
    if (is_stored(response, policy)) {
        set_optional(&row, KeyColumn::response, response.body);
        return row;
    }
    row.set(KeyColumn::response_omitted, BoolGetDatum(true));
    if (response.fallback != nullptr && response_size(response.fallback) <= policy.max_response_size)
        row.set(KeyColumn::response, PointerGetDatum(response.fallback));
    return row;
}

void warn_unless_stored(const Response &response, const ScopePolicy &policy) {
    if (response.body == nullptr || is_stored(response, policy))
        return;
    ereport(WARNING,
            (errcode(ERRCODE_PROGRAM_LIMIT_EXCEEDED), errmsg("response was not stored"),
             errdetail("It has %d bytes; the scope allows %d.", response_size(response.body), policy.max_response_size),
             errhint("Raise max_response_size of the scope, or the setting idem.max_response_size.")));
}

} // namespace idem
