#include "server/hmac.hpp"

namespace idem {

namespace {

enum class Start { no_key, same_key, same_key_is_refused };

struct Keyed {
    pg_hmac_ctx *context;
    Start start; // how the next MAC under `key` may be begun
    Size key_size;
    uint8 key[kMostHmacKeyBytes];
};
constinit Keyed keyed{};

void check(int status) {
    if (status < 0)
        elog(ERROR, "could not compute HMAC: %s", pg_hmac_error(keyed.context));
}

// A resource owner of its own keeps it from being released with the statement; a server built without OpenSSL allocates it
// where we are.
void make_context() {
    const ResourceOwner statement = CurrentResourceOwner;
    const MemoryContext memory = MemoryContextSwitchTo(TopMemoryContext);
    CurrentResourceOwner = ResourceOwnerCreate(nullptr, "idem tokens");
    keyed.context = pg_hmac_create(PG_SHA256);
    CurrentResourceOwner = statement;
    MemoryContextSwitchTo(memory);
}

core::Mac finish(Bytes first, Bytes second) {
    core::Mac mac;
    check(pg_hmac_update(keyed.context, static_cast<const uint8 *>(first.at), first.size));
    check(pg_hmac_update(keyed.context, static_cast<const uint8 *>(second.at), second.size));
    check(pg_hmac_final(keyed.context, mac.data(), mac.size()));
    return mac;
}

int begin_with_key() { return pg_hmac_init(keyed.context, keyed.key, keyed.key_size); }

// OpenSSL takes no key for the same key again. The server's own implementation, of builds without it, takes it for an empty
// one.
int begin_with_same_key() { return pg_hmac_init(keyed.context, nullptr, 0); }

// Not to be relied on unseen: a token under an empty key is one that anybody can make.
Start try_same_key(const core::Mac &expected, Bytes first, Bytes second) {
    const bool works = begin_with_same_key() >= 0 && core::same_mac(finish(first, second), expected);
    return works ? Start::same_key : Start::same_key_is_refused;
}

core::Mac take_up_key(Bytes key, Bytes first, Bytes second) {
    keyed.start = Start::no_key; // should anything fail
    Assert(key.size <= kMostHmacKeyBytes);
    keyed.key_size = key.size;
    memcpy(keyed.key, key.at, key.size);
    check(begin_with_key());
    const core::Mac mac = finish(first, second);
    keyed.start = try_same_key(mac, first, second);
    return mac;
}

} // namespace

core::Mac hmac(Bytes key, Bytes first, Bytes second) {
    if (keyed.context == nullptr)
        make_context();
    if (keyed.start == Start::no_key || keyed.key_size != key.size || memcmp(keyed.key, key.at, key.size) != 0)
        return take_up_key(key, first, second);
    check(keyed.start == Start::same_key ? begin_with_same_key() : begin_with_key());
    return finish(first, second);
}

} // namespace idem
