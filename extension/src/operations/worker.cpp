#include "operations/worker.hpp"

namespace idem {

namespace {

constinit shmem_request_hook_type next_request = nullptr;
constinit shmem_startup_hook_type next_startup = nullptr;

// `mutex` guards the other members.
struct Slot {
    slock_t mutex;
    uint64 number; // of the sweep that may report here
    SweepReport report;
};
constinit Slot *slots = nullptr;

void request_memory() {
    if (next_request != nullptr)
        next_request();
    RequestAddinShmemSpace(sizeof(Slot) * kMaxDatabases);
}

void attach_memory() {
    if (next_startup != nullptr)
        next_startup();
    bool found;
    LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
    slots = static_cast<Slot *>(ShmemInitStruct("idem sweeps", sizeof(Slot) * kMaxDatabases, &found));
    if (!found)
        for (int i = 0; i < kMaxDatabases; i++) {
            slots[i] = {};
            SpinLockInit(&slots[i].mutex);
        }
    LWLockRelease(AddinShmemInitLock);
}

void register_launcher() {
    BackgroundWorker launcher{};
    strlcpy(launcher.bgw_name, "idem launcher", BGW_MAXLEN);
    strlcpy(launcher.bgw_type, "idem launcher", BGW_MAXLEN);
    launcher.bgw_flags = BGWORKER_SHMEM_ACCESS | BGWORKER_BACKEND_DATABASE_CONNECTION;
    launcher.bgw_start_time = BgWorkerStart_RecoveryFinished;
    launcher.bgw_restart_time = 5;
    strlcpy(launcher.bgw_library_name, "idem", BGW_MAXLEN);
    strlcpy(launcher.bgw_function_name, "idem_launcher_main", BGW_MAXLEN);
    RegisterBackgroundWorker(&launcher);
}

} // namespace

uint64 begin_report(int slot) {
    SpinLockAcquire(&slots[slot].mutex);
    const uint64 number = ++slots[slot].number;
    slots[slot].report = {SweepOutcome::unknown, 0};
    SpinLockRelease(&slots[slot].mutex);
    return number;
}

void write_report(int slot, uint64 number, SweepReport report) {
    SpinLockAcquire(&slots[slot].mutex);
    if (slots[slot].number == number)
        slots[slot].report = report;
    SpinLockRelease(&slots[slot].mutex);
}

SweepReport read_report(int slot) {
    SpinLockAcquire(&slots[slot].mutex);
    const SweepReport report = slots[slot].report;
    SpinLockRelease(&slots[slot].mutex);
    return report;
}

bool is_locked_against_connections(Oid database) {
    LOCKTAG tag;
    SET_LOCKTAG_OBJECT(tag, InvalidOid, DatabaseRelationId, database, 0);
    if (LockAcquire(&tag, RowExclusiveLock, false, true) == LOCKACQUIRE_NOT_AVAIL)
        return true;
    LockRelease(&tag, RowExclusiveLock, false);
    return false;
}

void worker_initialize() {
    if (!process_shared_preload_libraries_in_progress || IsBinaryUpgrade)
        return;
    next_request = shmem_request_hook;
    shmem_request_hook = request_memory;
    next_startup = shmem_startup_hook;
    shmem_startup_hook = attach_memory;
    register_launcher();
}

} // namespace idem
