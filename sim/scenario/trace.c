/* A recorded step in place of the costs' times ([workload] trace). */
#include "common/alloc.h"
#include "sim/scenario/scenario_internal.h"

/* Why a point cannot run a recorded step; NULL: it can. */
static const char *why_not_recorded(const dl_scenario *scenario, const dl_point *point)
{
    const int64_t each = point->batch / point->workers;
    if (dl_point_is_split(point))
        return "the step is of one GPU: stages, shards and tp take the costs' operations";
    if (scenario->gpu->sharded != DL_SHARDED_NONE)
        return "[exchange] sharded: the recorded step's gathers are not in it";
    if (dl_point_workers_per_gpu(point) > 1) return "several workers share a GPU";
    if (point->option[DL_SYNC_ACCUMULATE] > 1)
        return "accumulate > 1: the step is recorded with its micro-batches";
    if (each != scenario->recorded->batch || each * point->workers != point->batch)
        return "its batch is as recorded: [workload] batch_per_worker has to be that";
    return NULL;
}

dl_status dl_scenario_read_trace(dl_scenario *scenario, const dl_ini *ini, dl_error *err)
{
    const dl_ini_entry *entry = dl_ini_find(ini, "workload", "trace");
    if (scenario->trace_path == NULL) return DL_OK;
    if (scenario->gpu == NULL || scenario->scale_path != NULL || scenario->shares != 0)
        return dl_ini_error(ini, entry, DL_ERR_DATA, err,
                            "a recorded step is of a GPU, without scale_compute and shares");
    scenario->recorded = dl_calloc(1, sizeof *scenario->recorded, "recorded step");
    const dl_status status = dl_recorded_read(scenario->recorded, scenario->trace_path, err);
    if (status != DL_OK) return status;
    scenario->scale = DL_SCALE_NO;
    for (size_t i = 0; i < scenario->point_count; i++) {
        const char *why = why_not_recorded(scenario, &scenario->points[i]);
        if (why == NULL) continue;
        return dl_ini_error(ini, entry, DL_ERR_DATA, err, "%s (%lld samples)", why,
                            (long long)scenario->recorded->batch);
    }
    return DL_OK;
}
