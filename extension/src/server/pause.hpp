// Points at which a test holds a session, as the server's injection points. Only a library that is built with -DIDEM_PAUSES has
// them (tests/pauses).
#pragma once

#include "server/pg.hpp"

namespace idem {

#ifdef IDEM_PAUSES
// A session whose application_name is `point` waits here for the advisory lock 0 of the database.
inline void pause_at(const char *point) {
    if (strcmp(application_name, point) != 0)
        return;
    LOCKTAG gate;
    SET_LOCKTAG_ADVISORY(gate, MyDatabaseId, 0, 0, 1);
    (void)LockAcquire(&gate, ShareLock, false, false);
    (void)LockRelease(&gate, ShareLock, false);
}
#else
inline void pause_at(const char *) {}
#endif

} // namespace idem
