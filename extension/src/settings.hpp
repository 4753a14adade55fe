// The settings (idem.*), defined in module.cpp.
#pragma once

namespace idem::settings {

extern int default_ttl;       // seconds
extern int default_lease;     // milliseconds
extern int max_response_size; // bytes
extern bool require_registered_scope;
extern int node_id;

} // namespace idem::settings
