/* K-async SGD (Dutta et al. 2018): the server updates with the first k gradients, whatever
 * parameters they are of; who brought one of them waits for the update, the others compute on. */
#include <math.h>

#include "sim/sync/mode.h"
#include "sim/sync/server.h"

static void advance(dl_team *team, int worker)
{
    dl_server_async(team, worker,
                    &(dl_server_rule){.gradients = (int64_t)team->config.option[DL_SYNC_K],
                                      .bound = (double)INFINITY,
                                      .waits = true});
}

const dl_mode dl_mode_kasync = {
    .name = "kasync",
    .options = DL_SYNC_ANY | 1u << DL_SYNC_K | 1u << DL_SYNC_WHERE,
    .required = 1u << DL_SYNC_K,
    .needs = DL_NEED_COPY | DL_NEED_UPDATE | DL_NEED_PARAMETERS,
    .wait = DL_MODE_WAIT_LOCK | DL_MODE_WAIT_BARRIER,
    .staleness = DL_MODE_STALENESS_SOME,
    .advance = advance,
};
