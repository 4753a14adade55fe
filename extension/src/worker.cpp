#include "worker.hpp"

namespace idem {

namespace {

constinit shmem_request_hook_type next_request = nullptr;
constinit shmem_startup_hook_type next_startup = nullptr;
constinit SweepReport *reports = nullptr;

void request_memory() {
    if (next_request != nullptr)
        next_request();
    RequestAddinShmemSpace(sizeof(SweepReport) * kMostDatabases);
}

void attach_memory() {
    if (next_startup != nullptr)
        next_startup();
    bool found;
    LWLockAcquire(AddinShmemInitLock, LW_EXCLUSIVE);
    reports = static_cast<SweepReport *>(ShmemInitStruct("idem sweeps", sizeof(SweepReport) * kMostDatabases, &found));
    if (!found)
        memset(reports, 0, sizeof(SweepReport) * kMostDatabases);
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

SweepReport *sweep_report(int slot) { return &reports[slot]; }

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
