// Acting as another role for a moment.
#pragma once

#include "server/pg.hpp"

namespace idem {

// Runs `work` as `role`, past row-level security that is the role's own to force. Code of that role may run: it can neither
// leave settings behind nor put anything off until the caller is back (SECURITY_RESTRICTED_OPERATION). An error brings the
// caller's identity back at the end of the (sub)transaction.
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
