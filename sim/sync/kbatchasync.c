/* K-batch-async SGD (Dutta et al. 2018): the server updates with the first k gradients, of
 * whichever workers; nobody waits for it. */
#include <math.h>

#include "sim/sync/mode.h"
#include "sim/sync/server.h"

static void advance(dl_team *team, int worker)
{
    dl_server_async(team, worker,
                    &(dl_server_rule){.gradients = (int64_t)team->config.option[DL_SYNC_K],
                                      .bound = (double)INFINITY});
}

const dl_mode dl_mode_kbatchasync = {
    .name = "kbatchasync",
    .options = DL_SYNC_ANY | 1u << DL_SYNC_K | 1u << DL_SYNC_WHERE,
    .required = 1u << DL_SYNC_K,
    .needs = DL_NEED_COPY | DL_NEED_UPDATE | DL_NEED_PARAMETERS,
    .wait = DL_MODE_WAIT_LOCK,
    .staleness = DL_MODE_STALENESS_SOME,
    .advance = advance,
};
