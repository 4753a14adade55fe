// The trigger on idem_scopes and idem_machines, whose rows sessions cache.
#include "server/pg.hpp"

// After any change, including COPY during a restore, every session reads the table again.
SQL_FUNCTION(idem_definitions_changed) {
    if (!CALLED_AS_TRIGGER(fcinfo))
        ereport(ERROR,
                (errcode(ERRCODE_E_R_I_E_TRIGGER_PROTOCOL_VIOLATED), errmsg("function was not called by trigger manager")));
    CacheInvalidateRelcache(reinterpret_cast<TriggerData *>(fcinfo->context)->tg_relation);
    return Datum{0};
}
