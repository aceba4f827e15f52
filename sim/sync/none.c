/* No exchange: independent copies that share the machine. */
#include "sim/sync/mode.h"

static void advance(dl_team *team, int worker)
{
    switch (team->workers[worker].stage++) {
    case 0: dl_team_compute(team, worker, true); break;
    default: dl_team_end_step(team, worker); break;
    }
}

const dl_mode dl_mode_none = {
    .name = "none",
    .options = DL_SYNC_ANY,
    .advance = advance,
};
