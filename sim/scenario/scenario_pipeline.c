/* [pipeline]: how the model is split over GPUs. */
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/units.h"
#include "sim/scenario/scenario_parts.h"

static dl_status read_numbers(const dl_ini *ini, const dl_ini_entry *entry, double **values,
                              size_t *count, dl_error *err)
{
    const dl_key *key = dl_keys_find(&dl_scenario_keys, entry->section, entry->key);
    char **items = NULL;
    dl_status status = dl_ini_split(ini, entry, &items, count, err);
    if (status != DL_OK) return status;
    *values = dl_calloc(*count, sizeof **values, "bytes of cuts");
    for (size_t i = 0; i < *count && status == DL_OK; i++) {
        dl_error inner = {0};
        status = dl_amount_parse(items[i], key->dimension, &(*values)[i], &inner);
        if (status != DL_OK) {
            dl_ini_error(ini, entry, status, err, "%s", inner.text);
        } else {
            status = dl_key_check(key, (*values)[i], items[i], ini, entry, err);
        }
    }
    dl_ini_free_list(items, *count);
    return status;
}

/* split and cut_bytes_per_sample. */
static dl_status read_cuts(dl_scenario_pipeline *pipeline, const dl_ini *ini, dl_error *err)
{
    dl_pipeline_options *options = &pipeline->options;
    const dl_ini_entry *split = dl_ini_find(ini, "pipeline", "split");
    const dl_ini_entry *bytes = dl_ini_find(ini, "pipeline", "cut_bytes_per_sample");
    const size_t cuts = (size_t)pipeline->stages - 1;
    dl_status status = DL_OK;
    if (split != NULL && strcmp(split->value, "balanced") != 0) {
        status = dl_ini_split(ini, split, &options->cuts, &options->cut_count, err);
        if (status == DL_OK && options->cut_count != cuts) {
            status =
                dl_ini_error(ini, split, DL_ERR_RANGE, err,
                             "expected 'balanced' or the first layers of stages 1 to %zu", cuts);
        }
    }
    if (status != DL_OK || bytes == NULL) return status;
    status = read_numbers(ini, bytes, &options->cut_bytes, &options->cut_bytes_count, err);
    if (status == DL_OK && options->cut_bytes_count > 1 && options->cut_bytes_count != cuts) {
        status = dl_ini_error(ini, bytes, DL_ERR_RANGE, err,
                              "expected one number, or one for each of the %zu cuts", cuts);
    }
    return status;
}

/* [pipeline] gpus in place of [machine] workers: as many workers as that makes, where it does. */
static dl_status read_gpus(const dl_scenario *scenario, const dl_ini *ini, dl_sweep_lists *lists,
                           dl_error *err)
{
    const dl_ini_entry *workers = dl_ini_find(ini, "machine", "workers");
    if (dl_ini_find(ini, "pipeline", "gpus") == NULL) return DL_OK;
    if (workers != NULL || dl_ini_find(ini, "machine", "placement") != NULL) {
        return dl_ini_error(ini, dl_ini_find(ini, "pipeline", "gpus"), DL_ERR_DATA, err,
                            "[machine] %s is given too: only one of both",
                            workers != NULL ? "workers" : "placement");
    }
    dl_sweep_list gpus = {0};
    const dl_key *key = dl_keys_find(&dl_scenario_keys, "pipeline", "gpus");
    dl_status status = dl_sweep_list_read(&gpus, ini, key, dl_sweep_number, NULL, err);
    if (status != DL_OK) {
        free(gpus.values);
        return status;
    }
    size_t kept = 0;
    for (size_t i = 0; i < gpus.count; i++) {
        const int count = (int)gpus.values[i];
        if (count % scenario->pipeline->stages == 0) {
            gpus.values[kept++] = count / scenario->pipeline->stages;
        }
    }
    free(lists->workers.values);
    lists->workers = gpus;
    lists->workers.count = kept;
    if (kept > 0) return DL_OK;
    return dl_ini_error(ini, gpus.entry, DL_ERR_RANGE, err, "stages = %d divides none of them",
                        scenario->pipeline->stages);
}

static dl_status check_gpus(const dl_scenario *scenario, const dl_ini *ini,
                            const dl_sweep_lists *lists, dl_error *err)
{
    const int gpus = dl_gpu_options_count(scenario->gpu), stages = scenario->pipeline->stages;
    for (size_t i = 0; i < lists->workers.count; i++) {
        const int workers = (int)lists->workers.values[i];
        if (workers * stages <= gpus) continue;
        return dl_ini_error(ini, lists->workers.entry, DL_ERR_RANGE, err,
                            "%d workers with %d stages each need %d GPUs, there are %d", workers,
                            stages, workers * stages, gpus);
    }
    return DL_OK;
}

/* What goes with a split model: replicas that average gradients at the step's end, or not at all. */
static dl_status check_sync(const dl_scenario *scenario, const dl_ini *ini,
                            const dl_sweep_lists *lists, dl_error *err)
{
    static const struct {
        const char *section, *key, *plain;
    } refused[] = {{"exchange", "overlap", "no"},
                   {"exchange", "compress", "none"},
                   {"exchange", "bucket_bytes", "0"},
                   {"sync", "accumulate", "1"},
                   {"sync", "lag", "0"}};
    for (size_t m = 0; m < lists->mode.count; m++) {
        const dl_mode *mode = dl_modes[(int)lists->mode.values[m]];
        if (mode == &dl_mode_none || mode == &dl_mode_allreduce) continue;
        return dl_ini_error(ini, lists->mode.entry, DL_ERR_DATA, err,
                            "mode %s does not go with [pipeline] stages = %d: none or allreduce",
                            mode->name, scenario->pipeline->stages);
    }
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        const dl_ini_entry *entry = dl_ini_find(ini, refused[i].section, refused[i].key);
        if (entry == NULL || strcmp(entry->value, refused[i].plain) == 0) continue;
        return dl_ini_error(ini, entry, DL_ERR_DATA, err,
                            "this does not go with [pipeline] stages = %d, only %s does",
                            scenario->pipeline->stages, refused[i].plain);
    }
    return DL_OK;
}

/* A GPU with the whole model does one micro-batch after another. */
static dl_status accumulate(const dl_scenario_pipeline *pipeline, const dl_ini *ini,
                            dl_sweep_lists *lists, dl_error *err)
{
    const dl_ini_entry *entry = dl_ini_find(ini, "pipeline", "micro_batches");
    dl_sweep_list *list = &lists->option[DL_SYNC_ACCUMULATE];
    if (entry != NULL && list->entry != NULL) {
        return dl_ini_error(ini, entry, DL_ERR_DATA, err,
                            "[sync] accumulate is given too: only one of both");
    }
    if (entry != NULL) list->values[0] = pipeline->micro_batches;
    return DL_OK;
}

dl_status dl_scenario_read_pipeline(dl_scenario *scenario, const dl_ini *ini, dl_sweep_lists *lists,
                                    dl_error *err)
{
    const dl_ini_entry *entry = NULL;
    for (size_t i = 0; i < ini->count && entry == NULL; i++) {
        if (strcmp(ini->entries[i].section, "pipeline") == 0) entry = &ini->entries[i];
    }
    if (entry == NULL) return DL_OK;
    scenario->pipeline = dl_calloc(1, sizeof *scenario->pipeline, "pipeline");
    dl_status status;
    dl_scenario_pipeline *p = scenario->pipeline;
    if ((status = dl_keys_read(&dl_scenario_keys, DL_OF_PIPELINE, ini, NULL, p, err)) ||
        (p->stages > 1 && (status = read_cuts(p, ini, err))) ||
        (status = read_gpus(scenario, ini, lists, err)) ||
        (status = check_gpus(scenario, ini, lists, err))) {
        return status;
    }
    if (scenario->pipeline->stages > 1) return check_sync(scenario, ini, lists, err);
    return accumulate(scenario->pipeline, ini, lists, err);
}
