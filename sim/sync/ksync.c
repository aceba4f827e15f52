/* K-sync SGD (Dutta et al. 2018): the server updates with the first k gradients of its newest
 * parameters; the other workers are cut short, and all begin anew. */
#include "sim/sync/mode.h"
#include "sim/sync/server.h"

static void advance(dl_team *team, int worker)
{
    dl_server_sync(
        team, worker,
        &(dl_server_rule){.gradients = (int64_t)team->config.option[DL_SYNC_K], .waits = true});
}

const dl_mode dl_mode_ksync = {
    .name = "ksync",
    .options = DL_SYNC_ANY | 1u << DL_SYNC_K | 1u << DL_SYNC_WHERE,
    .required = 1u << DL_SYNC_K,
    .needs = DL_NEED_COPY | DL_NEED_UPDATE | DL_NEED_PARAMETERS,
    .wait = DL_MODE_WAIT_BARRIER,
    .staleness = DL_MODE_STALENESS_ZERO,
    .advance = advance,
};
