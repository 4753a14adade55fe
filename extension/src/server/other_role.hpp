// Runs code as another role.
#pragma once

#include "server/pg.hpp"

namespace idem {

// Runs `work` as `role`. FORCE ROW LEVEL SECURITY has no effect on the role's own tables. Code of that role that `work` runs
// can neither keep changed settings nor defer work until the caller's identity is restored (SECURITY_RESTRICTED_OPERATION).
// After an error, the end of the (sub)transaction restores it.
template <typename Work> void as_role(Oid role, Work work) {
    Oid caller;
    int security_context;
    GetUserIdAndSecContext(&caller, &security_context);
    SetUserIdAndSecContext(role, security_context | SECURITY_LOCAL_USERID_CHANGE | SECURITY_RESTRICTED_OPERATION |
                                     SECURITY_NOFORCE_RLS);
    const int settings = NewGUCNestLevel();
    work();
    AtEOXact_GUC(false, settings);
    SetUserIdAndSecContext(caller, security_context);
}

} // namespace idem
