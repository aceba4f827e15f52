#include "kernels/ranks/rank_group.h"

#include "common/options.h"
#include "kernels/exchange.h"

dl_status dl_rank_group_join(dl_rank_group **group, const dl_launcher *launcher,
                             const char *settings, double limit_s, dl_error *err)
{
    dl_rank_join_function join = NULL;
    const dl_status status = dl_cluster_entry(launcher, DL_RANK_ENTRY, &join, err);
    if (status != DL_OK) return status;
    const dl_rank_settings wanted = {
        .limit_s = limit_s, .settings = settings, .version = dl_version(), .add = dl_exchange_sum};
    const dl_status joined = join(group, &wanted, err);
    if (joined != DL_OK || launcher->size == 0 || (*group)->size == launcher->size) return joined;
    return dl_error_set(err, DL_ERR_SYSTEM,
                        "%s has started %d processes, but MPI knows %d of them: it is another "
                        "MPI's than dlprof was built with",
                        launcher->name, launcher->size, (*group)->size);
}
