#include "server/invalidation.hpp"

namespace idem {

namespace {

constexpr int kMaxCallbacks = 3;
constinit RelationChanged callbacks[kMaxCallbacks]{};
constinit int count = 0;

void relation_changed(Datum, Oid relation) {
    for (int i = 0; i < count; i++)
        callbacks[i](relation);
}

} // namespace

void on_relation_change(RelationChanged changed) {
    if (count == 0)
        CacheRegisterRelcacheCallback(relation_changed, Datum{0});
    if (count == kMaxCallbacks)
        elog(ERROR, "too many functions ask for changes of relations");
    callbacks[count++] = changed;
}

} // namespace idem
