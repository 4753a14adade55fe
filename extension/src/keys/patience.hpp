// How long a claim may still wait, and how it waits.
#pragma once

#include "keys/claim_request.hpp"
#include "storage/key_store.hpp"

namespace idem {

class Patience {
  public:
    explicit Patience(const ClaimRequest &request) : request_(request) {}

    // Waits for an uncommitted holder. False: the caller may not wait (any longer).
    bool wait_for_commit(const KeyTable &table, const Probe &busy);

    // Sleeps until the row is changed, a lease ends, or a while is over; the caller then looks again. False: as above.
    bool wait_for_lease(core::Micros lease_left);

    // The same, for a row that another transaction held at the moment of the write.
    bool wait_for_row();

    // Locks the row against the transactions that assert its fence: waits for the end of each.
    Write wait_for_asserters(const KeyTable &table, ItemPointer version);

    // Whether a lock on a row may be waited for without bound.
    bool blocks_on_rows() const { return request_.waits_for_commit || request_.wait_until == core::kForever; }

    // REQUIRED at the end of a claim that raised no error.
    void end();

  private:
    core::Micros time_left() const;

    const ClaimRequest &request_;
    LOCKTAG waiters_;
    bool is_waiting_ = false;
};

} // namespace idem
