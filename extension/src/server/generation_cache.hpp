// What a session has read of a table's rows, by scope, until the table changes.
//
// A table has a generation, which increases whenever what was read before may be stale. Nothing of an earlier generation is
// returned. A value that was read while the generation increased is returned but not kept, and an error leaves no value behind.
#pragma once

#include "server/arguments.hpp"
#include "server/pg.hpp"

namespace idem {

template <typename Value> class GenerationCache {
  public:
    // `name`: a literal. `missing`: the value of each scope while the table is empty.
    constexpr GenerationCache(const char *name, const Value &missing) : name_(name), missing_(missing), uncached_(missing) {}

    // Whether the table is known to be empty.
    bool is_empty(uint64 generation) const { return table_is_empty_ && generation_ == generation; }

    // The value of a scope, valid until the next call. If it is not there, `read(Value *, MemoryContext)` reads it, with what
    // it points to in that memory, and returns whether the table is empty. `generation`: the table's counter. REQUIRES: the
    // changes of other sessions were received.
    template <typename Read> const Value &look_up(const text *scope, const uint64 &generation, Read read) {
        if (hash_ == nullptr || generation_ != generation || hash_get_num_entries(hash_) >= kMaxScopes)
            reset(generation);
        if (table_is_empty_)
            return missing_;
        return last_ != nullptr && is_last(scope) ? last_->value : find_or_read(scope, generation, read);
    }

  private:
    static constexpr long kMaxScopes = 1024;

    struct Entry {
        char scope[kMaxScopeBytes + 1]; // the hash key, zero-padded
        Value value;
    };

    void reset(uint64 generation) {
        last_ = nullptr;
        hash_ = nullptr;
        if (memory_ != nullptr)
            MemoryContextReset(memory_);
        else
            memory_ = AllocSetContextCreateInternal(CacheMemoryContext, name_, ALLOCSET_SMALL_SIZES);
        HASHCTL layout{};
        layout.keysize = sizeof Entry::scope;
        layout.entrysize = sizeof(Entry);
        layout.hcxt = memory_;
        hash_ = hash_create(name_, 16, &layout, HASH_ELEM | HASH_BLOBS | HASH_CONTEXT);
        generation_ = generation;
        table_is_empty_ = false;
    }

    // REQUIRES: there was a look-up.
    bool is_last(const text *scope) const {
        return VARSIZE_ANY_EXHDR(scope) == last_bytes_ && memcmp(last_->scope, VARDATA_ANY(scope), last_bytes_) == 0;
    }

    template <typename Read> const Value &find_or_read(const text *scope, const uint64 &generation, Read read) {
        const Size bytes = VARSIZE_ANY_EXHDR(scope);
        if (bytes > kMaxScopeBytes)
            ereport(ERROR, (errcode(ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE),
                            errmsg("a row of idem's tables has a scope of more than %d bytes", kMaxScopeBytes),
                            errdetail("No function of idem makes such a row.")));
        char name[kMaxScopeBytes + 1] = {};
        memcpy(name, VARDATA_ANY(scope), bytes);
        auto *entry = static_cast<Entry *>(hash_search(hash_, name, HASH_FIND, nullptr));
        if (entry == nullptr) {
            Value value = missing_;
            const bool is_empty = read(&value, memory_);
            if (generation_ != generation) {
                uncached_ = value;
                return uncached_;
            }
            table_is_empty_ = is_empty;
            entry = static_cast<Entry *>(hash_search(hash_, name, HASH_ENTER, nullptr));
            entry->value = value;
        }
        last_ = entry; // most calls of a session are about one scope
        last_bytes_ = bytes;
        return entry->value;
    }

    const char *name_;
    Value missing_;
    Value uncached_;
    MemoryContext memory_ = nullptr; // of the entries and of what they point to
    HTAB *hash_ = nullptr;
    uint64 generation_ = 0;
    bool table_is_empty_ = false;
    const Entry *last_ = nullptr; // of the last look-up
    Size last_bytes_ = 0;
};

} // namespace idem
