#include "server/sync_standby.hpp"

#include <algorithm>

namespace idem {

namespace {

int wait_mode() {
    switch (synchronous_commit) {
    case SYNCHRONOUS_COMMIT_REMOTE_WRITE:
        return SYNC_REP_WAIT_WRITE;
    case SYNCHRONOUS_COMMIT_REMOTE_APPLY:
        return SYNC_REP_WAIT_APPLY;
    default:
        return SYNC_REP_WAIT_FLUSH;
    }
}

bool standbys_have(XLogRecPtr written) {
    LWLockAcquire(SyncRepLock, LW_SHARED);
    const XLogRecPtr confirmed = WalSndCtl->lsn[wait_mode()];
    LWLockRelease(SyncRepLock);
    return written <= confirmed;
}

} // namespace

void await_standby_at_commit(XLogRecPtr written) {
    if (!SyncRepRequested() || SyncRepStandbyNames == nullptr || SyncRepStandbyNames[0] == '\0' || standbys_have(written))
        return;
    // A commit waits if its transaction has an id and if it believes that it wrote WAL.
    GetTopTransactionId();
    XactLastRecEnd = std::max(XactLastRecEnd, written);
}

} // namespace idem
