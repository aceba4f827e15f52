#include "sim/scenario/scenario.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/names.h"
#include "common/units.h"
#include "sim/platform/placement.h"
#include "sim/scenario/machine_catalogue.h"
#include "sim/scenario/scenario_internal.h"
#include "sim/workloads/architecture.h"

/* `path` relative to the folder of `file`; the caller frees it. */
static char *beside(const char *file, const char *path)
{
    const char *slash = strrchr(file, '/');
    if (path[0] == '/' || slash == NULL) return dl_strdup(path);
    return dl_format("%.*s%s", (int)(slash - file + 1), file, path);
}

/* --- [machine] and [exchange] --------------------------------------------------------------- */

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

static dl_status read_workers(const char *text, const dl_key *key, double *value, dl_error *err)
{
    if (strcmp(text, "all") != 0) return dl_sweep_number(text, key, value, err);
    *value = DL_WORKERS_ALL;
    return DL_OK;
}

/* Replaces "all" by the number of GPUs. */
static dl_status resolve_workers(const dl_gpu_options *gpu, const dl_ini *ini,
                                 dl_sweep_list *workers, dl_error *err)
{
    const int gpus = gpu != NULL ? dl_gpu_options_count(gpu) : 0;
    for (size_t i = 0; i < workers->count; i++) {
        if (workers->values[i] != DL_WORKERS_ALL) continue;
        if (gpu == NULL) {
            return dl_ini_error(ini, workers->entry, DL_ERR_DATA, err,
                                "all means the GPUs of [machine] file, which is not given");
        }
        if (gpus > DL_WORKERS_MAX) {
            return dl_ini_error(ini, workers->entry, DL_ERR_RANGE, err,
                                "all are %d GPUs: more than %d workers are not simulated", gpus,
                                DL_WORKERS_MAX);
        }
        for (size_t j = 0; j < workers->count; j++) {
            if (workers->values[j] != gpus) continue;
            return dl_ini_error(ini, workers->entry, DL_ERR_RANGE, err,
                                "all are %d GPUs, which are given too", gpus);
        }
        workers->values[i] = gpus;
    }
    return DL_OK;
}

/* Replaces the machine file's number of nodes. */
static dl_status read_nodes(dl_machine *machine, const dl_ini *ini, dl_error *err)
{
    const dl_ini_entry *entry = dl_ini_find(ini, "machine", "nodes");
    const int64_t own = machine->nodes;
    int64_t nodes = own;
    dl_status status =
        dl_ini_get_int(ini, "machine", "nodes", 1, DL_WORKERS_MAX, &own, &nodes, err);
    if (status != DL_OK) return status;
    machine->nodes = (int)nodes;
    dl_error why = {0};
    status = dl_machine_check_gpus(machine, &why);
    if (status != DL_OK) return dl_ini_error(ini, entry, status, err, "%s", why.text);
    if (nodes > 1 && dl_machine_fewest_nics(machine) == 0) {
        return dl_ini_error(ini, entry, DL_ERR_DATA, err,
                            "the nodes of %s are not connected: it has no [nics ..]",
                            machine->path);
    }
    return DL_OK;
}

/* A GPU of [machine] gpus or [sync] where. */
static dl_status read_gpu(const dl_gpu_options *gpu, const char *text, int64_t *number,
                          dl_error *err)
{
    return dl_parse_int(text, 0, dl_machine_gpus(&gpu->machine) - 1, number, err);
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

/* Reads the placement of workers on nodes, which also gives their number. */
static dl_status read_placement(dl_gpu_options *gpu, const dl_ini *ini, dl_sweep_list *workers,
                                dl_error *err)
{
    const dl_ini_entry *entry = dl_ini_find(ini, "machine", "placement");
    if (entry == NULL) return DL_OK;
    if (gpu->gpus != NULL || workers->entry != NULL) {
        return dl_ini_error(ini, entry, DL_ERR_DATA, err,
                            "gpus or workers are given too: a placement gives both");
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
    if (entry != NULL && strcmp(entry->value, "nodes") == 0) {
        gpu->shards = DL_SHARDS_NODES;
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

/* More workers than GPUs are allowed only on GPUs listed in [machine] gpus, so never by
 * accident. */
static dl_status check_workers(const dl_gpu_options *gpu, const dl_ini *ini,
                               const dl_sweep_list *workers, dl_error *err)
{
    const int count = dl_gpu_options_count(gpu);
    const bool is_connected = dl_machine_fewest_nics(&gpu->machine) > 0;
    for (size_t i = 0; i < workers->count; i++) {
        const double wanted = workers->values[i];
        if (wanted <= count || gpu->gpus != NULL) continue;
        const long long nodes = dl_machine_nodes_for(&gpu->machine, (int64_t)wanted);
        char *more =
            is_connected ? dl_format("[machine] nodes = %lld adds nodes; ", nodes) : dl_strdup("");
        dl_status status =
            dl_ini_error(ini, workers->entry, DL_ERR_RANGE, err,
                         "%.0f workers, but %d GPUs: %sgpus lists those that "
                         "workers share%s",
                         wanted, count, more,
                         is_connected ? ""
                                      : "; for more nodes give the box a network, as in "
                                        "2xrtx3090@10gbe");
        free(more);
        return status;
    }
    return DL_OK;
}

/* Checks the machine file's fabric with the scenario's changes. */
static dl_status check_fabric(const dl_machine *machine, const dl_ini *ini, dl_error *err)
{
    dl_error why = {0};
    const dl_status status = dl_machine_check_fabric(machine, &why);
    if (status == DL_OK) return DL_OK;
    return dl_error_set_at(err, status, ini->path, dl_ini_section_line(ini, "fabric"), "%s",
                           why.text);
}

static dl_status read_gpu_machine(dl_scenario *scenario, const dl_ini *ini,
                                  const dl_ini_entry *file, dl_sweep_lists *lists, dl_error *err)
{
    char *path = beside(ini->path, file->value);
    dl_gpu_options *gpu = scenario->gpu = dl_calloc(1, sizeof *gpu, "machine");
    dl_status status = dl_machine_open(&gpu->machine, path, err);
    free(path);
    if (status == DL_OK) status = read_nodes(&gpu->machine, ini, err);
    if (status != DL_OK) return status;
    if ((status = read_gpus(gpu, ini, err)) ||
        (status = read_placement(gpu, ini, &lists->workers, err)) ||
        (status = dl_keys_read(&dl_scenario_keys, DL_OF_GPU, ini, NULL, gpu, err)) ||
        (status = dl_machine_read_slots(&gpu->machine, ini, err)) ||
        (status = check_fabric(&gpu->machine, ini, err)) || (status = read_shards(gpu, ini, err)) ||
        (status = read_algorithm(gpu, ini, err))) {
        return status;
    }
    if (gpu->port_bytes_per_s.known && dl_machine_has_unlike_ports(&gpu->machine)) {
        return dl_ini_error(
            ini, dl_ini_find(ini, "machine", "port_bytes_per_s"), DL_ERR_UNSUPPORTED, err,
            "the ports of %s differ between nodes: change their [link]s there", gpu->machine.path);
    }
    gpu->compression = scenario->compression;
    gpu->prefetch = scenario->input.prefetch;
    gpu->storage_bytes_per_s = scenario->input.storage_bytes_per_s;
    gpu->cached_frac = scenario->input.cached_frac;
    dl_links_init(&gpu->links, &gpu->machine);
    gpu->own_buckets = dl_ini_find(ini, "exchange", "bucket_bytes") == NULL;
    lists->cores.values = dl_calloc(1, sizeof(double), "swept values");
    lists->cores.values[0] = DL_CORES_GPU;
    lists->cores.count = 1;
    status = resolve_workers(gpu, ini, &lists->workers, err);
    return status == DL_OK ? check_workers(gpu, ini, &lists->workers, err) : status;
}

static dl_status read_machine(dl_scenario *scenario, const dl_ini *ini, dl_sweep_lists *lists,
                              dl_error *err)
{
    const dl_ini_entry *file = dl_ini_find(ini, "machine", "file");
    static const double one = 1; /* until the placement is read */
    const bool generates = dl_ini_section_line(ini, "generators") > 0;
    const bool placed =
        generates || (file != NULL && (dl_ini_find(ini, "machine", "placement") != NULL ||
                                       dl_ini_find(ini, "machine", "layout") != NULL ||
                                       dl_ini_find(ini, "pipeline", "gpus") != NULL));
    const dl_key *workers = dl_keys_find(&dl_scenario_keys, "machine", "workers");
    const dl_key *cores = dl_keys_find(&dl_scenario_keys, "machine", "cores");
    dl_status status =
        dl_sweep_list_read(&lists->workers, ini, workers, read_workers, placed ? &one : NULL, err);
    if (status != DL_OK) return status;
    if (file != NULL) return read_gpu_machine(scenario, ini, file, lists, err);
    status = resolve_workers(NULL, ini, &lists->workers, err);
    if (status != DL_OK) return status;
    return dl_sweep_list_read(&lists->cores, ini, cores, read_cores, generates ? &one : NULL, err);
}

/* --- the file ------------------------------------------------------------------------------- */

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

/* Refuses keys of a syncer, and absences, if no mode has them. */
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

/* Tokens of a sample of the trainer's step: a packed sequence of the model's length, or, if samples
 * have no length, an answer with its prompt. */
static double sample_tokens(const dl_scenario *scenario)
{
    const dl_generators *g = scenario->generators;
    dl_architecture network = {0};
    double tokens = g->length_mean + g->prompt_tokens;
    if (scenario->model == NULL || dl_architecture_make(&network, scenario->model, NULL) != DL_OK)
        return tokens;
    if (network.sequence > 0) tokens = (double)network.sequence;
    dl_architecture_free(&network);
    return tokens;
}

/* Sets points of the trainer beside [generators]: its GPUs, and as many micro-batches as an
 * update's tokens fill. */
static dl_status take_trainer(dl_scenario *scenario, const dl_ini *ini, dl_sweep_lists *all,
                              dl_error *err)
{
    dl_generators *g = scenario->generators;
    if (g == NULL) return DL_OK;
    if (dl_scenario_trains_by_keys(scenario)) {
        if (scenario->gpu == NULL || scenario->model != NULL) return DL_OK;
        /* The machine gives only the number of GPUs. */
        dl_gpu_options_free(scenario->gpu);
        free(scenario->gpu);
        scenario->gpu = NULL;
        all->cores.values[0] = 1;
        return DL_OK;
    }
    if (all->workers.entry != NULL) {
        return dl_ini_error(ini, all->workers.entry, DL_ERR_DATA, err,
                            "[generators] says which GPUs train");
    }
    dl_scenario_pipeline *split = scenario->pipeline;
    const int shards = split != NULL && split->shards > 1 ? split->shards : 1;
    const int ranks = split != NULL ? shards * split->stages : 1;
    const int gpus = dl_generators_trainer_gpus(g);
    if (gpus % ranks != 0 || g->gpus % ranks != 0) {
        return dl_error_set_at(
            err, DL_ERR_RANGE, ini->path, dl_ini_section_line(ini, "generators"),
            "[generators]: %d trainer GPUs of %d are no multiple of a worker's %d", gpus, g->gpus,
            ranks);
    }
    g->sample_tokens = sample_tokens(scenario);
    const double samples =
        (double)g->prompts * g->answers * (g->length_mean + g->prompt_tokens) / g->sample_tokens;
    const double of_worker = samples * ranks / gpus;
    const double micro_batches = fmax(1, ceil(of_worker / (shards * g->micro_batch)));
    if (all->mode.entry == NULL)
        all->mode.values[0] = dl_names_find("allreduce", dl_mode_names, DL_MODES);
    all->workers.values[0] = (double)gpus / ranks;
    all->batch.values[0] = micro_batches * gpus / ranks * shards * g->micro_batch;
    if (split != NULL && split->stages > 1) {
        split->micro_batches = (int)micro_batches;
    } else {
        all->option[DL_SYNC_ACCUMULATE].values[0] = micro_batches;
    }
    return DL_OK;
}

static dl_status read_lists(dl_scenario *scenario, const dl_ini *ini, dl_sweep_lists *all,
                            dl_error *err)
{
    dl_status status = read_machine(scenario, ini, all, err);
    if (status == DL_OK) {
        const dl_gpu_options *gpu = scenario->gpu;
        status = dl_generators_read(&scenario->generators, ini,
                                    gpu != NULL ? dl_gpu_options_count(gpu) : 0, err);
    }
    if (status == DL_OK) status = read_batch(scenario, ini, &all->batch, err);
    if (status == DL_OK) status = dl_scenario_read_sync(scenario, ini, all, err);
    if (status == DL_OK) status = check_syncer(ini, &all->mode, err);
    if (status == DL_OK) status = dl_scenario_read_layout(scenario, ini, all, err);
    return status == DL_OK ? take_trainer(scenario, ini, all, err) : status;
}

/* "GPU:FILE". */
static dl_status read_gpu_costs_item(const char *item, const dl_ini *ini, const dl_machine *m,
                                     dl_gpu_costs *costs, dl_error *err)
{
    const char *colon = strchr(item, ':');
    if (colon == NULL || colon[1] == '\0') {
        return dl_error_set(err, DL_ERR_PARSE, "expected GPU:FILE, not '%s'", item);
    }
    const char **names = dl_calloc((size_t)m->model_count, sizeof *names, "names of GPUs");
    for (int i = 0; i < m->model_count; i++)
        names[i] = m->models[i].name;
    char *name = dl_format("%.*s", (int)(colon - item), item);
    char hint[256] = "";
    costs->model = dl_names_find(name, names, (size_t)m->model_count);
    if (costs->model < 0) dl_names_hint(hint, sizeof hint, name, names, (size_t)m->model_count);
    free(names);
    dl_status status = DL_OK;
    if (costs->model < 0) {
        status = dl_error_set(err, DL_ERR_NAME, "%s has no GPU model '%s'%s", m->path, name, hint);
    } else {
        costs->path = beside(ini->path, colon + 1 + strspn(colon + 1, " "));
    }
    free(name);
    return status;
}

static dl_status read_gpu_costs(dl_scenario *scenario, const dl_ini *ini, dl_error *err)
{
    const dl_ini_entry *entry = dl_ini_find(ini, "workload", "gpu_costs");
    char **items = NULL;
    size_t count = 0;
    if (entry == NULL) return DL_OK;
    if (scenario->model != NULL) {
        return dl_ini_error(ini, entry, DL_ERR_DATA, err, "model is given too: only one of both");
    }
    dl_status status = dl_ini_split(ini, entry, &items, &count, err);
    if (status != DL_OK) return status;
    scenario->gpu_costs = dl_calloc(count, sizeof *scenario->gpu_costs, "cost files of GPUs");
    for (size_t i = 0; i < count && status == DL_OK; i++) {
        dl_gpu_costs *costs = &scenario->gpu_costs[i];
        dl_error inner = {0};
        status = read_gpu_costs_item(items[i], ini, &scenario->gpu->machine, costs, &inner);
        scenario->gpu_costs_count = i + 1;
        for (size_t j = 0; j < i && status == DL_OK; j++) {
            if (scenario->gpu_costs[j].model != costs->model) continue;
            status = dl_error_set(&inner, DL_ERR_RANGE, "'%s': that GPU is given twice", items[i]);
        }
        if (status != DL_OK) dl_ini_error(ini, entry, status, err, "%s", inner.text);
    }
    dl_ini_free_list(items, count);
    return status;
}

static dl_status read_slow_item(const char *item, dl_slow_worker *slow, dl_error *err)
{
    const char *colon = strchr(item, ':');
    if (colon == NULL) {
        return dl_error_set(err, DL_ERR_PARSE, "expected WORKER:FACTOR, as 1:2, not '%s'", item);
    }
    int64_t worker = 0;
    char *number = dl_format("%.*s", (int)(colon - item), item);
    dl_status status = dl_parse_int(number, 0, DL_WORKERS_MAX - 1, &worker, err);
    free(number);
    slow->worker = (int)worker;
    if (status != DL_OK) return status;
    return dl_parse_double(colon + 1, 1e-6, 1e6, &slow->factor, err);
}

/* Refuses a worker that no point has. */
static dl_status check_worker(const dl_sweep_list *workers, int worker, dl_error *err)
{
    for (size_t i = 0; i < workers->count; i++)
        if (worker < workers->values[i]) return DL_OK;
    return dl_error_set(err, DL_ERR_RANGE, "no point has a worker %d (they count from 0)", worker);
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
    for (size_t i = 0; i < scenario->slow_count && status == DL_OK; i++) {
        dl_error inner = {0};
        status = read_slow_item(items[i], &scenario->slow[i], &inner);
        if (status == DL_OK) {
            status = check_worker(&all->workers, scenario->slow[i].worker, &inner);
        }
        for (size_t j = 0; j < i && status == DL_OK; j++) {
            if (scenario->slow[j].worker != scenario->slow[i].worker) continue;
            status = dl_error_set(&inner, DL_ERR_RANGE, "worker %d is given twice",
                                  scenario->slow[i].worker);
        }
        if (status != DL_OK) dl_ini_error(ini, entry, status, err, "%s", inner.text);
    }
    dl_ini_free_list(items, scenario->slow_count);
    return status;
}

#define STEP_MAX_NS 3.6e12 /* an hour */

static dl_status check_factor(double factor, dl_error *err)
{
    const double most = DL_CALIBRATE_FACTOR_MAX;
    if (factor >= 1 / most && factor <= most) return DL_OK;
    return dl_error_set(err, DL_ERR_RANGE,
                        "a number without a unit is a factor, from %g to %g; a measured step has "
                        "a unit, as 212ms",
                        1 / most, most);
}

/* "212 ms". */
static dl_status parse_step(const char *text, double *step_ns, dl_error *err)
{
    const size_t number = strspn(text, "0123456789.eE+-");
    if (number == 0 || text[number] == '\0') {
        return dl_error_set(err, DL_ERR_PARSE,
                            "expected a measured step, as 212ms, 212ms@8 (of 8 workers) or "
                            "212ms@8x32 (with 32 samples each)");
    }
    const dl_status status = dl_amount_parse(text, DL_DIMENSION_NS, step_ns, err);
    if (status != DL_OK || (*step_ns > 0 && *step_ns <= STEP_MAX_NS)) return status;
    return dl_error_set(err, DL_ERR_RANGE, "a step takes more than 0 s and %s at most",
                        DL_NS_TEXT(STEP_MAX_NS));
}

/* "8" or "8x32", after the '@'. */
static dl_status parse_calibrated_point(const char *text, dl_calibrate *calibrate, dl_error *err)
{
    const size_t bytes = strcspn(text, "x");
    int64_t workers = 0;
    char *number = dl_strndup_trimmed(text, bytes);
    dl_status status = dl_parse_int(number, 1, DL_WORKERS_MAX, &workers, err);
    free(number);
    calibrate->workers = (int)workers;
    if (status == DL_OK && text[bytes] == 'x')
        status = dl_parse_int(text + bytes + 1, 1, INT32_MAX, &calibrate->samples, err);
    return status;
}

static dl_status parse_calibrate(const char *text, dl_calibrate *calibrate, dl_error *err)
{
    *calibrate = (dl_calibrate){0};
    char *end = NULL;
    const double factor = strtod(text, &end);
    if (end != text && *end == '\0') {
        calibrate->factor = factor;
        return check_factor(factor, err);
    }
    const size_t bytes = strcspn(text, "@");
    char *step = dl_strndup_trimmed(text, bytes);
    dl_status status = parse_step(step, &calibrate->step_ns, err);
    free(step);
    if (status == DL_OK && text[bytes] == '@')
        status = parse_calibrated_point(text + bytes + 1, calibrate, err);
    return status;
}

static dl_status read_calibrate(dl_scenario *scenario, const dl_ini *ini, dl_error *err)
{
    const dl_ini_entry *entry = dl_ini_find(ini, "workload", "calibrate");
    dl_error inner = {0};
    if (entry == NULL) return DL_OK;
    const dl_status status = parse_calibrate(entry->value, &scenario->calibrate, &inner);
    return status == DL_OK ? DL_OK : dl_ini_error(ini, entry, status, err, "%s", inner.text);
}

static dl_status read_absence(const char *item, dl_absence *absence, dl_error *err)
{
    const char *colon = strchr(item, ':'), *dash = colon != NULL ? strchr(colon, '-') : NULL;
    if (dash == NULL) {
        return dl_error_set(err, DL_ERR_PARSE,
                            "expected WORKER:FROM-TO in seconds, as 1:40-60, not '%s'", item);
    }
    int64_t worker = 0;
    char *number = dl_format("%.*s", (int)(colon - item), item);
    char *from = dl_format("%.*s", (int)(dash - colon - 1), colon + 1);
    const dl_key *key = dl_keys_find(&dl_scenario_keys, "failures", "away");
    dl_status status = dl_parse_int(number, 0, DL_WORKERS_MAX - 1, &worker, err);
    if (status == DL_OK) status = dl_parse_double(from, key->low, key->high, &absence->from_s, err);
    free(number);
    free(from);
    absence->worker = (int)worker;
    absence->to_s = (double)INFINITY;
    if (status == DL_OK && dash[1] != '\0')
        status = dl_parse_double(dash + 1, key->low, key->high, &absence->to_s, err);
    if (status != DL_OK) return status;
    if (!(absence->to_s > absence->from_s)) {
        return dl_error_set(err, DL_ERR_RANGE, "absence %s ends before it starts", item);
    }
    if (isinf(absence->to_s) && absence->from_s == 0) {
        return dl_error_set(err, DL_ERR_RANGE, "worker %d is never there", absence->worker);
    }
    return DL_OK;
}

/* Reads absences, those of one worker ordered by time. */
static dl_status read_absences(dl_scenario *scenario, const dl_ini *ini, const dl_sweep_lists *all,
                               dl_error *err)
{
    const dl_ini_entry *entry = dl_ini_find(ini, "failures", "away");
    if (entry == NULL) return DL_OK;
    if (scenario->absences.mtbf_s > 0) {
        return dl_ini_error(ini, entry, DL_ERR_DATA, err,
                            "worker_mtbf_s is given too: only one of both");
    }
    char **items = NULL;
    dl_status status = dl_ini_split(ini, entry, &items, &scenario->absences.count, err);
    if (status != DL_OK) return status;
    scenario->absences.listed =
        dl_calloc(scenario->absences.count, sizeof *scenario->absences.listed, "absences");
    for (size_t i = 0; i < scenario->absences.count && status == DL_OK; i++) {
        dl_error inner = {0};
        dl_absence *absence = &scenario->absences.listed[i];
        status = read_absence(items[i], absence, &inner);
        if (status == DL_OK) status = check_worker(&all->workers, absence->worker, &inner);
        for (size_t j = 0; j < i && status == DL_OK; j++) {
            const dl_absence *before = &scenario->absences.listed[j];
            if (before->worker != absence->worker || before->to_s < absence->from_s) continue;
            status = dl_error_set(&inner, DL_ERR_RANGE,
                                  "worker %d is away before it is back: give its absences in their "
                                  "order",
                                  absence->worker);
        }
        if (status != DL_OK) dl_ini_error(ini, entry, status, err, "%s", inner.text);
    }
    dl_ini_free_list(items, scenario->absences.count);
    return status;
}

/* Checks drawn absences, and that the scenario allows them. */
static dl_status check_drawn(const dl_scenario *scenario, const dl_ini *ini, dl_error *err)
{
    const dl_absences *absences = &scenario->absences;
    const dl_ini_entry *mtbf = dl_ini_find(ini, "failures", "worker_mtbf_s");
    const dl_ini_entry *away = dl_ini_find(ini, "failures", "worker_away_s");
    const dl_ini_entry *together = dl_ini_find(ini, "failures", "together");
    if (mtbf != NULL && away == NULL) {
        return dl_ini_error(ini, mtbf, DL_ERR_DATA, err,
                            "worker_away_s, for which a worker that fails is away, is missing");
    }
    if (mtbf == NULL && (away != NULL || together != NULL)) {
        return dl_ini_error(ini, away != NULL ? away : together, DL_ERR_DATA, err,
                            "this needs worker_mtbf_s");
    }
    if (absences->together == DL_TOGETHER_SITE && scenario->gpu == NULL) {
        return dl_ini_error(ini, together, DL_ERR_DATA, err,
                            "sites are those of a machine file: this needs [machine] file");
    }
    return DL_OK;
}

static dl_status read_failures(dl_scenario *scenario, const dl_ini *ini, dl_error *err)
{
    dl_failures *failures = &scenario->failures;
    const dl_ini_entry *entry = dl_ini_find(ini, "failures", "at_s");
    if (entry == NULL) return DL_OK;
    if (failures->mtbf_s > 0 || failures->node_mtbf_s > 0) {
        return dl_ini_error(ini, entry, DL_ERR_DATA, err, "mtbf_s is given too: only one of both");
    }
    const dl_status status =
        dl_scenario_read_numbers(ini, entry, &failures->at_s, &failures->at_count, err);
    for (size_t i = 1; i < failures->at_count && status == DL_OK; i++) {
        if (failures->at_s[i] > failures->at_s[i - 1]) continue;
        return dl_ini_error(ini, entry, DL_ERR_RANGE, err, "the times must ascend");
    }
    return status;
}

/* Checks that the model exists, and is given instead of costs. */
static dl_status check_model(const dl_ini *ini, const char *model, dl_error *err)
{
    static const char *const others[] = {"costs", "scale_compute"};
    const dl_ini_entry *entry = dl_ini_find(ini, "workload", "model");
    if (entry == NULL) return DL_OK;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (dl_ini_find(ini, "workload", others[i]) == NULL) continue;
        return dl_ini_error(ini, entry, DL_ERR_DATA, err, "%s is given too: only one of both",
                            others[i]);
    }
    dl_architecture architecture = {0};
    dl_error inner = {0};
    dl_status status = dl_architecture_make(&architecture, model, &inner);
    dl_architecture_free(&architecture);
    return status == DL_OK ? DL_OK : dl_ini_error(ini, entry, status, err, "%s", inner.text);
}

/* Whether [generators] gives the duration of an update, so that no costs are needed. */
static bool trains_by_keys(const dl_ini *ini)
{
    return dl_ini_find(ini, "generators", "train_token_gpu_s") != NULL ||
           dl_ini_find(ini, "generators", "on_policy_s") != NULL;
}

static dl_status read_texts(dl_scenario *scenario, const dl_ini *ini, dl_error *err)
{
    const char *name = NULL, *costs = NULL, *measured = NULL, *scale = NULL, *model = NULL,
               *trace = NULL;
    const dl_ini_entry *number = dl_ini_find(ini, "workload", "samples_per_s");
    if (number != NULL && (dl_ini_find(ini, "workload", "costs") != NULL ||
                           dl_ini_find(ini, "workload", "model") != NULL)) {
        return dl_ini_error(ini, number, DL_ERR_DATA, err,
                            "costs or a model are given too: only one of them");
    }
    dl_status status;
    if ((status = dl_ini_get_string(ini, "scenario", "name", ini->path, &name, err)) ||
        (status = dl_ini_get_string(ini, "workload", "model", "", &model, err)) ||
        (status = check_model(ini, model, err)) ||
        (status = dl_ini_get_string(
             ini, "workload", "costs",
             model[0] != '\0' || number != NULL || trains_by_keys(ini) ? "" : NULL, &costs, err)) ||
        (status = dl_ini_get_string(ini, "workload", "scale_compute", "", &scale, err)) ||
        (status = dl_ini_get_string(ini, "workload", "trace", "", &trace, err)) ||
        (status = dl_ini_get_string(ini, "measured", "file", "", &measured, err))) {
        return status;
    }
    scenario->path = dl_strdup(ini->path);
    scenario->name = dl_strdup(name);
    if (costs[0] != '\0') scenario->costs_path = beside(ini->path, costs);
    if (model[0] != '\0') scenario->model = dl_strdup(model);
    if (measured[0] != '\0') scenario->measured_path = beside(ini->path, measured);
    if (scale[0] != '\0') scenario->scale_path = beside(ini->path, scale);
    if (trace[0] != '\0') scenario->trace_path = beside(ini->path, trace);
    return DL_OK;
}

/* The text of the key that `key` depends on: the file's, else its default; NULL: neither. */
static const char *depends_on(const dl_ini *ini, const dl_key *key, const char *name)
{
    const dl_ini_entry *entry = dl_ini_find(ini, key->section, name);
    const char *of_layout = dl_scenario_layout_says(ini, name);
    if (of_layout != NULL) return of_layout;
    return entry != NULL ? entry->value
                         : dl_keys_find(&dl_scenario_keys, key->section, name)->fallback;
}

/* Checks that given keys apply here, and that keys which apply and have no default are given. */
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

/* Checks keys' names, and that they apply to the scenario's workers. */
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

/* As in PyTorch's DataLoader. */
#define PREFETCH_OF_LOADER 2

static void set_prefetch(dl_scenario *scenario, const dl_ini *ini)
{
    if (scenario->gpu != NULL || dl_ini_find(ini, "input", "prefetch") != NULL) return;
    scenario->input.prefetch = PREFETCH_OF_LOADER * scenario->input.loaders;
}

/* Default updates of a run with [generators]. */
#define UPDATES 60
#define UPDATES_BEFORE 10

static void set_updates(dl_scenario *scenario, const dl_ini *ini)
{
    if (scenario->generators == NULL) return;
    if (dl_ini_find(ini, "scenario", "steps") == NULL) scenario->steps = UPDATES;
    if (dl_ini_find(ini, "scenario", "warmup") == NULL) scenario->warmup = UPDATES_BEFORE;
}

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

/* Reads the recorded step. Its times are those of the GPU that it was recorded on. */
static dl_status read_trace(dl_scenario *scenario, const dl_ini *ini, dl_error *err)
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

dl_status dl_scenario_read_ini(dl_scenario *scenario, const dl_ini *ini, dl_error *err)
{
    dl_scenario parsed = {0};
    dl_sweep_lists all = {0};
    dl_status status;
    if ((status = check_keys(&parsed, ini, err)) || (status = read_texts(&parsed, ini, err)) ||
        (status = dl_keys_read(&dl_scenario_keys, DL_OF_SCENARIO, ini, NULL, &parsed, err)) ||
        (status = read_lists(&parsed, ini, &all, err)) ||
        (status = read_gpu_costs(&parsed, ini, err)) ||
        (status = read_slow(&parsed, ini, &all, err)) ||
        (status = dl_target_read(&parsed.target, ini, err)) ||
        (status = read_calibrate(&parsed, ini, err)) ||
        (status = read_absences(&parsed, ini, &all, err)) ||
        (status = check_drawn(&parsed, ini, err)) || (status = read_failures(&parsed, ini, err)) ||
        (status = dl_scenario_add_points(&parsed, ini, &all, err)) ||
        (status = read_trace(&parsed, ini, err))) {
        dl_scenario_free(&parsed);
    } else {
        set_prefetch(&parsed, ini);
        set_updates(&parsed, ini);
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

bool dl_scenario_trains_by_keys(const dl_scenario *scenario)
{
    const dl_generators *g = scenario->generators;
    return g != NULL && !(isnan(g->train_token_gpu_s) && isnan(g->on_policy_s));
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
