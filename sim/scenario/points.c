/* Lists of swept values, of [sync] modes and their options, and the points that they make. */
#include "sim/scenario/scenario_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/names.h"
#include "common/units.h"

#define POINTS_MAX 10000
#define LOG_MAX 20000000      /* limit on steps x workers x ranks that syncers log */
#define LOADERS_MAX 100000000 /* limit on the total of loaders: their events fit into a queue */
#define STEPS_MAX 1e11        /* limit on steps x workers x ranks of any run: a day or more */

/* --- lists of swept values ------------------------------------------------------------------ */

dl_status dl_sweep_number(const char *text, const dl_key *key, double *value, dl_error *err)
{
    int64_t number = 0;
    dl_status status = dl_parse_int(text, (int64_t)key->low, (int64_t)key->high, &number, err);
    if (status == DL_OK) *value = (double)number;
    return status;
}

static bool contains(const dl_sweep_list *list, double value)
{
    for (size_t i = 0; i < list->count; i++) {
        if (list->values[i] == value) return true;
    }
    return false;
}

typedef struct list_reader {
    dl_sweep_list *list;
    const dl_key *key;
    dl_sweep_item_fn item;
} list_reader;

static dl_status take_item(void *user, char *text, dl_error *err)
{
    const list_reader *r = user;
    double value = 0;
    const dl_status status = r->item(text, r->key, &value, err);
    if (status == DL_OK && contains(r->list, value))
        return dl_error_set(err, DL_ERR_RANGE,
                            "'%s' means the same as an earlier value of the list", text);
    DL_APPEND(r->list->values, r->list->count, "swept values") = value;
    return status;
}

dl_status dl_sweep_list_read(dl_sweep_list *list, const dl_ini *ini, const dl_key *key,
                             dl_sweep_item_fn item, const double *fallback, dl_error *err)
{
    list->entry = dl_ini_find(ini, key->section, key->name);
    if (list->entry != NULL)
        return dl_ini_each(ini, list->entry, take_item, &(list_reader){list, key, item}, err);
    if (fallback == NULL) {
        return dl_error_set_at(err, DL_ERR_DATA, ini->path, 0, "[%s] %s is missing", key->section,
                               key->name);
    }
    list->values = dl_calloc(1, sizeof *list->values, "swept values");
    list->values[0] = *fallback;
    list->count = 1;
    return DL_OK;
}

void dl_sweep_lists_free(dl_sweep_lists *lists)
{
    free(lists->cores.values);
    free(lists->workers.values);
    free(lists->batch.values);
    free(lists->mode.values);
    for (int o = 0; o < DL_SYNC_SWEPT; o++)
        free(lists->option[o].values);
    *lists = (dl_sweep_lists){0};
}

/* --- [sync] --------------------------------------------------------------------------------- */

static dl_status read_mode(const char *text, const dl_key *key, double *value, dl_error *err)
{
    (void)key;
    const dl_word *word = dl_mode_word(text);
    const char *name = word != NULL && word->here != NULL ? word->here : text;
    *value = dl_names_find(name, dl_mode_names, DL_MODES);
    if (*value >= 0) return DL_OK;
    if (word != NULL)
        return dl_error_set(err, DL_ERR_NAME, "unknown mode '%s'; %s", text, word->says);
    char hint[160];
    dl_names_hint(hint, sizeof hint, text, dl_mode_names, DL_MODES);
    return dl_error_set(err, DL_ERR_NAME, "unknown mode '%s'%s", text, hint);
}

static dl_status read_option(const char *text, const dl_key *key, double *value, dl_error *err)
{
    const dl_sync_option_spec *spec = &dl_sync_options[dl_key_option(key)];
    if (!spec->whole) return dl_parse_double(text, spec->low, spec->high, value, err);
    int64_t number = 0;
    dl_status status = dl_parse_int(text, (int64_t)spec->low, (int64_t)spec->high, &number, err);
    if (status == DL_OK) *value = (double)number;
    return status;
}

/* Writes the modes that take the option, "average, easgd", to text[bytes]. */
static void list_takers(char *text, size_t bytes, int option)
{
    size_t used = 0;
    text[0] = '\0';
    for (int m = 0; m < DL_MODES; m++) {
        if (!dl_mode_takes(dl_modes[m], option) || used >= bytes) continue;
        used += (size_t)snprintf(text + used, bytes - used, "%s%s", used > 0 ? ", " : "",
                                 dl_modes[m]->name);
    }
}

/* Rejects an option that no mode of the scenario takes. */
static dl_status check_options(const dl_ini *ini, const dl_sweep_list *modes, dl_error *err)
{
    unsigned taken = 0;
    for (size_t m = 0; m < modes->count; m++)
        taken |= dl_modes[(int)modes->values[m]]->options;
    for (int o = 0; o < DL_SYNC_OPTIONS; o++) {
        const dl_ini_entry *entry = dl_ini_find(ini, "sync", dl_option_key(o)->name);
        if (entry == NULL || taken & 1u << o) continue;
        char list[200];
        list_takers(list, sizeof list, o);
        return dl_ini_error(ini, entry, DL_ERR_NAME, err, "it is for mode %s, not for %s", list,
                            modes->entry != NULL ? modes->entry->value : "none");
    }
    return DL_OK;
}

static dl_status check_required(const dl_ini *ini, const dl_sweep_lists *lists, dl_error *err)
{
    for (size_t m = 0; m < lists->mode.count; m++) {
        const dl_mode *mode = dl_modes[(int)lists->mode.values[m]];
        for (int o = 0; o < DL_SYNC_SWEPT; o++) {
            if (!(mode->required & 1u << o) || lists->option[o].entry != NULL) continue;
            return dl_error_set_at(err, DL_ERR_DATA, ini->path, 0,
                                   "[sync] %s is missing: mode %s needs it",
                                   dl_sync_options[o].name, mode->name);
        }
    }
    return DL_OK;
}

static dl_status read_place(dl_gpu_options *gpu, const dl_sweep_list *modes, const char *text,
                            dl_error *err)
{
    static const char *const places[] = {"auto", "cpu", "gpu:0", "allreduce"};
    const bool on_host = strcmp(text, "cpu") == 0;
    if (on_host && gpu != NULL) gpu->where = DL_WHERE_CPU;
    if (on_host || strcmp(text, "auto") == 0) return DL_OK;
    if (gpu == NULL) {
        return dl_error_set(err, DL_ERR_DATA, "without [machine] file, cpu is the only place");
    }
    if (strncmp(text, "gpu:", 4) == 0) {
        int64_t number = 0;
        const int gpus = dl_machine_gpus(&gpu->machine);
        dl_status status = dl_parse_int(text + 4, 0, gpus - 1, &number, err);
        gpu->where = DL_WHERE_GPU;
        gpu->where_gpu = (int)number;
        return status;
    }
    if (strcmp(text, "allreduce") != 0) {
        char hint[160];
        dl_names_hint(hint, sizeof hint, text, places, 4);
        return dl_error_set(err, DL_ERR_NAME, "unknown place%s", hint);
    }
    gpu->where = DL_WHERE_ALLREDUCE;
    for (size_t m = 0; m < modes->count; m++) {
        const dl_mode *mode = dl_modes[(int)modes->values[m]];
        if (!dl_mode_takes(mode, DL_SYNC_WHERE) || mode->through & DL_THROUGH_COLLECTIVE) continue;
        return dl_error_set(err, DL_ERR_DATA, "mode %s needs a server: cpu or gpu:K", mode->name);
    }
    return DL_OK;
}

/* A server's threads or shards place it in host memory unless the scenario names a place. */
static dl_status read_where(dl_scenario *scenario, const dl_ini *ini, const dl_sweep_list *modes,
                            dl_error *err)
{
    const dl_ini_entry *entry = dl_ini_find(ini, "sync", "where");
    const dl_ini_entry *threads = dl_ini_find(ini, "sync", "server_threads");
    dl_gpu_options *gpu = scenario->gpu;
    dl_error inner = {0};
    dl_status status = DL_OK;
    if (entry != NULL) status = read_place(gpu, modes, entry->value, &inner);
    if (status != DL_OK) return dl_ini_error(ini, entry, status, err, "%s", inner.text);
    if (gpu == NULL || gpu->where == DL_WHERE_CPU) return DL_OK;
    if (gpu->where == DL_WHERE_AUTO) {
        if (threads != NULL || dl_ini_find(ini, "exchange", "shards") != NULL)
            gpu->where = DL_WHERE_CPU;
    } else if (threads != NULL && strcmp(threads->value, "1") != 0) {
        return dl_ini_error(ini, threads, DL_ERR_DATA, err,
                            "threads are of a server in host memory, not with where = %s",
                            entry->value);
    }
    return DL_OK;
}

dl_status dl_scenario_read_sync(dl_scenario *scenario, const dl_ini *ini, dl_sweep_lists *lists,
                                dl_error *err)
{
    static const double none = 0;
    const dl_key *mode = dl_keys_find(&dl_scenario_keys, "sync", "mode");
    dl_status status = dl_sweep_list_read(&lists->mode, ini, mode, read_mode, &none, err);
    if (status != DL_OK) return status;
    for (int o = 0; o < DL_SYNC_SWEPT && status == DL_OK; o++) {
        status = dl_sweep_list_read(&lists->option[o], ini, dl_option_key(o), read_option,
                                    &dl_sync_options[o].fallback, err);
    }
    if (status == DL_OK) status = check_options(ini, &lists->mode, err);
    if (status == DL_OK) status = read_where(scenario, ini, &lists->mode, err);
    return status == DL_OK ? check_required(ini, lists, err) : status;
}

/* --- all points ----------------------------------------------------------------------------- */

static bool equal(const dl_point *a, const dl_point *b)
{
    if (a->cores != b->cores || a->workers != b->workers || a->batch != b->batch ||
        a->gpus != b->gpus || a->mode != b->mode) {
        return false;
    }
    for (int o = 0; o < DL_SYNC_SWEPT; o++) {
        if (!(a->option[o] == b->option[o] || (isnan(a->option[o]) && isnan(b->option[o])))) {
            return false;
        }
    }
    return true;
}

/* Whether points[count] contains a point equal to `point`. */
static bool is_among(const dl_point *points, size_t count, const dl_point *point)
{
    for (size_t i = 0; i < count; i++) {
        if (equal(&points[i], point)) return true;
    }
    return false;
}

/* Returns the entry of a key of [exchange]; NULL if the key is not given or has its default
 * value. */
static const dl_ini_entry *changed(const dl_ini *ini, const char *name)
{
    const dl_ini_entry *entry = dl_ini_find(ini, "exchange", name);
    const dl_key *key = dl_keys_find(&dl_scenario_keys, "exchange", name);
    const bool is_fallback =
        entry != NULL && key->fallback != NULL && strcmp(entry->value, key->fallback) == 0;
    return is_fallback ? NULL : entry;
}

/* Whether one of the modes fetches tensors before all are summed. */
static bool fetches_early(const dl_sweep_list *modes)
{
    for (size_t m = 0; m < modes->count; m++) {
        const dl_mode *mode = dl_modes[(int)modes->values[m]];
        if (dl_mode_sends_tensors(mode) && !dl_mode_reads_late(mode)) return true;
    }
    return false;
}

/* Rejects settings that a server of gradients does not support. Such a server sums the gradients
 * tensor by tensor. */
static dl_status check_server(const dl_scenario *scenario, const dl_ini *ini,
                              const dl_sweep_lists *lists, const dl_point *point, const char *text,
                              dl_error *err)
{
    const dl_gpu_options *gpu = scenario->gpu;
    if (gpu == NULL || !dl_mode_sends_tensors(point->mode)) return DL_OK;
    const bool layers = gpu->fetch == DL_FETCH_LAYERS || gpu->fetch == DL_FETCH_NEXT_STEP;
    if (layers && point->option[DL_SYNC_LAG] > 0) {
        return dl_ini_error(ini, lists->option[DL_SYNC_LAG].entry, DL_ERR_DATA, err,
                            "not with [exchange] fetch = %s: the next step does not use these "
                            "parameters (point: %s)",
                            dl_fetch_names[gpu->fetch], text);
    }
    if (dl_mode_reads_late(point->mode) && !fetches_early(&lists->mode) &&
        (gpu->fetch == DL_FETCH_LAYERS || gpu->fetch == DL_FETCH_PUSHED)) {
        return dl_ini_error(ini, dl_ini_find(ini, "exchange", "fetch"), DL_ERR_DATA, err,
                            "%s fetches once its bound permits: only fetch = after or next_step "
                            "(point: %s)",
                            point->mode->name, text);
    }
    if (gpu->staged_stops && point->gpu_count > 0) {
        return dl_ini_error(ini, dl_ini_find(ini, "exchange", "staged"), DL_ERR_DATA, err,
                            "not with workers that share a GPU (point: %s)", text);
    }
    const dl_ini_entry *node_sum = dl_ini_find(ini, "exchange", "node_sum");
    if (gpu->node_sum && point->gpu_count > 0) {
        return dl_ini_error(ini, node_sum, DL_ERR_DATA, err,
                            "not with workers that share a GPU (point: %s)", text);
    }
    return DL_OK;
}

/* Checks compressed messages of workers on cores: dlprof train supports them only for pushes to a
 * server, and not with average_state. */
static dl_status check_messages(const dl_scenario *scenario, const dl_ini *ini,
                                const dl_point *point, const char *text, dl_error *err)
{
    const dl_mode *mode = point->mode;
    if (scenario->gpu != NULL || scenario->compression.kind == DL_COMPRESS_NONE ||
        mode->exchange == DL_EXCHANGES_NOTHING) {
        return DL_OK;
    }
    const dl_ini_entry *entry = dl_ini_find(ini, "exchange", "compress");
    if (!mode->compresses) {
        return dl_ini_error(
            ini, entry, DL_ERR_DATA, err,
            "mode %s: on cores only pushes to a server are sent as smaller messages "
            "(average, ps, async, softsync, ...) (point: %s)",
            mode->name, text);
    }
    if (dl_mode_takes(mode, DL_SYNC_AVERAGE_STATE) && scenario->average_state) {
        return dl_ini_error(ini, entry, DL_ERR_DATA, err,
                            "the optimizer's state is averaged uncompressed: not with "
                            "average_state (point: %s)",
                            text);
    }
    return DL_OK;
}

/* Checks that the batch divides evenly into the micro-batches of all workers and, for interleaved
 * stages, that the number of micro-batches is a multiple of the stages. Rejects shares by speed for
 * workers with several GPUs. */
static dl_status check_batch(const dl_scenario *scenario, const dl_ini *ini,
                             const dl_sweep_lists *lists, const dl_point *point, const char *text,
                             dl_error *err)
{
    const int64_t micro_batches = point->workers * (int64_t)point->option[DL_SYNC_ACCUMULATE] *
                                  (point->stages > 1 ? point->micro_batches : 1) *
                                  dl_point_batches(point);
    const bool by_speed = scenario->shares == DL_SHARES_SPEED;
    const int micro_batch = scenario->pipeline != NULL ? scenario->pipeline->micro_batch : 0;
    if (micro_batch > 0 && point->batch != micro_batches * micro_batch) {
        const dl_ini_entry *entry = dl_ini_find(ini, "pipeline", "micro_batch");
        const int64_t ranks = point->workers * (int64_t)dl_point_batches(point);
        const long long divisor = (long long)ranks * micro_batch;
        if (point->batch % divisor == 0) {
            return dl_ini_error(ini, entry, DL_ERR_RANGE, err,
                                "the batch, %lld, makes more than %d micro-batches on each rank "
                                "(point: %s)",
                                (long long)point->batch, DL_MICRO_BATCHES_MAX, text);
        }
        return dl_ini_error(ini, entry, DL_ERR_RANGE, err,
                            "the batch, %lld, is not divisible by %lld, one micro-batch on each of "
                            "%lld ranks (point: %s)",
                            (long long)point->batch, divisor, (long long)ranks, text);
    }
    if (point->chunks > 1 && point->stages > 1 && point->micro_batches % point->stages != 0) {
        return dl_ini_error(ini, dl_ini_find(ini, "pipeline", "chunks"), DL_ERR_RANGE, err,
                            "interleaved: micro-batches, %d, must be a multiple of the %d stages",
                            point->micro_batches, point->stages);
    }
    if (by_speed && dl_point_is_split(point)) {
        return dl_error_set_at(
            err, DL_ERR_DATA, ini->path, 0,
            "[workload] shares = speed cannot be combined with workers of several GPUs");
    }
    const int64_t divisor = by_speed ? (int64_t)point->option[DL_SYNC_ACCUMULATE] : micro_batches;
    if (point->batch >= micro_batches && point->batch % divisor == 0) return DL_OK;
    const int ranks = dl_point_ranks(point);
    DL_AUTOFREE char *gpus =
        ranks > 1 ? dl_format("; %d replica%s of %d GPUs, %d in all", point->workers,
                              point->workers == 1 ? "" : "s", ranks, point->workers * ranks)
                  : dl_strdup("");
    return dl_ini_error(ini, lists->batch.entry, DL_ERR_RANGE, err,
                        "%lld %s cannot share the batch evenly (point: %s%s)%s",
                        (long long)micro_batches,
                        micro_batches > point->workers ? "micro-batches" : "workers", text, gpus,
                        point->option[DL_SYNC_ACCUMULATE] > 1
                            ? "; the batch is that of a step, of all its micro-batches: for 4 "
                              "of 8 samples give --batch-per-worker 32"
                            : "");
}

/* Whether two workers with `ranks` GPUs each are on the same node. */
static bool shares_a_node(const dl_gpu_options *gpu, int workers, int ranks)
{
    for (int w = 1; w < workers; w++) {
        const int last = dl_gpu_options_place(gpu, w * ranks - 1).node;
        if (dl_gpu_options_place(gpu, w * ranks).node == last) return true;
    }
    return false;
}

/* Whether each node of the workers, which have `ranks` GPUs each, has `sharers` of them. */
static bool nodes_share_equally(const dl_gpu_options *gpu, int workers, int ranks, int sharers)
{
    for (int w = 1; w < workers; w++) {
        const int last = dl_gpu_options_place(gpu, (w - 1) * ranks).node;
        const bool stays = dl_gpu_options_place(gpu, w * ranks).node == last;
        if (stays != (w % sharers != 0)) return false;
    }
    return workers % sharers == 0;
}

const char *dl_scenario_not_sharded(const dl_scenario *scenario, dl_sharded sharded,
                                    const dl_point *point)
{
    const dl_gpu_options *gpu = scenario->gpu;
    const bool is_parameters = sharded == DL_SHARDED_PARAMETERS;
    if (!dl_mode_reduces_gradients(point->mode)) return "only with mode allreduce";
    if (gpu == NULL) return NULL;
    if (is_parameters && dl_point_is_split(point))
        return "parameters: not of workers of several GPUs, whose layout shards them: fsdp=COUNT";
    const bool sums = sharded == DL_SHARDED_GRADIENTS && dl_point_passes(point) > 1;
    if (sums && dl_point_is_split(point))
        return "gradients: not of several micro-batches and workers of several GPUs: each "
               "micro-batch would be exchanged; optimizer exchanges once";
    if (sums && point->option[DL_SYNC_LAG] > 0)
        return "gradients: not with [sync] lag and several micro-batches, each of which is "
               "exchanged in its step";
    if (gpu->on_hosts) return "not with collectives = hosts";
    if (scenario->compression.kind == DL_COMPRESS_TOPK)
        return "not with compress = topk, whose messages each worker needs whole";
    if (gpu->shards_by_node && !nodes_share_equally(gpu, point->workers, dl_point_ranks(point),
                                                    dl_scenario_exchange(scenario, point).sharers))
        return "optimizer, sharded_among = node: not if the nodes have different numbers of "
               "workers";
    if (is_parameters && point->option[DL_SYNC_LAG] > 0)
        return "parameters: not with [sync] lag, as each pass gathers those of the last update";
    if (is_parameters && !gpu->overlap && dl_scenario_gives(scenario, "exchange", "overlap"))
        return "parameters: not with overlap = no, as they are gathered beside the passes";
    return NULL;
}

static dl_status check_sharded(const dl_scenario *scenario, const dl_ini *ini,
                               const dl_point *point, const char *text, dl_error *err)
{
    const dl_sharded sharded = scenario->gpu != NULL ? scenario->gpu->sharded : scenario->sharded;
    const char *why =
        sharded != DL_SHARDED_NONE ? dl_scenario_not_sharded(scenario, sharded, point) : NULL;
    const dl_ini_entry *dtype = dl_ini_find(ini, "exchange", "reduce_dtype");
    if (dtype != NULL && sharded != DL_SHARDED_NONE &&
        scenario->compression.kind != DL_COMPRESS_NONE) {
        return dl_ini_error(ini, dtype, DL_ERR_DATA, err,
                            "[exchange] compress gives the type of messages: give only one "
                            "(point: %s)",
                            text);
    }
    if (why == NULL) return DL_OK;
    return dl_ini_error(ini, dl_ini_find(ini, "exchange", "sharded"), DL_ERR_DATA, err,
                        "%s (point: %s)", why, text);
}

/* Checks the participants and the timing of the exchange: shared GPUs, lag, collectives of hosts,
 * sharding, and the settings of a server. */
static dl_status check_exchange(const dl_scenario *scenario, const dl_ini *ini,
                                const dl_sweep_lists *lists, const dl_point *point,
                                const char *text, dl_error *err)
{
    const double lag = point->option[DL_SYNC_LAG], interval = point->option[DL_SYNC_INTERVAL];
    const dl_ini_entry *lag_entry = lists->option[DL_SYNC_LAG].entry;
    const bool inside = dl_mode_takes(point->mode, DL_SYNC_INSIDE) && scenario->inside != 0;
    if (point->gpu_count > 0 && point->mode->exchange != DL_EXCHANGES_NOTHING &&
        (inside || dl_scenario_is_collective(scenario, point))) {
        return dl_ini_error(
            ini, lists->workers.entry, DL_ERR_DATA, err,
            "%d workers share %d GPU%s: collectives have one rank on each, as NCCL "
            "does; ps and average with where = cpu or gpu can be shared (point: %s)",
            point->workers, point->gpu_count, point->gpu_count == 1 ? "" : "s", text);
    }
    if (lag > 0 && scenario->gpu != NULL && scenario->gpu->overlap) {
        return dl_ini_error(ini, lag_entry, DL_ERR_DATA, err,
                            "not with [exchange] overlap (point: %s)", text);
    }
    if (scenario->gpu != NULL && scenario->gpu->on_hosts &&
        point->mode->exchange != DL_EXCHANGES_NOTHING &&
        dl_scenario_is_collective(scenario, point) &&
        (scenario->gpu->overlap ||
         shares_a_node(scenario->gpu, point->workers, dl_point_ranks(point)))) {
        return dl_ini_error(ini, dl_ini_find(ini, "exchange", "collectives"), DL_ERR_DATA, err,
                            "only of one worker on each node, and not with overlap (point: %s)",
                            text);
    }
    dl_status status = check_sharded(scenario, ini, point, text, err);
    if (status == DL_OK) status = check_server(scenario, ini, lists, point, text, err);
    if (status != DL_OK) return status;
    if (lag > 1 && !dl_mode_takes(point->mode, DL_SYNC_INTERVAL)) {
        return dl_ini_error(ini, lag_entry, DL_ERR_RANGE, err,
                            "mode %s lags by 1 step at most (point: %s)", point->mode->name, text);
    }
    if (lag > 0 && lag >= interval && dl_mode_takes(point->mode, DL_SYNC_INTERVAL)) {
        return dl_ini_error(ini, lag_entry, DL_ERR_RANGE, err,
                            "not fewer than interval (point: %s)", text);
    }
    return DL_OK;
}

const dl_ini_entry *dl_scenario_absence_entry(const dl_ini *ini)
{
    const dl_ini_entry *listed = dl_ini_find(ini, "failures", "away");
    return listed != NULL ? listed : dl_ini_find(ini, "failures", "worker_mtbf_s");
}

/* Checks the options of local SGD, settings that a single dispatch thread excludes, and the number
 * of workers that an update waits for. */
static dl_status check_average(const dl_scenario *scenario, const dl_ini *ini,
                               const dl_sweep_lists *lists, const dl_point *point, const char *text,
                               dl_error *err)
{
    const double interval = point->option[DL_SYNC_INTERVAL];
    const bool fragmented = dl_mode_takes(point->mode, DL_SYNC_FRAGMENTS);
    const bool together = scenario->fragments > 1 || scenario->inside != 0;
    if (fragmented && together && scenario->interval_by_speed) {
        return dl_ini_error(ini, dl_ini_find(ini, "sync", "interval_by_speed"), DL_ERR_DATA, err,
                            "neither with fragments nor with inside (point: %s)", text);
    }
    if (dl_mode_takes(point->mode, DL_SYNC_INSIDE) && scenario->inside != 0 &&
        scenario->gpu == NULL) {
        return dl_ini_error(ini, dl_ini_find(ini, "sync", "inside"), DL_ERR_DATA, err,
                            "only for workers on GPUs (point: %s)", text);
    }
    if (fragmented && interval < scenario->fragments) {
        return dl_ini_error(ini, dl_ini_find(ini, "sync", "fragments"), DL_ERR_RANGE, err,
                            "%d fragments are more than the interval's %.0f steps (point: %s)",
                            scenario->fragments, interval, text);
    }
    const bool elastic = fragmented && dl_absences_given(&scenario->absences);
    const bool by_site =
        scenario->absences.mtbf_s > 0 && scenario->absences.together == DL_TOGETHER_SITE;
    if (elastic && ((scenario->inside != 0 && !by_site) || scenario->interval_by_speed)) {
        return dl_ini_error(
            ini, dl_scenario_absence_entry(ini), DL_ERR_DATA, err,
            "average: not with interval_by_speed, and with inside only drawn ones of "
            "whole sites: worker_mtbf_s with together = site (point: %s)",
            text);
    }
    const bool absent = dl_mode_takes(point->mode, DL_SYNC_AWAY) && point->workers > 1 &&
                        dl_absences_given(&scenario->absences);
    if (absent && scenario->gpu != NULL && scenario->gpu->dispatch == DL_DISPATCH_SINGLE) {
        return dl_ini_error(ini, dl_scenario_absence_entry(ini), DL_ERR_DATA, err,
                            "not with [machine] dispatch = single: the one host thread waits for "
                            "the GPUs that are away; per_gpu gives each its own (point: %s)",
                            text);
    }
    if (scenario->gpu != NULL && scenario->gpu->reads == DL_READS_BATCH &&
        scenario->gpu->dispatch == DL_DISPATCH_SINGLE) {
        return dl_ini_error(ini, dl_ini_find(ini, "machine", "reads"), DL_ERR_DATA, err,
                            "not with [machine] dispatch = single: a thread reads what its own GPU "
                            "has computed (point: %s)",
                            text);
    }
    const double k = point->option[DL_SYNC_K], n = point->option[DL_SYNC_N];
    const bool one_each = point->mode->once;
    if ((one_each && k > point->workers) || n > point->workers) {
        return dl_ini_error(ini, lists->option[one_each ? DL_SYNC_K : DL_SYNC_N].entry,
                            DL_ERR_RANGE, err, "there are fewer workers (point: %s)", text);
    }
    return DL_OK;
}

static dl_status check_loaders(const dl_scenario *scenario, const dl_ini *ini,
                               const dl_point *point, const char *text, dl_error *err)
{
    const int64_t processes = (int64_t)point->workers * scenario->input.loaders;
    if (processes <= LOADERS_MAX) return DL_OK;
    return dl_ini_error(ini, dl_ini_find(ini, "input", "loaders"), DL_ERR_RANGE, err,
                        "loaders times workers exceeds %d (point: %s)", LOADERS_MAX, text);
}

static dl_status add_point(dl_scenario *scenario, const dl_ini *ini, const dl_sweep_lists *lists,
                           const dl_point *point, dl_error *err)
{
    char text[DL_POINT_TEXT_BYTES];
    dl_point_text(text, sizeof text, point);
    dl_status status = check_batch(scenario, ini, lists, point, text, err);
    if (status == DL_OK) status = check_exchange(scenario, ini, lists, point, text, err);
    if (status == DL_OK) status = check_messages(scenario, ini, point, text, err);
    if (status == DL_OK) status = check_average(scenario, ini, lists, point, text, err);
    if (status == DL_OK) status = check_loaders(scenario, ini, point, text, err);
    if (status != DL_OK) return status;
    const bool keeps_steps = dl_mode_takes(point->mode, DL_SYNC_SYNCER);
    const double most = keeps_steps ? LOG_MAX : STEPS_MAX;
    if (((double)scenario->steps + (double)scenario->warmup + point->option[DL_SYNC_INTERVAL]) *
            point->workers * dl_point_ranks(point) >
        most) {
        return dl_error_set_at(err, DL_ERR_RANGE, ini->path, 0,
                               "steps times workers exceeds %.0f (point: %s)", most, text);
    }
    if (scenario->point_count == POINTS_MAX) {
        return dl_error_set_at(err, DL_ERR_RANGE, ini->path, 0, "more than %d points", POINTS_MAX);
    }
    DL_APPEND(scenario->points, scenario->point_count, "points") = *point;
    return DL_OK;
}

/* Sets the number of micro-batches from their size, rounded down: check_batch rejects a size that
 * does not divide the batch. Leaves the number unchanged if it is out of range. */
static void count_micro_batches(const dl_scenario *scenario, dl_point *point)
{
    const dl_scenario_pipeline *pipeline = scenario->pipeline;
    if (pipeline == NULL || pipeline->micro_batch == 0) return;
    const int64_t count =
        point->batch / point->workers / dl_point_batches(point) / pipeline->micro_batch;
    if (count < 1 || count > DL_MICRO_BATCHES_MAX) return;
    point->micro_batches = (int)count;
    if (point->stages <= 1) point->option[DL_SYNC_ACCUMULATE] = (double)count;
}

/* Adds every combination of the options that the mode takes. */
static dl_status add_options(dl_scenario *scenario, const dl_ini *ini, const dl_sweep_lists *lists,
                             dl_point *point, dl_error *err)
{
    size_t combinations = 1;
    for (int o = 0; o < DL_SYNC_SWEPT; o++) {
        if (dl_mode_takes(point->mode, o)) combinations *= lists->option[o].count;
    }
    dl_status status = DL_OK;
    for (size_t c = 0; c < combinations && status == DL_OK; c++) {
        size_t rest = c; /* the last option changes fastest */
        for (int o = DL_SYNC_SWEPT - 1; o >= 0; o--) {
            const dl_sweep_list *list = &lists->option[o];
            bool taken = dl_mode_takes(point->mode, o);
            point->option[o] =
                taken ? list->values[rest % list->count] : dl_sync_options[o].fallback;
            if (taken) rest /= list->count;
        }
        count_micro_batches(scenario, point);
        status = add_point(scenario, ini, lists, point, err);
    }
    return status;
}

/* Returns the cores of an entry of the list for a number of workers. */
static int cores_of(const dl_sweep_list *cores, size_t entry, int workers)
{
    const int count = (int)cores->values[entry];
    return count == DL_CORES_AS_WORKERS ? workers : count;
}

/* Whether an earlier entry has the same number of cores: "cores = 2, workers" names the same
 * machine twice for 2 workers. */
static bool is_named_before(const dl_sweep_list *cores, size_t entry, int workers)
{
    for (size_t i = 0; i < entry; i++) {
        if (cores_of(cores, i, workers) == cores_of(cores, entry, workers)) return true;
    }
    return false;
}

/* --- keys of [exchange] that only some modes use --- */

static bool is_by_tensor(const dl_scenario *scenario DL_UNUSED, const dl_point *point)
{
    return dl_mode_sends_tensors(point->mode);
}

static bool is_summed_in_nodes(const dl_scenario *scenario DL_UNUSED, const dl_point *point)
{
    return dl_mode_serves_gradients(point->mode);
}

static bool is_in_each_step(const dl_scenario *scenario DL_UNUSED, const dl_point *point)
{
    return point->mode->exchange == DL_EXCHANGES_GRADIENTS || point->mode->each ||
           dl_point_reduces_within(point);
}

/* Whether collectives slow computing: those of gradients or, for workers of several GPUs, those
 * among their GPUs. */
static bool is_slowed(const dl_scenario *scenario DL_UNUSED, const dl_point *point)
{
    return dl_point_is_split(point) ? dl_point_reduces_within(point)
                                    : dl_mode_reduces_gradients(point->mode);
}

/* Whether copies between GPUs, which host memory may stage, are part of ps or async. */
static bool copies_between_gpus(const dl_scenario *scenario, const dl_point *point)
{
    const dl_gpu_options *gpu = scenario->gpu;
    return dl_mode_sends_tensors(point->mode) &&
           (gpu->where == DL_WHERE_GPU || (gpu->node_sum && point->mode->sums));
}

static bool has_collectives(const dl_scenario *scenario, const dl_point *point)
{
    return dl_scenario_is_collective(scenario, point) || scenario->inside != 0 ||
           dl_point_reduces_within(point) || point->tensor > 1;
}

static bool has_server(const dl_scenario *scenario, const dl_point *point)
{
    return point->mode->through & DL_THROUGH_SERVER && scenario->gpu->where != DL_WHERE_ALLREDUCE;
}

static bool is_summed_on_arrival(const dl_scenario *scenario DL_UNUSED, const dl_point *point)
{
    return point->mode->sums;
}

static bool has_buckets(const dl_scenario *scenario, const dl_point *point)
{
    return dl_scenario_is_collective(scenario, point) || dl_point_reduces_within(point) ||
           dl_mode_sends_tensors(point->mode) || scenario->gpu->tensors != DL_TENSORS_SPLIT;
}

static bool has_reduced_buckets(const dl_scenario *scenario DL_UNUSED, const dl_point *point)
{
    return dl_mode_reduces_gradients(point->mode);
}

static bool has_host_server(const dl_scenario *scenario, const dl_point *point)
{
    return !has_collectives(scenario, point) && scenario->gpu->where != DL_WHERE_GPU;
}

static const struct {
    bool (*is_used)(const dl_scenario *scenario, const dl_point *point);
    const char *why_not;
} uses[DL_USES] = {
    [DL_USE_BY_TENSOR] = {is_by_tensor, "only ps, async and ssp send tensor by tensor to a server"},
    [DL_USE_NODE_SUM] = {is_summed_in_nodes,
                         "only ps sums the gradients of a node before they are pushed"},
    [DL_USE_OVERLAP] =
        {is_in_each_step,
         "only gradients of allreduce, ps, async and ssp are sent during the backward pass"},
    [DL_USE_SLOWS] = {is_slowed, "no collective is simulated that slows its computing"},
    [DL_USE_STAGED] =
        {copies_between_gpus,
         "only ps, async and ssp with a server on a GPU, and node_sum, copy between GPUs"},
    [DL_USE_HOSTS] = {dl_scenario_is_collective, "its workers exchange through a server"},
    [DL_USE_COLLECTIVES] = {has_collectives, "exchange through a server has none"},
    [DL_USE_BUCKETS] = {has_buckets, "whole vectors are sent to its server"},
    [DL_USE_REDUCED] = {has_reduced_buckets,
                        "only gradients that a collective sums are copied to buckets"},
    [DL_USE_SERVER] = {has_server, "collectives have no server"},
    [DL_USE_SUMS] =
        {is_summed_on_arrival,
         "only servers of ps, softsync, kasync and kbatchasync can add gradients as they come"},
    [DL_USE_HOST_SERVER] = {has_host_server, "it limits servers in host memory"},
};

bool dl_scenario_takes(const dl_scenario *scenario, const dl_key *key, int mode)
{
    const bool needs_sharded =
        key->only != NULL && strncmp(key->only, "sharded", strlen("sharded")) == 0;
    if (strcmp(key->name, "sharded") == 0 || (needs_sharded && scenario->pipeline == NULL))
        return dl_mode_reduces_gradients(dl_modes[mode]);
    const dl_key_use use = dl_use_of(key);
    if (use == DL_USE_ANY || dl_modes[mode]->exchange == DL_EXCHANGES_NOTHING) return true;
    for (size_t p = 0; p < scenario->point_count; p++) {
        dl_point point = scenario->points[p];
        point.mode = dl_modes[mode];
        if (uses[use].is_used(scenario, &point)) return true;
    }
    return false;
}

/* Rejects a key that no point uses, as it would not affect the results. */
static dl_status check_used(const dl_scenario *scenario, const dl_ini *ini, dl_error *err)
{
    for (size_t k = 0; k < dl_scenario_keys.count && scenario->gpu != NULL; k++) {
        const dl_key *key = &dl_scenario_keys.rows[k];
        const dl_key_use use = dl_use_of(key);
        const dl_ini_entry *entry = use != DL_USE_ANY ? changed(ini, key->name) : NULL;
        if (entry == NULL) continue;
        const dl_mode *without = NULL;
        bool used = false;
        for (size_t p = 0; p < scenario->point_count && !used; p++) {
            const dl_point *point = &scenario->points[p];
            if (point->mode->exchange == DL_EXCHANGES_NOTHING) continue;
            used = uses[use].is_used(scenario, point);
            without = point->mode;
        }
        if (used || without == NULL) continue;
        return dl_ini_error(ini, entry, DL_ERR_DATA, err, "mode %s has no use for it: %s",
                            without->name, uses[use].why_not);
    }
    return DL_OK;
}

dl_status dl_scenario_add_points(dl_scenario *scenario, const dl_ini *ini,
                                 const dl_sweep_lists *all, dl_error *err)
{
    size_t rest = all->mode.count * all->batch.count * all->workers.count;
    dl_status status = DL_OK;
    for (size_t i = 0; i < rest * all->cores.count && status == DL_OK; i++) {
        size_t mode = i % all->mode.count, batch = i / all->mode.count % all->batch.count;
        size_t worker = i / (all->mode.count * all->batch.count) % all->workers.count;
        const int workers = (int)all->workers.values[worker];
        if (is_named_before(&all->cores, i / rest, workers)) continue;
        dl_point point = {.workers = workers,
                          .cores = cores_of(&all->cores, i / rest, workers),
                          .batch = (int64_t)all->batch.values[batch],
                          .mode = dl_modes[(int)all->mode.values[mode]]};
        if (scenario->gpu != NULL && point.workers > dl_gpu_options_count(scenario->gpu)) {
            point.gpu_count = dl_gpu_options_count(scenario->gpu);
        }
        if (scenario->batch_per_worker) point.batch *= point.workers;
        if (scenario->pipeline != NULL) {
            memcpy(point.size, scenario->pipeline->size, sizeof point.size);
            point.chunks = scenario->pipeline->chunks;
            point.axes = scenario->pipeline->axes;
            point.micro_batches = scenario->pipeline->micro_batches;
        }
        status = add_options(scenario, ini, all, &point, err);
    }
    return status == DL_OK ? check_used(scenario, ini, err) : status;
}

dl_status dl_scenario_set_measured_cores(dl_scenario *scenario, int64_t cores, dl_error *err)
{
    size_t kept = 0, measured = 0, count = scenario->point_count;
    for (size_t i = 0; i < count; i++) {
        if (scenario->points[i].cores != DL_CORES_MEASURED) continue;
        measured++;
        if (cores > 0) continue;
        return dl_error_set_at(err, DL_ERR_DATA, scenario->path, 0,
                               "[machine] cores = measured, but %s lacks [costs] cores: --cores "
                               "COUNT gives them; costs of a GPU need --machine NAME (dlsim "
                               "--machines lists them)",
                               scenario->costs_path != NULL ? scenario->costs_path
                                                            : "[workload] samples_per_s");
    }
    for (size_t i = 0; i < count; i++) {
        dl_point point = scenario->points[i];
        if (point.cores == DL_CORES_MEASURED) point.cores = (int)cores;
        /* Points can become equal only if some of them, but not all, have measured cores. */
        const bool is_mixed = measured > 0 && measured < count;
        if (is_mixed && is_among(scenario->points, kept, &point)) continue;
        scenario->points[kept++] = point;
    }
    scenario->point_count = kept;
    return DL_OK;
}
