/* [machine]: cores and workers. */
#include "sim/scenario_parts.h"

#include <string.h>

#include "common/units.h"

static dl_status read_cores(const char *text, const void *about, double *value, dl_error *err)
{
    const int64_t *high = about;
    if (strcmp(text, "workers") == 0) {
        *value = DL_CORES_AS_WORKERS;
    } else if (strcmp(text, "measured") == 0) {
        *value = DL_CORES_MEASURED;
    } else if (dl_sweep_number(text, about, value, err) != DL_OK) {
        return dl_error_set(err, DL_ERR_PARSE,
                            "expected 'workers', 'measured' or a whole number from 1 to %lld, "
                            "not '%s'",
                            (long long)*high, text);
    }
    return DL_OK;
}

dl_status dl_scenario_read_machine(const dl_ini *ini, dl_sweep_lists *lists, dl_error *err)
{
    static const int64_t high = DL_WORKERS_MAX;
    dl_status status =
        dl_sweep_list_read(&lists->cores, ini, "machine", "cores", read_cores, &high, NULL, err);
    if (status != DL_OK) return status;
    return dl_sweep_list_read(&lists->workers, ini, "machine", "workers", dl_sweep_number, &high,
                              NULL, err);
}

/* Whether points[count] hold one like it. */
static bool is_among(const dl_point *points, size_t count, const dl_point *point)
{
    for (size_t i = 0; i < count; i++) {
        if (dl_point_equal(&points[i], point)) return true;
    }
    return false;
}

dl_status dl_scenario_set_measured_cores(dl_scenario *scenario, int64_t cores, dl_error *err)
{
    size_t kept = 0, count = scenario->point_count;
    for (size_t i = 0; i < count; i++) {
        if (scenario->points[i].cores != DL_CORES_MEASURED || cores > 0) continue;
        return dl_error_set_at(err, DL_ERR_DATA, scenario->path, 0,
                               "[machine] cores = measured, but %s lacks [costs] cores",
                               scenario->costs_path);
    }
    for (size_t i = 0; i < count; i++) {
        dl_point point = scenario->points[i];
        if (point.cores == DL_CORES_MEASURED) point.cores = (int)cores;
        if (!is_among(scenario->points, kept, &point)) scenario->points[kept++] = point;
    }
    scenario->point_count = kept;
    return DL_OK;
}
