/* K-batch-sync SGD (Dutta et al. 2018): as ksync, but who has brought a gradient computes the next
 * one of the same parameters at once; so a fast worker may bring several. */
#include "sim/sync/mode.h"
#include "sim/sync/server.h"

static void advance(dl_team *team, int worker)
{
    dl_server_sync(team, worker,
                   &(dl_server_rule){.gradients = (int64_t)team->config.option[DL_SYNC_K]});
}

const dl_mode dl_mode_kbatchsync = {
    .name = "kbatchsync",
    .options = DL_SYNC_ANY | 1u << DL_SYNC_K | 1u << DL_SYNC_WHERE,
    .required = 1u << DL_SYNC_K,
    .needs = DL_NEED_COPY | DL_NEED_UPDATE | DL_NEED_PARAMETERS,
    .wait = DL_MODE_WAIT_BARRIER,
    .staleness = DL_MODE_STALENESS_ZERO,
    .advance = advance,
};
