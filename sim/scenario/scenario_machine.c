/* [machine] and [exchange]: where the workers are, and how they exchange on GPUs. */
#include "sim/scenario/scenario_parts.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/names.h"
#include "common/units.h"
#include "sim/platform/placement.h"

static dl_status read_cores(const char *text, const dl_key *key, double *value, dl_error *err)
{
    int64_t number = 0;
    if (strcmp(text, "workers") == 0) {
        *value = DL_CORES_AS_WORKERS;
    } else if (strcmp(text, "measured") == 0) {
        *value = DL_CORES_MEASURED;
    } else if (dl_parse_int(text, 1, DL_WORKERS_MAX, &number, err) == DL_OK) {
        *value = (double)number;
    } else {
        return dl_error_set(err, DL_ERR_PARSE,
                            "expected 'workers', 'measured' or a whole number from 1 to %d, "
                            "not '%s'",
                            DL_WORKERS_MAX, text);
    }
    (void)key;
    return DL_OK;
}

/* A GPU of [machine] gpus or [sync] where. */
static dl_status read_gpu(const dl_gpu_options *gpu, const char *text, int64_t *number,
                          dl_error *err)
{
    int count = gpu->machine.nodes * gpu->machine.gpu_count;
    return dl_parse_int(text, 0, count - 1, number, err);
}

static dl_status read_gpus(dl_gpu_options *gpu, const dl_ini *ini, dl_error *err)
{
    const dl_ini_entry *entry = dl_ini_find(ini, "machine", "gpus");
    if (entry == NULL) return DL_OK;
    char **items = NULL;
    size_t count = 0;
    dl_status status = dl_ini_split(ini, entry, &items, &count, err);
    if (status != DL_OK) return status;
    gpu->gpus = dl_calloc(count, sizeof *gpu->gpus, "GPUs of workers");
    gpu->gpu_count = (int)count;
    int64_t before = -1;
    for (size_t i = 0; i < count && status == DL_OK; i++) {
        dl_error inner = {0};
        int64_t number = 0;
        status = read_gpu(gpu, items[i], &number, &inner);
        if (status == DL_OK && number <= before) {
            status = dl_error_set(&inner, DL_ERR_RANGE, "the numbers must ascend");
        }
        if (status != DL_OK) dl_ini_error(ini, entry, status, err, "%s", inner.text);
        gpu->gpus[i] = (int)(before = number);
    }
    dl_ini_free_list(items, count);
    return status;
}

/* Workers on the nodes as the text says; then it gives their number too. */
static dl_status read_placement(dl_gpu_options *gpu, const dl_ini *ini, dl_sweep_list *workers,
                                dl_error *err)
{
    const dl_ini_entry *entry = dl_ini_find(ini, "machine", "placement");
    if (entry == NULL) return DL_OK;
    if (gpu->gpus != NULL || workers->entry != NULL) {
        return dl_ini_error(ini, entry, DL_ERR_DATA, err,
                            "gpus or workers are given too: a placement tells both");
    }
    dl_error inner = {0};
    dl_status status =
        dl_placement_gpus(entry->value, &gpu->machine, &gpu->gpus, &gpu->gpu_count, &inner);
    if (status != DL_OK) return dl_ini_error(ini, entry, status, err, "%s", inner.text);
    workers->values[0] = gpu->gpu_count;
    return DL_OK;
}

static dl_status read_shards(dl_gpu_options *gpu, const dl_ini *ini, dl_error *err)
{
    static const int64_t one = 1;
    const dl_ini_entry *entry = dl_ini_find(ini, "exchange", "shards");
    int64_t shards = 0;
    if (entry != NULL && strcmp(entry->value, "workers") == 0) {
        gpu->shards = 0;
        return DL_OK;
    }
    dl_status status =
        dl_ini_get_int(ini, "exchange", "shards", 1, DL_SHARDS_MAX, &one, &shards, err);
    gpu->shards = (int)shards;
    return status;
}

static dl_status read_algorithm(dl_gpu_options *gpu, const dl_ini *ini, dl_error *err)
{
    const dl_key *key = dl_keys_find(&dl_scenario_keys, "exchange", "algorithm");
    const dl_ini_entry *entry = dl_ini_find(ini, key->section, key->name);
    dl_error inner = {0};
    int algorithm = 0;
    dl_status status =
        dl_key_choice(key, entry != NULL ? entry->value : key->fallback, &algorithm, &inner);
    gpu->algorithm = key->choices[algorithm >= 0 ? algorithm : 0];
    return status == DL_OK ? DL_OK : dl_ini_error(ini, entry, status, err, "%s", inner.text);
}

/* More workers than GPUs would share them, which is not simulated. */
static dl_status check_workers(const dl_gpu_options *gpu, const dl_ini *ini,
                               const dl_sweep_list *workers, dl_error *err)
{
    int count = dl_gpu_options_count(gpu);
    for (size_t i = 0; i < workers->count; i++) {
        if (workers->values[i] <= count) continue;
        return dl_ini_error(ini, workers->entry, DL_ERR_RANGE, err,
                            "%.0f workers, but %d GPUs: several workers on a GPU are not simulated",
                            workers->values[i], count);
    }
    return DL_OK;
}

static dl_status read_gpu_machine(dl_scenario *scenario, const dl_ini *ini,
                                  const dl_ini_entry *file, dl_sweep_lists *lists, dl_error *err)
{
    char *path = dl_scenario_beside(ini->path, file->value);
    dl_gpu_options *gpu = scenario->gpu = dl_calloc(1, sizeof *gpu, "machine");
    dl_status status = dl_machine_read(&gpu->machine, path, err);
    free(path);
    if (status != DL_OK) return status;
    if (gpu->machine.gpu_count == 0) {
        return dl_ini_error(ini, file, DL_ERR_DATA, err, "the machine has no GPUs");
    }
    dl_links_init(&gpu->links, &gpu->machine);
    if ((status = read_gpus(gpu, ini, err)) ||
        (status = read_placement(gpu, ini, &lists->workers, err)) ||
        (status = dl_keys_read(&dl_scenario_keys, DL_OF_GPU, ini, NULL, gpu, err)) ||
        (status = read_shards(gpu, ini, err)) || (status = read_algorithm(gpu, ini, err))) {
        return status;
    }
    gpu->own_buckets = dl_ini_find(ini, "exchange", "bucket_bytes") == NULL;
    lists->cores.values = dl_calloc(1, sizeof(double), "swept values");
    lists->cores.values[0] = DL_CORES_GPU;
    lists->cores.count = 1;
    return check_workers(gpu, ini, &lists->workers, err);
}

dl_status dl_scenario_read_machine(dl_scenario *scenario, const dl_ini *ini, dl_sweep_lists *lists,
                                   dl_error *err)
{
    const dl_ini_entry *file = dl_ini_find(ini, "machine", "file");
    static const double one = 1; /* until the placement is read */
    const bool placed = file != NULL && (dl_ini_find(ini, "machine", "placement") != NULL ||
                                         dl_ini_find(ini, "pipeline", "gpus") != NULL);
    const dl_key *workers = dl_keys_find(&dl_scenario_keys, "machine", "workers");
    const dl_key *cores = dl_keys_find(&dl_scenario_keys, "machine", "cores");
    dl_status status = dl_sweep_list_read(&lists->workers, ini, workers, dl_sweep_number,
                                          placed ? &one : NULL, err);
    if (status != DL_OK) return status;
    if (file != NULL) return read_gpu_machine(scenario, ini, file, lists, err);
    return dl_sweep_list_read(&lists->cores, ini, cores, read_cores, NULL, err);
}

/* Averages can be all-reduced; who waits for a lock, or has the server update, needs a server. */
static bool can_reduce(const dl_mode *mode)
{
    return mode->needs & DL_NEED_AVERAGE && !(mode->wait & DL_MODE_WAIT_LOCK);
}

static dl_status read_place(dl_gpu_options *gpu, const dl_sweep_list *modes, const char *text,
                            dl_error *err)
{
    static const char *const places[] = {"cpu", "gpu:0", "allreduce"};
    if (strcmp(text, "cpu") == 0) return DL_OK;
    if (gpu == NULL) {
        return dl_error_set(err, DL_ERR_DATA, "without [machine] file, cpu is the only place");
    }
    if (strncmp(text, "gpu:", 4) == 0) {
        int64_t number = 0;
        dl_status status = read_gpu(gpu, text + 4, &number, err);
        gpu->where = DL_WHERE_GPU;
        gpu->where_gpu = (int)number;
        return status;
    }
    if (strcmp(text, "allreduce") != 0) {
        char hint[160];
        dl_names_hint(hint, sizeof hint, text, places, 3);
        return dl_error_set(err, DL_ERR_NAME, "unknown place%s", hint);
    }
    gpu->where = DL_WHERE_ALLREDUCE;
    for (size_t m = 0; m < modes->count; m++) {
        const dl_mode *mode = dl_modes[(int)modes->values[m]];
        if (!(mode->options & 1u << DL_SYNC_WHERE) || can_reduce(mode)) continue;
        return dl_error_set(err, DL_ERR_DATA, "mode %s needs a server: cpu or gpu:K", mode->name);
    }
    return DL_OK;
}

dl_status dl_scenario_read_where(dl_scenario *scenario, const dl_ini *ini,
                                 const dl_sweep_list *modes, dl_error *err)
{
    const dl_ini_entry *entry = dl_ini_find(ini, "sync", "where");
    if (entry == NULL) return DL_OK;
    dl_error inner = {0};
    dl_status status = read_place(scenario->gpu, modes, entry->value, &inner);
    if (status != DL_OK) dl_ini_error(ini, entry, status, err, "%s", inner.text);
    return status;
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
