/* n-softsync (Gupta, Zhang & Wang 2016): the server updates after workers / n gradients (rounded
 * down); nobody waits for it but, with a bound, those who are ahead of a gradient that would exceed
 * it. */
#include "sim/sync/mode.h"
#include "sim/sync/server.h"

static void advance(dl_team *team, int worker)
{
    const double *option = team->config.option;
    dl_server_async(team, worker,
                    &(dl_server_rule){.gradients = team->config.workers / (int)option[DL_SYNC_N],
                                      .bound = option[DL_SYNC_BOUND]});
}

const dl_mode dl_mode_softsync = {
    .name = "softsync",
    .options = DL_SYNC_ANY | 1u << DL_SYNC_N | 1u << DL_SYNC_BOUND | 1u << DL_SYNC_WHERE,
    .needs = DL_NEED_COPY | DL_NEED_UPDATE | DL_NEED_PARAMETERS,
    .wait = DL_MODE_WAIT_LOCK | DL_MODE_WAIT_BARRIER,
    .staleness = DL_MODE_STALENESS_SOME,
    .advance = advance,
};
