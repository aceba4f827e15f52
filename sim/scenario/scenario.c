#include "sim/scenario/scenario.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "sim/scenario/calibrate.h"
#include "sim/scenario/scenario_internal.h"

static dl_status read_batch(dl_scenario *scenario, const dl_ini *ini, dl_sweep_list *list,
                            dl_error *err)
{
    const dl_ini_entry *total = dl_ini_find(ini, "workload", "batch");
    const dl_ini_entry *each = dl_ini_find(ini, "workload", "batch_per_worker");
    if (total != NULL && each != NULL) {
        return dl_ini_error(ini, each, DL_ERR_DATA, err, "batch is given too: give only one");
    }
    scenario->batch_per_worker = each != NULL;
    const dl_key *key =
        dl_keys_find(&dl_scenario_keys, "workload", each != NULL ? "batch_per_worker" : "batch");
    const dl_generators *generators = scenario->generators;
    if (generators == NULL) return dl_sweep_list_read(list, ini, key, dl_sweep_number, NULL, err);
    if (total != NULL || each != NULL) {
        return dl_ini_error(ini, total != NULL ? total : each, DL_ERR_DATA, err,
                            "[generators] prompts times answers is the batch");
    }
    const double answers = (double)generators->prompts * generators->answers;
    return dl_sweep_list_read(list, ini, key, dl_sweep_number, &answers, err);
}

static bool some_mode_takes(const dl_sweep_list *modes, dl_sync_option option)
{
    for (size_t m = 0; m < modes->count; m++) {
        if (dl_mode_takes(dl_modes[(int)modes->values[m]], option)) return true;
    }
    return false;
}

/* Rejects keys of a syncer, and absences, if no mode takes them. */
static dl_status check_syncer(const dl_ini *ini, const dl_sweep_list *modes, dl_error *err)
{
    const dl_ini_entry *entry = NULL, *away = dl_scenario_absence_entry(ini);
    for (size_t i = 0; i < ini->count && entry == NULL; i++) {
        if (strcmp(ini->entries[i].section, "syncer") == 0) entry = &ini->entries[i];
    }
    if (entry != NULL && !some_mode_takes(modes, DL_SYNC_SYNCER)) {
        return dl_ini_error(ini, entry, DL_ERR_DATA, err, "this needs [sync] mode = async_average");
    }
    if (away != NULL && !some_mode_takes(modes, DL_SYNC_AWAY)) {
        return dl_ini_error(
            ini, away, DL_ERR_DATA, err,
            "this needs [sync] mode = average or async_average, whose workers go on "
            "without those that fail; where one stops all, give mtbf_s");
    }
    return DL_OK;
}

static dl_status read_lists(dl_scenario *scenario, const dl_ini *ini, dl_sweep_lists *all,
                            dl_error *err)
{
    dl_status status = dl_scenario_read_workers(scenario, ini, all, err);
    if (status == DL_OK) status = dl_scenario_read_generators(scenario, ini, err);
    if (status == DL_OK) status = read_batch(scenario, ini, &all->batch, err);
    if (status == DL_OK) status = dl_scenario_read_sync(scenario, ini, all, err);
    if (status == DL_OK) status = check_syncer(ini, &all->mode, err);
    if (status == DL_OK) status = dl_scenario_read_layout(scenario, ini, all, err);
    return status == DL_OK ? dl_scenario_take_trainer(scenario, ini, all, err) : status;
}

typedef struct gpu_costs_reader {
    dl_scenario *scenario;
    const dl_ini *ini;
} gpu_costs_reader;

/* Parses "GPU:FILE". */
static dl_status take_gpu_costs(void *user, char *item, dl_error *err)
{
    const gpu_costs_reader *r = user;
    dl_scenario *s = r->scenario;
    const dl_machine *m = &s->gpu->machine;
    const char *colon = strchr(item, ':');
    if (colon == NULL || colon[1] == '\0')
        return dl_error_set(err, DL_ERR_PARSE, "expected GPU:FILE, not '%s'", item);
    DL_AUTOFREE const char **names =
        dl_calloc((size_t)m->model_count, sizeof *names, "names of GPUs");
    for (int i = 0; i < m->model_count; i++)
        names[i] = m->models[i].name;
    DL_AUTOFREE char *name = dl_strndup(item, (size_t)(colon - item));
    char hint[256] = "";
    const int model = dl_names_find(name, names, (size_t)m->model_count);
    if (model < 0) dl_names_hint(hint, sizeof hint, name, names, (size_t)m->model_count);
    dl_status status = DL_OK;
    if (model < 0)
        status = dl_error_set(err, DL_ERR_NAME, "%s has no GPU model '%s'%s", m->path, name, hint);
    for (size_t i = 0; i < s->gpu_costs_count && status == DL_OK; i++)
        if (s->gpu_costs[i].model == model)
            status = dl_error_set(err, DL_ERR_RANGE, "'%s': that GPU is given twice", item);
    if (status != DL_OK) return status;
    DL_APPEND(s->gpu_costs, s->gpu_costs_count, "cost files of GPUs") = (dl_gpu_costs){
        .model = model, .path = dl_ini_beside(r->ini, colon + 1 + strspn(colon + 1, " "))};
    return DL_OK;
}

static dl_status read_gpu_costs(dl_scenario *scenario, const dl_ini *ini, dl_error *err)
{
    const dl_ini_entry *entry = dl_ini_find(ini, "workload", "gpu_costs");
    gpu_costs_reader reader = {scenario, ini};
    if (entry == NULL) return DL_OK;
    if (scenario->model != NULL)
        return dl_ini_error(ini, entry, DL_ERR_DATA, err, "model is given too: give only one");
    return dl_ini_each(ini, entry, take_gpu_costs, &reader, err);
}

/* Whether [generators] sets the duration of an update, so that no costs are needed. */
static bool trains_by_keys(const dl_ini *ini)
{
    return dl_ini_find(ini, "generators", "train_token_gpu_s") != NULL ||
           dl_ini_find(ini, "generators", "on_policy_s") != NULL;
}

static dl_status read_texts(dl_scenario *scenario, const dl_ini *ini, dl_error *err)
{
    const char *name = NULL, *costs = NULL, *measured = NULL, *scale = NULL, *trace = NULL;
    const dl_ini_entry *number = dl_ini_find(ini, "workload", "samples_per_s");
    if (number != NULL && dl_ini_find(ini, "workload", "model") != NULL) {
        return dl_ini_error(ini, number, DL_ERR_DATA, err, "a model is given too: give only one");
    }
    dl_status status;
    if ((status = dl_ini_get_string(ini, "scenario", "name", ini->path, &name, err)) ||
        (status = dl_scenario_read_model(scenario, ini, err)) ||
        (status = dl_ini_get_string(
             ini, "workload", "costs",
             scenario->model != NULL || number != NULL || trains_by_keys(ini) ? "" : NULL, &costs,
             err)) ||
        (status = dl_ini_get_string(ini, "workload", "scale_compute", "", &scale, err)) ||
        (status = dl_ini_get_string(ini, "workload", "trace", "", &trace, err)) ||
        (status = dl_ini_get_string(ini, "measured", "file", "", &measured, err))) {
        return status;
    }
    scenario->path = dl_strdup(ini->path);
    scenario->name = dl_strdup(name);
    if (costs[0] != '\0') scenario->costs_path = dl_ini_beside(ini, costs);
    if (measured[0] != '\0') scenario->measured_path = dl_ini_beside(ini, measured);
    if (scale[0] != '\0') scenario->scale_path = dl_ini_beside(ini, scale);
    if (trace[0] != '\0') scenario->trace_path = dl_ini_beside(ini, trace);
    return DL_OK;
}

/* Returns the value of the key that `key` depends on: the one that the layout implies, else that of
 * the file, else the default; NULL: none. */
static const char *depends_on(const dl_ini *ini, const dl_key *key, const char *name)
{
    const dl_ini_entry *entry = dl_ini_find(ini, key->section, name);
    const char *of_layout = dl_scenario_layout_says(ini, name);
    if (of_layout != NULL) return of_layout;
    return entry != NULL ? entry->value
                         : dl_keys_find(&dl_scenario_keys, key->section, name)->fallback;
}

/* Checks that the given keys apply, and that applicable keys without a default are given. */
static dl_status check_dependences(const dl_ini *ini, dl_error *err)
{
    static const char *const needed[][2] = {{"exchange", "topk_frac"}, {"noise", "sigma"}};
    char on[64];
    for (size_t i = 0; i < ini->count; i++) {
        const dl_ini_entry *entry = &ini->entries[i];
        const dl_key *key = dl_keys_find(&dl_scenario_keys, entry->section, entry->key);
        /* Keys of [fabric] also depend on the topology of the machine file. */
        if (strcmp(key->section, "fabric") == 0) continue;
        if (!dl_key_depends(key, on, sizeof on) || dl_key_holds(key, depends_on(ini, key, on))) {
            continue;
        }
        return dl_ini_error(ini, entry, DL_ERR_DATA, err,
                            dl_scenario_layout_says(ini, on) != NULL
                                ? "not with fsdp layouts, which shard parameters: this needs %s"
                            : strcmp(key->only, "model") == 0
                                ? "this needs %s, a network by --workload: costs that are given, "
                                  "as by --samples-per-s or --costs, are of one choice already"
                                : "this needs %s",
                            key->only);
    }
    for (size_t i = 0; i < DL_LENGTH(needed); i++) {
        const dl_key *key = dl_keys_find(&dl_scenario_keys, needed[i][0], needed[i][1]);
        dl_key_depends(key, on, sizeof on);
        if (!dl_key_holds(key, depends_on(ini, key, on)) ||
            dl_ini_find(ini, key->section, key->name) != NULL)
            continue;
        return dl_ini_error(ini, dl_ini_find(ini, key->section, on), DL_ERR_DATA, err,
                            "this needs [%s] %s (--set %s.%s=NUMBER)", key->section, key->name,
                            key->section, key->name);
    }
    return DL_OK;
}

/* Checks the keys' names, and that the keys apply to the scenario's workers; notes which keys are
 * given. */
static dl_status check_keys(dl_scenario *scenario, const dl_ini *ini, dl_error *err)
{
    const bool on_gpus = dl_ini_find(ini, "machine", "file") != NULL;
    dl_status status = dl_keys_check(&dl_scenario_keys, ini, err);
    for (size_t i = 0; i < ini->count && status == DL_OK; i++) {
        const dl_ini_entry *entry = &ini->entries[i];
        const dl_key *key = dl_keys_find(&dl_scenario_keys, entry->section, entry->key);
        scenario->given[key - dl_scenario_keys.rows] = true;
        if (key->group & DL_TAKE_GPUS && !on_gpus) {
            status = dl_ini_error(ini, entry, DL_ERR_DATA, err,
                                  "this is simulated on GPUs only: it needs [machine] file "
                                  "(--machine NAME)");
        } else if (key->group & DL_TAKE_CORES && on_gpus) {
            status =
                dl_ini_error(ini, entry, DL_ERR_DATA, err, "file is given too: workers are GPUs");
        }
    }
    return status == DL_OK ? check_dependences(ini, err) : status;
}

/* Returns the reason why a point cannot run a recorded step; NULL: it can. */
static const char *why_not_recorded(const dl_scenario *scenario, const dl_point *point)
{
    const int64_t each = point->batch / point->workers;
    if (dl_point_is_split(point))
        return "the step is of one GPU: stages, shards and tp take the costs' operations";
    if (scenario->gpu->sharded != DL_SHARDED_NONE)
        return "[exchange] sharded: the recorded step's gathers are not in it";
    const dl_fetch fetch = dl_scenario_exchange(scenario, point).fetch;
    if (dl_mode_sends_tensors(point->mode) &&
        (fetch == DL_FETCH_LAYERS || fetch == DL_FETCH_NEXT_STEP))
        return "[exchange] fetch: the recorded step's layers wait for no parameters";
    if (dl_point_workers_per_gpu(point) > 1) return "several workers share a GPU";
    if (point->option[DL_SYNC_ACCUMULATE] > 1)
        return "accumulate > 1: the step is recorded with its micro-batches";
    if (each != scenario->recorded->batch || each * point->workers != point->batch)
        return "[workload] batch_per_worker must be the recorded batch";
    return NULL;
}

/* Keys of what a recorded step contains. */
static const struct {
    const char *section, *key;
} recorded_keys[] = {{"machine", "dispatch"}, {"machine", "ahead"},  {"machine", "reads"},
                     {"input", "made"},       {"input", "prefetch"}, {"input", "cores"}};

/* Reads the recorded step of [workload] trace, and checks that all points can run it. Its times are
 * those of the GPU on which it was recorded. */
static dl_status read_trace(dl_scenario *scenario, const dl_ini *ini, dl_error *err)
{
    const dl_ini_entry *entry = dl_ini_find(ini, "workload", "trace");
    if (scenario->trace_path == NULL) return DL_OK;
    if (scenario->gpu == NULL || scenario->scale_path != NULL || scenario->shares != 0)
        return dl_ini_error(ini, entry, DL_ERR_DATA, err,
                            "a recorded step is of a GPU, without scale_compute and shares");
    for (size_t k = 0; k < DL_LENGTH(recorded_keys); k++) {
        const dl_ini_entry *given =
            dl_ini_find(ini, recorded_keys[k].section, recorded_keys[k].key);
        if (given == NULL) continue;
        return dl_ini_error(ini, given, DL_ERR_DATA, err,
                            "the recorded step of [workload] trace has its own launches, waits and "
                            "input");
    }
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

/* Reads how workers on cores divide the model state, from the keys of [exchange] that GPUs share
 * with them. */
static dl_status read_sharded(dl_scenario *scenario, const dl_ini *ini, dl_error *err)
{
    dl_gpu_options shared = {0};
    if (scenario->gpu != NULL) return DL_OK;
    const dl_status status = dl_keys_read(&dl_scenario_keys, DL_OF_GPU, ini, NULL, &shared, err);
    scenario->sharded = shared.sharded;
    scenario->keeps_parameters = shared.keeps_parameters;
    return status;
}

/* Default of PyTorch's DataLoader: batches prefetched per loader. */
#define PREFETCH_OF_LOADER 2

static void set_prefetch(dl_scenario *scenario, const dl_ini *ini)
{
    if (scenario->gpu != NULL || dl_ini_find(ini, "input", "prefetch") != NULL) return;
    scenario->input.prefetch = PREFETCH_OF_LOADER * scenario->input.loaders;
}

static dl_status read_plain(dl_scenario *scenario, const dl_ini *ini, dl_error *err)
{
    dl_scenario parsed = {0};
    DL_SCOPED(dl_sweep_lists) all = {0};
    dl_status status;
    if ((status = check_keys(&parsed, ini, err)) || (status = read_texts(&parsed, ini, err)) ||
        (status = dl_keys_read(&dl_scenario_keys, DL_OF_SCENARIO, ini, NULL, &parsed, err)) ||
        (status = read_lists(&parsed, ini, &all, err)) ||
        (status = read_sharded(&parsed, ini, err)) ||
        (status = read_gpu_costs(&parsed, ini, err)) ||
        (status = dl_target_read(&parsed.target, ini, err)) ||
        (status = dl_calibrate_read(&parsed.calibrate, ini, err)) ||
        (status = dl_scenario_read_failures(&parsed, ini, &all.workers, err)) ||
        (status = dl_scenario_check_network(&parsed, err)) ||
        (status = dl_scenario_add_points(&parsed, ini, &all, err)) ||
        (status = read_trace(&parsed, ini, err))) {
        dl_scenario_free(&parsed);
    } else {
        set_prefetch(&parsed, ini);
        dl_scenario_set_updates(&parsed, ini);
        *scenario = parsed;
    }
    return status;
}

dl_status dl_scenario_read_ini(dl_scenario *scenario, const dl_ini *ini, dl_error *err)
{
    const dl_ini_entry *mode = dl_ini_find(ini, "sync", "mode");
    const dl_mode_shorthand *word = mode != NULL ? dl_mode_shorthand_find(mode->value) : NULL;
    if (word == NULL) return read_plain(scenario, ini, err);
    const dl_ini_entry *given = dl_ini_find(ini, word->section, word->key);
    if (given != NULL && strcmp(given->value, word->value) != 0)
        return dl_ini_error(ini, given, DL_ERR_DATA, err,
                            "[sync] mode = %s is %s with %s = %s: give only one", word->word,
                            word->mode, word->key, word->value);
    dl_ini plain = *ini;
    plain.entries = dl_calloc(ini->count + 1, sizeof *plain.entries, "INI entries");
    memcpy(plain.entries, ini->entries, ini->count * sizeof *plain.entries);
    plain.entries[mode - ini->entries].value = (char *)word->mode;
    plain.entries[plain.count++] = (dl_ini_entry){.section = word->section,
                                                  .key = (char *)word->key,
                                                  .value = (char *)word->value,
                                                  .line = mode->line};
    const dl_status status = read_plain(scenario, &plain, err);
    free(plain.entries);
    for (size_t p = 0; status == DL_OK && p < scenario->point_count; p++)
        scenario->points[p].word = word->word;
    return status;
}

dl_status dl_scenario_read(dl_scenario *scenario, const char *path, dl_error *err)
{
    DL_SCOPED(dl_ini) ini = {0};
    dl_status status = dl_ini_read(&ini, path, err);
    if (status != DL_OK) return status;
    return dl_scenario_read_ini(scenario, &ini, err);
}

dl_status dl_scenario_read_text(dl_scenario *scenario, const char *name, const char *text,
                                size_t bytes, dl_error *err)
{
    DL_SCOPED(dl_ini) ini = {0};
    dl_status status = dl_ini_read_text(&ini, name, text, bytes, err);
    if (status != DL_OK) return status;
    return dl_scenario_read_ini(scenario, &ini, err);
}

void dl_scenario_free(dl_scenario *scenario)
{
    free(scenario->path);
    free(scenario->name);
    free(scenario->costs_path);
    free(scenario->model);
    free(scenario->device);
    free(scenario->measured_path);
    free(scenario->scale_path);
    free(scenario->trace_path);
    if (scenario->recorded != NULL) dl_recorded_free(scenario->recorded);
    free(scenario->recorded);
    for (size_t i = 0; i < scenario->gpu_costs_count; i++)
        free(scenario->gpu_costs[i].path);
    free(scenario->gpu_costs);
    free(scenario->slow);
    free(scenario->absences.listed);
    free(scenario->failures.at_s);
    dl_target_free(&scenario->target);
    free(scenario->points);
    if (scenario->gpu != NULL) dl_gpu_options_free(scenario->gpu);
    free(scenario->gpu);
    dl_generators_free(scenario->generators);
    if (scenario->pipeline != NULL) dl_pipeline_options_free(&scenario->pipeline->options);
    free(scenario->pipeline);
    *scenario = (dl_scenario){0};
}
