#include "server/hmac.hpp"

namespace idem {

namespace {

enum class Reuse { no_key, digested_key, key };

struct Cache {
    pg_hmac_ctx *context;
    Reuse reuse; // the start of the next MAC with the same key
    Size key_size;
    uint8 key[kMaxHmacKeyBytes];
};
constinit Cache cache{};

void check(int status) {
    if (status < 0)
        elog(ERROR, "could not compute HMAC: %s", pg_hmac_error(cache.context));
}

// A resource owner of its own keeps the context from being released with the statement. A server built without OpenSSL
// allocates it in the current memory context.
void make_context() {
    const ResourceOwner statement = CurrentResourceOwner;
    const MemoryContext memory = MemoryContextSwitchTo(TopMemoryContext);
    CurrentResourceOwner = ResourceOwnerCreate(nullptr, "idem tokens");
    cache.context = pg_hmac_create(PG_SHA256);
    CurrentResourceOwner = statement;
    MemoryContextSwitchTo(memory);
}

core::Mac finish(Bytes first, Bytes second) {
    core::Mac mac;
    check(pg_hmac_update(cache.context, static_cast<const uint8 *>(first.data), first.size));
    check(pg_hmac_update(cache.context, static_cast<const uint8 *>(second.data), second.size));
    check(pg_hmac_final(cache.context, mac.data(), mac.size()));
    return mac;
}

int start_with_key() { return pg_hmac_init(cache.context, cache.key, cache.key_size); }

// OpenSSL takes "no key" as "the last key". The server's own implementation, in builds without OpenSSL, takes it as an empty
// key.
int start_with_digested_key() { return pg_hmac_init(cache.context, nullptr, 0); }

// Tests whether the digested key gives the same MAC. An empty key in its place would let every client sign tokens.
Reuse test_digested_key(const core::Mac &expected, Bytes first, Bytes second) {
    const bool works = start_with_digested_key() >= 0 && core::same_mac(finish(first, second), expected);
    return works ? Reuse::digested_key : Reuse::key;
}

core::Mac use_new_key(Bytes key, Bytes first, Bytes second) {
    cache.reuse = Reuse::no_key; // if a call below fails
    Assert(key.size <= kMaxHmacKeyBytes);
    cache.key_size = key.size;
    memcpy(cache.key, key.data, key.size);
    check(start_with_key());
    const core::Mac mac = finish(first, second);
    cache.reuse = test_digested_key(mac, first, second);
    return mac;
}

} // namespace

core::Mac hmac(Bytes key, Bytes first, Bytes second) {
    if (cache.context == nullptr)
        make_context();
    if (cache.reuse == Reuse::no_key || cache.key_size != key.size || memcmp(cache.key, key.data, key.size) != 0)
        return use_new_key(key, first, second);
    check(cache.reuse == Reuse::digested_key ? start_with_digested_key() : start_with_key());
    return finish(first, second);
}

} // namespace idem
