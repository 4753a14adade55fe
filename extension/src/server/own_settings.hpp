// Runs code with other settings.
#pragma once

#include "server/pg.hpp"

namespace idem {

struct Setting {
    const char *name; // one that every user may set
    const char *value;
};

// Runs `work` with these settings, as a function with SET clauses runs. Other settings that `work` changes stay changed. After
// an error, the end of the (sub)transaction restores all settings.
template <int count, typename Work> void with_settings(const Setting (&settings)[count], Work work) {
    const int level = NewGUCNestLevel();
    for (const Setting &setting : settings)
        (void)set_config_option(setting.name, setting.value, PGC_USERSET, PGC_S_SESSION, GUC_ACTION_SAVE, true, 0, false);
    work();
    AtEOXact_GUC(true, level);
}

} // namespace idem
