// The waits of a claim and their time limit.
#pragma once

#include "keys/claim_request.hpp"
#include "storage/key_search.hpp"

namespace idem {

class WaitLimit {
  public:
    explicit WaitLimit(const ClaimRequest &request) : request_(request) {}

    // Waits for an uncommitted holder. Returns false when the caller may not wait, or its time limit has passed.
    bool wait_for_commit(const KeyTable &table, const FoundRow &busy);

    // Sleeps until the row changes, the lease ends or a short time passes. The caller then reads the row again. Returns false
    // as wait_for_commit does.
    bool wait_for_lease(core::Micros lease_left);

    // As wait_for_lease, for a row that another transaction had locked at the moment of the write.
    bool wait_for_row();

    // Waits for the end of each transaction that asserts the row's fence, and locks the row.
    Write wait_for_asserters(const KeyTable &table, KeyVersion *version);

    // Whether the caller may wait for a row lock without a time limit.
    bool blocks_on_rows() const { return request_.waits_for_commit || request_.wait_until == core::kForever; }

    // Leaves the waiters. REQUIRES: called at the end of a claim that raised no error.
    void end();

  private:
    core::Micros time_left() const;

    const ClaimRequest &request_;
    LOCKTAG waiters_;
    bool is_waiting_ = false;
};

} // namespace idem
