#include "sim/scenario/scenario.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/units.h"
#include "sim/scenario/scenario_parts.h"

#define POINTS_MAX 10000
#define LOG_MAX 20000000 /* steps x workers: what one replicate keeps in memory */

static dl_status read_batch(dl_scenario *scenario, const dl_ini *ini, dl_sweep_list *list,
                            dl_error *err)
{
    const dl_ini_entry *total = dl_ini_find(ini, "workload", "batch");
    const dl_ini_entry *each = dl_ini_find(ini, "workload", "batch_per_worker");
    if (total != NULL && each != NULL) {
        return dl_ini_error(ini, each, DL_ERR_DATA, err, "batch is given too: only one of both");
    }
    scenario->batch_per_worker = each != NULL;
    const dl_key *key =
        dl_keys_find(&dl_scenario_keys, "workload", each != NULL ? "batch_per_worker" : "batch");
    return dl_sweep_list_read(list, ini, key, dl_sweep_number, NULL, err);
}

static dl_status read_lists(dl_scenario *scenario, const dl_ini *ini, dl_sweep_lists *all,
                            dl_error *err)
{
    dl_status status = dl_scenario_read_machine(scenario, ini, all, err);
    if (status == DL_OK) status = read_batch(scenario, ini, &all->batch, err);
    if (status == DL_OK) status = dl_scenario_read_sync(scenario, ini, all, err);
    return status == DL_OK ? dl_scenario_read_pipeline(scenario, ini, all, err) : status;
}

static bool has_point(const dl_scenario *scenario, const dl_point *point)
{
    for (size_t i = 0; i < scenario->point_count; i++) {
        if (dl_point_equal(&scenario->points[i], point)) return true;
    }
    return false;
}

dl_status dl_scenario_add_point(dl_scenario *scenario, const dl_ini *ini,
                                const dl_sweep_lists *lists, const dl_point *point, dl_error *err)
{
    char text[DL_POINT_TEXT_BYTES];
    if (has_point(scenario, point)) return DL_OK;
    dl_point_text(text, sizeof text, point);
    const int64_t micro_batches = point->workers * (int64_t)point->option[DL_SYNC_ACCUMULATE] *
                                  (point->stages > 1 ? point->micro_batches : 1);
    if (point->batch % micro_batches != 0) {
        return dl_ini_error(ini, lists->batch.entry, DL_ERR_RANGE, err,
                            "%lld %s cannot share the batch evenly (point: %s)",
                            (long long)micro_batches,
                            micro_batches > point->workers ? "micro-batches" : "workers", text);
    }
    if (point->option[DL_SYNC_LAG] > 0 && scenario->gpu != NULL && scenario->gpu->overlap) {
        return dl_ini_error(ini, lists->option[DL_SYNC_LAG].entry, DL_ERR_DATA, err,
                            "not with [exchange] overlap (point: %s)", text);
    }
    const double k = point->option[DL_SYNC_K], n = point->option[DL_SYNC_N];
    const bool one_each = point->mode == &dl_mode_ksync || point->mode == &dl_mode_kasync;
    if ((one_each && k > point->workers) || n > point->workers) {
        return dl_ini_error(ini, lists->option[one_each ? DL_SYNC_K : DL_SYNC_N].entry,
                            DL_ERR_RANGE, err, "there are not so many workers (point: %s)", text);
    }
    if (((double)scenario->steps + point->option[DL_SYNC_INTERVAL]) * point->workers *
            (point->stages > 1 ? point->stages : 1) >
        LOG_MAX) {
        return dl_error_set_at(err, DL_ERR_RANGE, ini->path, 0,
                               "steps times workers exceeds %d (point: %s)", LOG_MAX, text);
    }
    if (scenario->point_count == POINTS_MAX) {
        return dl_error_set_at(err, DL_ERR_RANGE, ini->path, 0, "more than %d points", POINTS_MAX);
    }
    scenario->points =
        dl_realloc(scenario->points, scenario->point_count + 1, sizeof(dl_point), "points");
    scenario->points[scenario->point_count++] = *point;
    return DL_OK;
}

static dl_status add_points(dl_scenario *scenario, const dl_ini *ini, const dl_sweep_lists *all,
                            dl_error *err)
{
    size_t rest = all->mode.count * all->batch.count * all->workers.count;
    dl_status status = DL_OK;
    for (size_t i = 0; i < rest * all->cores.count && status == DL_OK; i++) {
        size_t mode = i % all->mode.count, batch = i / all->mode.count % all->batch.count;
        size_t worker = i / (all->mode.count * all->batch.count) % all->workers.count;
        dl_point point = {.workers = (int)all->workers.values[worker],
                          .cores = (int)all->cores.values[i / rest],
                          .batch = (int64_t)all->batch.values[batch],
                          .mode = dl_modes[(int)all->mode.values[mode]]};
        if (point.cores == DL_CORES_AS_WORKERS) point.cores = point.workers;
        if (scenario->batch_per_worker) point.batch *= point.workers;
        if (scenario->pipeline != NULL) {
            point.stages = scenario->pipeline->stages;
            point.micro_batches = scenario->pipeline->micro_batches;
        }
        status = dl_scenario_add_options(scenario, ini, all, &point, err);
    }
    return status;
}

static dl_status read_slow_item(const char *item, dl_slow_worker *slow, dl_error *err)
{
    const char *colon = strchr(item, ':');
    if (colon == NULL) return dl_error_set(err, DL_ERR_PARSE, "expected worker:factor");
    int64_t worker = 0;
    char *number = dl_format("%.*s", (int)(colon - item), item);
    dl_status status = dl_parse_int(number, 0, DL_WORKERS_MAX - 1, &worker, err);
    free(number);
    slow->worker = (int)worker;
    if (status != DL_OK) return status;
    return dl_parse_double(colon + 1, 1e-6, 1e6, &slow->factor, err);
}

static dl_status read_slow(dl_scenario *scenario, const dl_ini *ini, const dl_sweep_lists *all,
                           dl_error *err)
{
    const dl_ini_entry *entry = dl_ini_find(ini, "noise", "slow");
    if (entry == NULL) return DL_OK;
    char **items = NULL;
    dl_status status = dl_ini_split(ini, entry, &items, &scenario->slow_count, err);
    if (status != DL_OK) return status;
    scenario->slow = dl_calloc(scenario->slow_count, sizeof *scenario->slow, "slow workers");
    int64_t most = 0;
    for (size_t i = 0; i < all->workers.count; i++) {
        if (all->workers.values[i] > most) most = all->workers.values[i];
    }
    for (size_t i = 0; i < scenario->slow_count && status == DL_OK; i++) {
        dl_error inner = {0};
        status = read_slow_item(items[i], &scenario->slow[i], &inner);
        if (status == DL_OK && scenario->slow[i].worker >= most) {
            status =
                dl_error_set(&inner, DL_ERR_RANGE, "no point has a worker %d (they count from 0)",
                             scenario->slow[i].worker);
        }
        for (size_t j = 0; j < i && status == DL_OK; j++) {
            if (scenario->slow[j].worker != scenario->slow[i].worker) continue;
            status = dl_error_set(&inner, DL_ERR_RANGE, "worker %d stands twice",
                                  scenario->slow[i].worker);
        }
        if (status != DL_OK) dl_ini_error(ini, entry, status, err, "%s", inner.text);
    }
    dl_ini_free_list(items, scenario->slow_count);
    return status;
}

char *dl_scenario_beside(const char *file, const char *path)
{
    const char *slash = strrchr(file, '/');
    if (path[0] == '/' || slash == NULL) return dl_strdup(path);
    return dl_format("%.*s%s", (int)(slash - file + 1), file, path);
}

static dl_status read_texts(dl_scenario *scenario, const dl_ini *ini, dl_error *err)
{
    const char *name = NULL, *costs = NULL, *measured = NULL, *scale = NULL;
    dl_status status;
    if ((status = dl_ini_get_string(ini, "scenario", "name", ini->path, &name, err)) ||
        (status = dl_ini_get_string(ini, "workload", "costs", NULL, &costs, err)) ||
        (status = dl_ini_get_string(ini, "workload", "scale_compute", "", &scale, err)) ||
        (status = dl_ini_get_string(ini, "measured", "file", "", &measured, err))) {
        return status;
    }
    scenario->path = dl_strdup(ini->path);
    scenario->name = dl_strdup(name);
    scenario->costs_path = dl_scenario_beside(ini->path, costs);
    if (measured[0] != '\0') scenario->measured_path = dl_scenario_beside(ini->path, measured);
    if (scale[0] != '\0') scenario->scale_path = dl_scenario_beside(ini->path, scale);
    return DL_OK;
}

/* The text of the key that `key` depends on: the file's, else its default; NULL: neither. */
static const char *depends_on(const dl_ini *ini, const dl_key *key, const char *name)
{
    const dl_ini_entry *entry = dl_ini_find(ini, key->section, name);
    return entry != NULL ? entry->value
                         : dl_keys_find(&dl_scenario_keys, key->section, name)->fallback;
}

/* Whether what is given means something here, and what means something without a default is given. */
static dl_status check_dependences(const dl_ini *ini, dl_error *err)
{
    static const char *const needed[][2] = {{"exchange", "topk_frac"}, {"noise", "sigma"}};
    char on[64];
    for (size_t i = 0; i < ini->count; i++) {
        const dl_ini_entry *entry = &ini->entries[i];
        const dl_key *key = dl_keys_find(&dl_scenario_keys, entry->section, entry->key);
        if (!dl_key_depends(key, on, sizeof on) || dl_key_holds(key, depends_on(ini, key, on))) {
            continue;
        }
        return dl_ini_error(ini, entry, DL_ERR_DATA, err, "this needs %s", key->only);
    }
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++) {
        const dl_key *key = dl_keys_find(&dl_scenario_keys, needed[i][0], needed[i][1]);
        const dl_ini_entry *entry = NULL;
        dl_key_depends(key, on, sizeof on);
        if (!dl_key_holds(key, depends_on(ini, key, on))) continue;
        dl_status status = dl_keys_need(ini, key->section, key->name, &entry, err);
        if (status != DL_OK) return status;
    }
    return DL_OK;
}

/* Names, and who takes what. */
static dl_status check_keys(dl_scenario *scenario, const dl_ini *ini, dl_error *err)
{
    const bool on_gpus = dl_ini_find(ini, "machine", "file") != NULL;
    dl_status status = dl_keys_check(&dl_scenario_keys, ini, err);
    for (size_t i = 0; i < ini->count && status == DL_OK; i++) {
        const dl_ini_entry *entry = &ini->entries[i];
        const dl_key *key = dl_keys_find(&dl_scenario_keys, entry->section, entry->key);
        scenario->given[key - dl_scenario_keys.rows] = true;
        if (key->group & DL_TAKE_GPUS && !on_gpus) {
            status = dl_ini_error(ini, entry, DL_ERR_DATA, err, "this needs [machine] file");
        } else if (key->group & DL_TAKE_CORES && on_gpus) {
            status =
                dl_ini_error(ini, entry, DL_ERR_DATA, err, "file is given too: workers are GPUs");
        }
    }
    return status == DL_OK ? check_dependences(ini, err) : status;
}

dl_status dl_scenario_read_ini(dl_scenario *scenario, const dl_ini *ini, dl_error *err)
{
    dl_scenario parsed = {0};
    dl_sweep_lists all = {0};
    dl_status status;
    if ((status = check_keys(&parsed, ini, err)) || (status = read_texts(&parsed, ini, err)) ||
        (status = dl_keys_read(&dl_scenario_keys, DL_OF_SCENARIO, ini, NULL, &parsed, err)) ||
        (status = read_lists(&parsed, ini, &all, err)) ||
        (status = read_slow(&parsed, ini, &all, err)) ||
        (status = add_points(&parsed, ini, &all, err))) {
        dl_scenario_free(&parsed);
    } else {
        *scenario = parsed;
    }
    dl_sweep_lists_free(&all);
    return status;
}

dl_status dl_scenario_read(dl_scenario *scenario, const char *path, dl_error *err)
{
    dl_ini ini = {0};
    dl_status status = dl_ini_read(&ini, path, err);
    if (status != DL_OK) return status;
    status = dl_scenario_read_ini(scenario, &ini, err);
    dl_ini_free(&ini);
    return status;
}

dl_status dl_scenario_read_text(dl_scenario *scenario, const char *name, const char *text,
                                size_t bytes, dl_error *err)
{
    dl_ini ini = {0};
    dl_status status = dl_ini_read_text(&ini, name, text, bytes, err);
    if (status != DL_OK) return status;
    status = dl_scenario_read_ini(scenario, &ini, err);
    dl_ini_free(&ini);
    return status;
}

void dl_scenario_free(dl_scenario *scenario)
{
    free(scenario->path);
    free(scenario->name);
    free(scenario->costs_path);
    free(scenario->measured_path);
    free(scenario->scale_path);
    free(scenario->slow);
    free(scenario->points);
    if (scenario->gpu != NULL) dl_gpu_options_free(scenario->gpu);
    free(scenario->gpu);
    if (scenario->pipeline != NULL) dl_pipeline_options_free(&scenario->pipeline->options);
    free(scenario->pipeline);
    *scenario = (dl_scenario){0};
}

void dl_scenario_slow(const dl_scenario *scenario, int workers, double *slow)
{
    for (int w = 0; w < workers; w++)
        slow[w] = 1;
    for (size_t i = 0; i < scenario->slow_count; i++) {
        if (scenario->slow[i].worker < workers) {
            slow[scenario->slow[i].worker] = scenario->slow[i].factor;
        }
    }
}
