import entry from './index.js';

export const {
    install, uninstall, status, verify, script, Idem, once, leased, fate, current, IdemError, StaleFence, InvalidTransition, StaleVersion, InFlight, AlreadyDone, Mismatch, InDoubt,
    LeaseLost, CommitUnknown, OutputNotStored, sqlstate,
} = entry;
