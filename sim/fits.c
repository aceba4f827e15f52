#include "sim/fits.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/units.h"
#include "sim/generate/generate.h"
#include "sim/run_internal.h"
#include "sim/scenario/keys.h"
#include "sim/workloads/architecture.h"

bool dl_memory_fits(const dl_gpu_memory *memory)
{
    return !(memory->needs_bytes > memory->has_bytes);
}

double dl_memory_reserve_bytes(const dl_gpu_memory *memory)
{
    return DL_RESERVE_FRAC * (memory->needs_bytes - memory->content.workspace);
}

const char *const dl_fit_names[DL_FITS] = {"", "no", "without cache", "yes"};

dl_fit dl_memory_fit(const dl_gpu_memory *memory)
{
    if (isnan(memory->needs_bytes) || isnan(memory->has_bytes)) return DL_FIT_UNKNOWN;
    if (!dl_memory_fits(memory)) return DL_FIT_NO;
    const double most_bytes = memory->needs_bytes + dl_memory_reserve_bytes(memory);
    return most_bytes > memory->has_bytes ? DL_FIT_UNCACHED : DL_FIT_YES;
}

int64_t dl_largest_fitting(const dl_scenario *scenario, const dl_costs *costs,
                           const dl_point *point, int64_t unit)
{
    dl_point tried = *point;
    int64_t fits = 0, too_many = point->batch / unit + 1;
    while (too_many - fits > 1) {
        const int64_t middle = fits + (too_many - fits) / 2;
        tried.batch = middle * unit;
        const dl_gpu_memory memory = dl_run_memory(scenario, costs, &tried);
        if (dl_memory_fits(&memory)) {
            fits = middle;
        } else {
            too_many = middle;
        }
    }
    return fits * unit;
}

char *dl_fits_when(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point,
                   int stage, const dl_gpu_memory *memory)
{
    dl_run_ranks ranks;
    char *text = NULL;
    if (dl_run_ranks_open(&ranks, scenario, costs, point) == DL_OK && !isnan(memory->needs_bytes)) {
        const dl_memory_rank rank = dl_run_rank(&ranks, stage);
        text = dl_memory_when(&rank, &memory->content.at);
    }
    dl_run_ranks_close(&ranks);
    return text != NULL ? text : dl_strdup("");
}

bool dl_fits_passes(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point,
                    int stage, dl_memory_pass *passes)
{
    dl_run_ranks ranks;
    dl_gpu_content most = {.others = (double)NAN};
    if (dl_run_ranks_open(&ranks, scenario, costs, point) == DL_OK) {
        const dl_memory_rank rank = dl_run_rank(&ranks, stage);
        most = dl_memory_of_rank(&rank, passes);
    }
    dl_run_ranks_close(&ranks);
    return !isnan(dl_gpu_content_bytes(&most));
}

dl_gpu_content *dl_fits_course(const dl_scenario *scenario, const dl_costs *costs,
                               const dl_point *point, int stage, size_t *count)
{
    dl_run_ranks ranks;
    dl_gpu_content *course = NULL;
    if (dl_run_ranks_open(&ranks, scenario, costs, point) == DL_OK) {
        const dl_memory_rank rank = dl_run_rank(&ranks, stage);
        course = dl_memory_course(&rank, count);
    }
    dl_run_ranks_close(&ranks);
    return course;
}

char *dl_fits_content(const dl_gpu_content *content)
{
    char *text = NULL;
    for (int k = 0; k < DL_GPU_CONTENTS; k++) {
        const double bytes = dl_gpu_content_of(content, k);
        if (!(bytes > 0)) continue;
        dl_join_format(&text, ", ", "%s %s", dl_gpu_content_names[k], DL_BYTES_TEXT(bytes));
    }
    return text != NULL ? text : dl_strdup("");
}

/* Replaces the costs that determine memory by estimated ones. `estimated` still owns the arrays. */
static void take_estimate(dl_costs *costs, const dl_costs *estimated)
{
    costs->layers = estimated->layers;
    costs->layer_count = estimated->layer_count;
    costs->gradients = estimated->gradients;
    costs->gradient_count = estimated->gradient_count;
    costs->gpu_memory = estimated->gpu_memory;
    costs->frozen_bytes = estimated->frozen_bytes;
    costs->half_weights = estimated->half_weights;
    costs->model_count = 0; /* memory does not depend on the GPU model: all models use the same
                             * arithmetic */
}

/* Memory of the point with the scenario's sharding, which may differ from that of `costs`; the
 * costs of a model and the types of its messages are those of this sharding. */
static dl_gpu_memory sharded_memory(const dl_scenario *scenario, const dl_costs *costs,
                                    const dl_point *point)
{
    dl_gpu_options gpu = *scenario->gpu;
    dl_scenario own = *scenario;
    dl_costs of_model = *costs, estimated = {0};
    own.gpu = &gpu;
    if (scenario->model != NULL &&
        dl_scenario_estimate_costs(&own, dl_scenario_first_gpu(&own), &estimated, NULL) == DL_OK) {
        take_estimate(&of_model, &estimated);
        dl_scenario_set_dtypes(&own, &gpu, dl_scenario_arithmetic(&own) >= DL_FP16);
    }
    const dl_gpu_memory memory = dl_run_memory(&own, &of_model, point);
    dl_costs_free(&estimated);
    return memory;
}

/* Tries a smaller batch for the same workers, whose batch is given per worker. */
static void try_batch(char **fits, const dl_scenario *scenario, const dl_costs *costs,
                      const dl_point *point)
{
    const int64_t unit = point->workers * (int64_t)point->option[DL_SYNC_ACCUMULATE];
    if (unit >= point->batch) return;
    const int64_t batch = dl_largest_fitting(scenario, costs, point, unit);
    if (batch == 0) return;
    dl_join_format(fits, ", ", "--batch-per-worker %lld", (long long)(batch / point->workers));
}

/* The options that set `count` micro-batches of `samples`, of the keys that the scenario gives:
 * others are refused beside them. */
static char *micro_batch_option(const dl_scenario *scenario, bool staged, int count,
                                int64_t samples)
{
    const bool accumulates = dl_scenario_gives(scenario, "sync", "accumulate") &&
                             !dl_scenario_gives(scenario, "pipeline", "micro_batch");
    if (dl_scenario_gives(scenario, "pipeline", "micro_batches"))
        return dl_format("--micro-batches %d", count);
    if (accumulates && !staged) return dl_format("--set sync.accumulate=%d", count);
    return dl_format("%s--micro-batch %lld", accumulates ? "--set sync.accumulate=1 " : "",
                     (long long)samples);
}

/* Whether workers can share gradients at the point, if they do in the scenario. */
static bool can_share_gradients(const dl_scenario *scenario, const dl_point *point)
{
    return scenario->gpu->sharded != DL_SHARDED_GRADIENTS ||
           dl_scenario_not_sharded(scenario, DL_SHARDED_GRADIENTS, point) == NULL;
}

/* Tries more and smaller micro-batches of the same batch, where the schedule permits them and does
 * not keep all their activations (gpipe). */
static void try_micro_batch(char **fits, const dl_scenario *scenario, const dl_costs *costs,
                            const dl_point *point)
{
    const dl_scenario_pipeline *pipeline = scenario->pipeline;
    const dl_split split = dl_point_split(point);
    const int64_t samples = point->batch / point->workers / dl_split_batches(&split);
    const bool staged = split.stages > 1;
    dl_point tried = *point;
    if (pipeline != NULL && !dl_schedule_flushes(pipeline->schedule)) return;
    if (scenario->shares == DL_SHARES_SPEED) return;
    if (staged && pipeline->schedule == DL_SCHEDULE_GPIPE) return;
    for (int count = split.micro_batches + 1; count <= samples && count <= DL_MICRO_BATCHES_MAX;
         count++) {
        if (samples % count != 0 || (staged && split.chunks > 1 && count % split.stages != 0))
            continue;
        tried.micro_batches = count;
        if (!staged) tried.option[DL_SYNC_ACCUMULATE] = count;
        if (!can_share_gradients(scenario, &tried)) return;
        const dl_gpu_memory memory = dl_run_memory(scenario, costs, &tried);
        if (!dl_memory_fits(&memory)) continue;
        DL_AUTOFREE char *option = micro_batch_option(scenario, staged, count, samples / count);
        dl_join(fits, ", ", option);
        return;
    }
}

/* Tries the next degrees of sharding among the workers, and GPUs that divide sequences or experts:
 * optimizer state, also that divided by nodes, then gradients, then parameters. Lists the first
 * that fits. */
static void try_sharding(char **fits, const dl_scenario *scenario, const dl_costs *costs,
                         const dl_point *point)
{
    dl_gpu_options gpu = *scenario->gpu;
    dl_scenario sharded = *scenario;
    const bool by_node = gpu.shards_by_node;
    const bool gives_among = dl_scenario_gives(scenario, "exchange", "sharded_among");
    sharded.gpu = &gpu;
    gpu.shards_by_node = false;
    for (int s = (int)gpu.sharded + !by_node; s <= DL_SHARDED_PARAMETERS; s++) {
        gpu.sharded = (dl_sharded)s;
        if (dl_scenario_not_sharded(&sharded, gpu.sharded, point) != NULL) return;
        const dl_gpu_memory memory = sharded_memory(&sharded, costs, point);
        if (!dl_memory_fits(&memory)) continue;
        if (s == (int)scenario->gpu->sharded) {
            dl_join_format(fits, ", ", "exchange.sharded_among=all (%s)",
                           DL_BYTES_TEXT(memory.needs_bytes));
        } else {
            dl_join_format(fits, ", ", "exchange.sharded=%s%s (%s)", dl_sharded_names[s],
                           gives_among ? " without sharded_among" : "",
                           DL_BYTES_TEXT(memory.needs_bytes));
        }
        return;
    }
}

/* A layout that divides a worker's part of the model and of the batch further. */
typedef struct divided {
    dl_scenario scenario; /* borrowed, except that `scenario.pipeline` points to the next member */
    dl_scenario_pipeline pipeline;
    dl_point point;
} divided;

static int at_least_one(int count)
{
    return count > 1 ? count : 1;
}

/* Number of a worker's GPUs that hold the same stage and shard. */
static int ranks_of_shard(const dl_point *point)
{
    return at_least_one(point->tensor) * at_least_one(point->context) *
           at_least_one(point->experts);
}

/* Number of workers, at most those of the point, for which there are GPUs. */
static int replicas(const dl_scenario *scenario, const dl_point *point, int stages, int shards)
{
    const int gpus =
        dl_gpu_options_count(scenario->gpu) / (stages * shards * ranks_of_shard(point));
    return at_least_one(gpus < point->workers ? gpus : point->workers);
}

/* Divides a replica into `stages` x `shards` GPUs, so that there may be fewer replicas, which share
 * a batch given in total. The number of micro-batches stays or, with samples > 0, each micro-batch
 * gets that many samples. False if the batch is not divisible accordingly. */
static bool divide(divided *d, const dl_scenario *scenario, const dl_point *point, int stages,
                   int shards, int64_t samples)
{
    const int workers = replicas(scenario, point, stages, shards);
    const int sharers = scenario->batch_per_worker ? point->workers : workers;
    const int ranks = sharers * shards * at_least_one(point->experts);
    const int64_t of_rank = point->batch / ranks;
    const dl_split split = dl_point_split(point);
    const int64_t count = samples > 0 ? of_rank / samples : split.micro_batches;
    *d = (divided){.scenario = *scenario, .point = *point};
    if (scenario->pipeline != NULL) d->pipeline = *scenario->pipeline;
    if (count < 1 || count > DL_MICRO_BATCHES_MAX) return false;
    if (point->batch % ranks != 0 || of_rank % (samples > 0 ? samples : count) != 0) return false;
    if (shards > 1 && dl_scenario_gives(scenario, "exchange", "sharded_among")) return false;
    if (stages > at_least_one(point->stages)) {
        d->pipeline.schedule = DL_SCHEDULE_1F1B;
        d->pipeline.chunks = d->point.chunks = 1;
    }
    d->pipeline.stages = stages;
    d->pipeline.shards = shards;
    d->scenario.pipeline = &d->pipeline;
    d->point.workers = workers;
    d->point.gpu_count = 0;
    d->point.stages = stages;
    d->point.shards = shards;
    d->point.micro_batches = (int)count;
    d->point.option[DL_SYNC_ACCUMULATE] = stages > 1 ? 1 : (double)count;
    d->point.batch = of_rank * shards * at_least_one(point->experts) * workers;
    return can_share_gradients(&d->scenario, &d->point);
}

/* Appends "--layout tp=2,pp=4 --micro-batch 1 (61 GB)", with the number of workers if more are
 * given, and the schedule if it differs from the scenario's. */
static void say_divided(char **fits, const dl_scenario *scenario, const divided *d,
                        int given_workers, bool says_samples, double needs_bytes)
{
    const dl_point *point = &d->point;
    DL_AUTOFREE char *workers =
        point->workers != given_workers && dl_scenario_gives(scenario, "machine", "workers")
            ? dl_format(" --workers %d", point->workers)
            : NULL;
    DL_AUTOFREE char *layout = dl_axes_text(point->size, NULL);
    DL_AUTOFREE char *samples = says_samples
                                    ? micro_batch_option(scenario, true, point->micro_batches,
                                                         (int64_t)dl_point_split(point).samples)
                                    : NULL;
    const bool says_schedule = point->stages > 1 && scenario->pipeline != NULL &&
                               scenario->pipeline->schedule != d->pipeline.schedule;
    const bool says_chunks = says_schedule && scenario->pipeline->chunks > 1;
    dl_join_format(fits, ", ", "--layout %s%s%s%s%s%s%s (%s)", layout,
                   workers != NULL ? workers : "", samples != NULL ? " " : "",
                   samples != NULL ? samples : "", says_schedule ? " --set pipeline.schedule=" : "",
                   says_schedule ? dl_schedule_names[d->pipeline.schedule] : "",
                   says_chunks ? " --set pipeline.chunks=1" : "", DL_BYTES_TEXT(needs_bytes));
}

/* Tries more GPUs per worker, as shards of the parameters or, if `staged`, as stages and shards
 * with schedule 1F1B and micro-batches of one sample. */
static void try_layout(char **fits, const dl_scenario *scenario, const dl_costs *costs,
                       const dl_point *point, bool staged)
{
    const int stages = at_least_one(point->stages), shards = at_least_one(point->shards);
    const int gpus = dl_gpu_options_count(scenario->gpu) / ranks_of_shard(point);
    const int given = scenario->pipeline != NULL ? scenario->pipeline->micro_batch : 0;
    const int layers = costs->layer_count < DL_STAGES_MAX ? (int)costs->layer_count : DL_STAGES_MAX;
    const int deepest = staged ? layers : stages;
    for (int growth = 2; growth * stages * shards <= gpus; growth *= 2) {
        for (int deeper = staged ? 2 : 1; deeper <= growth && deeper * stages <= deepest;
             deeper *= 2) {
            divided d;
            if (!divide(&d, scenario, point, stages * deeper, shards * (growth / deeper),
                        staged ? 1 : given))
                continue;
            const dl_gpu_memory memory = sharded_memory(&d.scenario, costs, &d.point);
            if (!(memory.needs_bytes <= memory.has_bytes)) continue;
            say_divided(fits, scenario, &d, point->workers, staged, memory.needs_bytes);
            return;
        }
    }
}

/* Tries 1F1B, which keeps the activations of at most as many micro-batches as there are stages. */
static void try_schedule(char **fits, const dl_scenario *scenario, const dl_costs *costs,
                         const dl_point *point)
{
    dl_scenario_pipeline pipeline;
    dl_scenario own = *scenario;
    if (point->stages <= 1 || scenario->pipeline->schedule != DL_SCHEDULE_GPIPE) return;
    pipeline = *scenario->pipeline;
    pipeline.schedule = DL_SCHEDULE_1F1B;
    own.pipeline = &pipeline;
    const dl_gpu_memory memory = dl_run_memory(&own, costs, point);
    if (!dl_memory_fits(&memory)) return;
    dl_join_format(fits, ", ", "--set pipeline.schedule=1f1b (%s)",
                   DL_BYTES_TEXT(memory.needs_bytes));
}

/* Lists settings, other than those of the network, with which the point fits; NULL if there are
 * none. `staged`: tries only pipeline stages, the slowest remedy. */
static char *try_settings(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point,
                          bool staged)
{
    char *fits = NULL;
    if (staged) {
        try_layout(&fits, scenario, costs, point, true);
        return fits;
    }
    if (!dl_point_is_split(point)) {
        if (scenario->batch_per_worker) try_batch(&fits, scenario, costs, point);
        if (!scenario->batch_per_worker) try_micro_batch(&fits, scenario, costs, point);
        try_sharding(&fits, scenario, costs, point);
    } else {
        try_schedule(&fits, scenario, costs, point);
        try_micro_batch(&fits, scenario, costs, point);
        try_sharding(&fits, scenario, costs, point);
    }
    if (fits == NULL) try_layout(&fits, scenario, costs, point, false);
    return fits;
}

/* A change of the network that saves memory, with its command-line option. The array is ordered by
 * cost in time, cheapest first. */
typedef struct smaller_network {
    dl_recompute recompute; /* DL_RECOMPUTE_AUTO: unchanged */
    const char *key, *option;
} smaller_network;

static const smaller_network smaller_networks[] = {
    {DL_RECOMPUTE_AUTO, "loss=fused", "--workload NAME:loss=fused"},
    {DL_RECOMPUTE_SELECTIVE, NULL, "--recompute selective"},
    {DL_RECOMPUTE_FULL, NULL, "--recompute full"},
    {DL_RECOMPUTE_FULL, "loss=fused", "--workload NAME:loss=fused --recompute full"},
    {DL_RECOMPUTE_AUTO, "frozen_bits=4", "--workload NAME:frozen_bits=4"},
    {DL_RECOMPUTE_FULL, "frozen_bits=4", "--workload NAME:frozen_bits=4 --recompute full"}};

/* A scenario with a replaced network. */
typedef struct changed {
    dl_scenario scenario; /* owns only its `model` */
    dl_costs costs;       /* owns nothing */
    dl_costs estimated;
} changed;

/* Makes the change; false if it is impossible or, for selective recomputation, saves no memory.
 * Release with free_changed. */
static bool change(changed *c, const dl_scenario *scenario, const dl_costs *costs,
                   const smaller_network *to)
{
    dl_error err;
    *c = (changed){.scenario = *scenario, .costs = *costs};
    if (scenario->model == NULL) return false;
    if (to->recompute == DL_RECOMPUTE_SELECTIVE && !dl_recompute_saves(scenario, to->recompute))
        return false;
    if (costs->model_count > 0 && scenario->shares == DL_SHARES_SPEED) return false;
    c->scenario.model = to->key == NULL
                            ? dl_strdup(scenario->model)
                            : dl_format("%s%c%s", scenario->model,
                                        strchr(scenario->model, ':') != NULL ? ',' : ':', to->key);
    if (to->recompute != DL_RECOMPUTE_AUTO) c->scenario.recompute = to->recompute;
    if (dl_scenario_estimate_costs(&c->scenario, dl_scenario_first_gpu(scenario), &c->estimated,
                                   &err) != DL_OK) {
        free(c->scenario.model);
        return false;
    }
    take_estimate(&c->costs, &c->estimated);
    return true;
}

static void free_changed(changed *c)
{
    free(c->scenario.model);
    dl_costs_free(&c->estimated);
}

static bool can_recompute(const dl_scenario *scenario, const dl_costs *costs)
{
    const smaller_network full = {DL_RECOMPUTE_FULL, NULL, NULL};
    changed c;
    if (!change(&c, scenario, costs, &full)) return false;
    free_changed(&c);
    return true;
}

#define SHARDS_TRIED 256

/* Says how many GPUs, more than there are, fit if all share the parameters, each has one sample and
 * recomputes what it can: GPUs of a layout or, if workers share parameters, workers. */
static char *more_gpus(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point)
{
    const smaller_network full = {DL_RECOMPUTE_FULL, NULL, NULL};
    const int ranks = ranks_of_shard(point);
    changed c;
    const bool recomputes = change(&c, scenario, costs, &full);
    dl_scenario own = recomputes ? c.scenario : *scenario;
    dl_gpu_options gpu = *scenario->gpu;
    const bool by_workers = gpu.sharded == DL_SHARDED_PARAMETERS;
    char *text = NULL;
    if (by_workers) gpu.sharded = DL_SHARDED_NONE;
    own.gpu = &gpu;
    for (int shards = 2; shards <= SHARDS_TRIED && text == NULL; shards *= 2) {
        dl_point one = *point;
        divided d;
        one.workers = 1;
        one.batch = (int64_t)shards * at_least_one(point->experts);
        if (shards * ranks <= dl_gpu_options_count(&gpu) || !divide(&d, &own, &one, 1, shards, 1))
            continue;
        const dl_gpu_memory memory = sharded_memory(&d.scenario, costs, &d.point);
        if (!(memory.needs_bytes <= memory.has_bytes)) continue;
        DL_AUTOFREE char *layout = dl_axes_text(d.point.size, NULL);
        DL_AUTOFREE char *option =
            by_workers ? dl_format("--workers %d", shards) : dl_format("--layout %s", layout);
        text = dl_format("take %d GPUs (%s%s, a sample each: %s) or larger ones", shards * ranks,
                         option, recomputes ? " --recompute full" : "",
                         DL_BYTES_TEXT(memory.needs_bytes));
    }
    if (recomputes) free_changed(&c);
    return text != NULL ? text
                        : dl_strdup("take larger GPUs, or more with stages (--layout pp=COUNT)");
}

enum { AS_THEY_ARE, OTHERS, STAGED };

/* Tries the smaller networks with the present settings (AS_THEY_ARE), other settings (OTHERS) or
 * pipeline stages (STAGED). */
static void try_networks(char **fits, const dl_scenario *scenario, const dl_costs *costs,
                         const dl_point *point, int settings)
{
    for (size_t i = 0; i < DL_LENGTH(smaller_networks); i++) {
        const char *option = smaller_networks[i].option;
        changed c;
        if (!change(&c, scenario, costs, &smaller_networks[i])) continue;
        const dl_gpu_memory memory = dl_run_memory(&c.scenario, &c.costs, point);
        DL_AUTOFREE char *others =
            settings != AS_THEY_ARE ? try_settings(&c.scenario, &c.costs, point, settings == STAGED)
                                    : NULL;
        DL_AUTOFREE char *text =
            others != NULL ? dl_format("%s with %s", option, others)
            : settings == AS_THEY_ARE && dl_memory_fits(&memory)
                ? dl_format("%s (%s)", option, DL_BYTES_TEXT(memory.needs_bytes))
                : NULL;
        if (text != NULL) dl_join(fits, ", ", text);
        free_changed(&c);
        if (text != NULL) return;
    }
}

char *dl_fits_remedy(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point,
                     const dl_gpu_memory *memory)
{
    char *replica = dl_generate_remedy(scenario);
    if (replica != NULL) return replica;
    char *fits = try_settings(scenario, costs, point, false);
    try_networks(&fits, scenario, costs, point, AS_THEY_ARE);
    if (fits == NULL) try_networks(&fits, scenario, costs, point, OTHERS);
    if (fits == NULL) fits = try_settings(scenario, costs, point, true);
    if (fits == NULL) try_networks(&fits, scenario, costs, point, STAGED);
    if (fits != NULL) {
        char *text = dl_format("what fits: %s", fits);
        free(fits);
        return text;
    }
    const bool by_tokens =
        scenario->model != NULL && dl_architecture_class(scenario->model) == DL_MODEL_TRANSFORMER;
    const char *recomputed = can_recompute(scenario, costs) ? "no recomputation" : NULL;
    const double of_samples = memory->content.activations + memory->content.logits;
    const char *shorten = by_tokens && of_samples > memory->needs_bytes / 2
                              ? "shorten the samples (NAME:sequence=COUNT), "
                              : "";
    DL_AUTOFREE char *more = more_gpus(scenario, costs, point);
    if (dl_gpu_options_count(scenario->gpu) == 1)
        return dl_format("no smaller batch%s%s fits: %s%s", recomputed != NULL ? " and " : "",
                         recomputed != NULL ? recomputed : "", shorten, more);
    return dl_format("no smaller batch%s%s, no sharding and no pipeline stages fit: %s%s%s",
                     recomputed != NULL ? ", " : "", recomputed != NULL ? recomputed : "", shorten,
                     by_tokens && point->tensor <= 1
                         ? "divide the layers (--layout tp=COUNT, --advise layout), "
                         : "",
                     more);
}

char *dl_fits_text(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point,
                   const dl_gpu_memory *memory)
{
    DL_AUTOFREE char *content = dl_fits_content(&memory->content);
    DL_AUTOFREE char *remedy = dl_fits_remedy(scenario, costs, point, memory);
    return dl_format("%s; %s", content, remedy);
}

static bool numbers_differ(const dl_point *a, const dl_point *b)
{
    return a->workers != b->workers || a->batch != b->batch;
}

static bool modes_differ(const dl_point *a, const dl_point *b)
{
    return strcmp(dl_point_mode(a), dl_point_mode(b)) != 0;
}

/* Whether a point differs from the first one. */
static bool any_differs(const dl_study *study, bool (*differ)(const dl_point *, const dl_point *))
{
    for (size_t v = 0; v < study->variant_count; v++) {
        const dl_scenario *scenario = &study->variants[v].scenario;
        for (size_t p = 0; p < scenario->point_count; p++)
            if (differ(&study->variants[0].scenario.points[0], &scenario->points[p])) return true;
    }
    return false;
}

char *dl_fits_label(const dl_study *study, const dl_variant *variant, const dl_point *point)
{
    char *label = NULL;
    for (size_t k = 0; k < study->key_count; k++) {
        const dl_swept_key *key = &study->keys[k];
        const char *text = dl_study_text(study, variant, point, k);
        if (key->count < 2 || text[0] == '\0') continue;
        DL_AUTOFREE char *part = strcmp(key->key, "layout") == 0
                                     ? dl_strdup(text)
                                     : dl_format("%s %s", key->column, text);
        dl_join(&label, ", ", part);
    }
    if (label == NULL || any_differs(study, numbers_differ)) {
        dl_join_format(&label, ", ", "workers %d, batch %lld", point->workers,
                       (long long)point->batch);
    }
    if (any_differs(study, modes_differ)) dl_join(&label, ", ", dl_point_mode(point));
    return label;
}

/* Part of the GPU's memory that the row's point needs. */
static double part_needed(const dl_row *row)
{
    return row->memory.needs_bytes / row->memory.has_bytes;
}

dl_status dl_fits_check(const dl_study *study, const dl_sweep *sweep, dl_error *err)
{
    const dl_row *nearest = &sweep->rows[0];
    for (size_t i = 0; i < sweep->row_count; i++) {
        const dl_row *row = &sweep->rows[i];
        if (row->error == NULL || dl_memory_fits(&row->memory)) return DL_OK;
        if (part_needed(row) < part_needed(nearest)) nearest = row;
    }
    const dl_variant *variant = &study->variants[nearest->variant];
    DL_AUTOFREE char *remedy =
        dl_fits_remedy(&variant->scenario, &variant->costs, &nearest->point, &nearest->memory);
    DL_AUTOFREE char *label = dl_fits_label(study, variant, &nearest->point);
    return sweep->row_count == 1
               ? dl_error_set(err, DL_ERR_UNFIT, "the point %s; %s", nearest->error, remedy)
               : dl_error_set(err, DL_ERR_UNFIT,
                              "none of %zu points fits into its GPUs; the nearest (%s) %s; %s",
                              sweep->row_count, label, nearest->error, remedy);
}

const char *dl_recompute_in_vain(const dl_scenario *scenario)
{
    if (scenario->model == NULL || scenario->recompute != DL_RECOMPUTE_SELECTIVE ||
        dl_recompute_saves(scenario, DL_RECOMPUTE_SELECTIVE))
        return NULL;
    return "--recompute selective computes attention again and saves no memory: fused attention "
           "keeps "
           "no scores; products, torchtitan's selective, saves";
}

bool dl_recompute_saves(const dl_scenario *scenario, int recompute)
{
    const int ways[] = {DL_RECOMPUTE_NONE, recompute};
    double bytes[DL_LENGTH(ways)] = {0};
    for (size_t i = 0; i < DL_LENGTH(ways) && scenario->model != NULL; i++) {
        dl_scenario own = *scenario;
        dl_costs costs = {0};
        own.recompute = ways[i];
        if (dl_scenario_estimate_costs(&own, dl_scenario_first_gpu(scenario), &costs, NULL) !=
            DL_OK)
            return false;
        for (size_t l = 0; l < costs.layer_count; l++)
            bytes[i] += costs.layers[l].activation_bytes_per_sample.value;
        dl_costs_free(&costs);
    }
    return bytes[1] < bytes[0];
}
