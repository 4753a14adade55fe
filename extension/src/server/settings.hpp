// The settings (idem.*), defined in module.cpp.
#pragma once

namespace idem::settings {

extern int default_ttl;       // seconds
extern int default_lease;     // milliseconds
extern int max_lease;         // seconds
extern int max_response_size; // bytes
extern bool require_registered_scope;
extern int node_id;
extern int sweep_start_delay; // seconds
extern int sweep_interval;    // milliseconds
extern int sweep_pause;       // milliseconds
extern int sweep_workers;
extern char *databases; // names separated by commas
extern int outbox_max_attempts;
extern bool outbox_notify;
extern bool index_descent;

} // namespace idem::settings
