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
    return joined == DL_OK ? dl_launcher_check(launcher, (*group)->size, err) : joined;
}
