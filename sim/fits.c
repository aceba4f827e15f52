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
    const struct {
        const char *name;
        double bytes;
    } parts[] = {{"parameters", content->parameters},
                 {"gradients", content->gradients},
                 {"optimizer", content->optimizer},
                 {"gathered", content->gathered},
                 {"activations", content->activations},
                 {"working", content->working},
                 {"logits", content->logits},
                 {"workspace", content->workspace},
                 {"others", content->others}};
    for (size_t i = 0; i < DL_LENGTH(parts); i++) {
        if (!(parts[i].bytes > 0)) continue;
        char *part = dl_format("%s %s", parts[i].name, DL_BYTES_TEXT(parts[i].bytes));
        dl_join(&text, ", ", part);
        free(part);
    }
    return text != NULL ? text : dl_strdup("");
}

/* Tries a smaller batch for the same workers. */
static void try_batch(char **fits, const dl_scenario *scenario, const dl_costs *costs,
                      const dl_point *point)
{
    const int64_t unit = point->workers * (int64_t)point->option[DL_SYNC_ACCUMULATE];
    if (unit >= point->batch) return;
    const int64_t batch = dl_largest_fitting(scenario, costs, point, unit);
    if (batch == 0) return;
    char *text = dl_format("--batch-per-worker %lld", (long long)(batch / point->workers));
    dl_join(fits, ", ", text);
    free(text);
}

/* Tries smaller micro-batches, and more of them, if no more of these are kept at once. */
static void try_micro_batch(char **fits, const dl_scenario *scenario, const dl_costs *costs,
                            const dl_point *point)
{
    const dl_split split = dl_point_split(point);
    const int64_t unit = (int64_t)point->workers * dl_split_batches(&split) * split.micro_batches;
    if (split.stages > 1 && scenario->pipeline->schedule == DL_SCHEDULE_GPIPE) return;
    const int64_t samples = dl_largest_fitting(scenario, costs, point, unit) / unit;
    if (samples == 0) return;
    char *text = dl_format("--micro-batch %lld", (long long)samples);
    dl_join(fits, ", ", text);
    free(text);
}

/* Tries sharding optimizer state, gradients, or parameters among the workers, if nothing is sharded
 * yet. */
static void try_sharding(char **fits, const dl_scenario *scenario, const dl_costs *costs,
                         const dl_point *point)
{
    if (!dl_mode_reduces_gradients(point->mode) || point->workers < 2) return;
    dl_gpu_options gpu = *scenario->gpu;
    dl_scenario sharded = *scenario;
    sharded.gpu = &gpu;
    for (int s = (int)gpu.sharded + 1; s <= DL_SHARDED_PARAMETERS; s++) {
        gpu.sharded = (dl_sharded)s;
        const dl_gpu_memory memory = dl_run_memory(&sharded, costs, point);
        if (!dl_memory_fits(&memory)) continue;
        char *text = dl_format("exchange.sharded=%s (%s)", dl_sharded_names[s],
                               DL_BYTES_TEXT(memory.needs_bytes));
        dl_join(fits, ", ", text);
        free(text);
        return;
    }
}

/* Tries more GPUs per worker, which divide the parameters. */
static void try_layout(char **fits, const dl_scenario *scenario, const dl_costs *costs,
                       const dl_point *point)
{
    const int gpus = dl_gpu_options_count(scenario->gpu);
    const int stages = point->stages > 1 ? point->stages : 1;
    const int tensor = point->tensor > 1 ? point->tensor : 1;
    const int context = point->context > 1 ? point->context : 1;
    dl_point tried = *point;
    const int64_t all = point->batch / point->workers;
    tried.workers = 1;
    tried.gpu_count = 0;
    for (int shards = 2; shards * stages * tensor * context <= gpus && shards <= all; shards *= 2) {
        tried.shards = shards;
        tried.batch = all - all % shards;
        const dl_gpu_memory memory = dl_run_memory(scenario, costs, &tried);
        if (shards <= point->shards || !dl_memory_fits(&memory)) continue;
        char *tp = tensor > 1 ? dl_format("tp=%d,", tensor) : dl_strdup("");
        char *pp = stages > 1 ? dl_format("pp=%d,", stages) : dl_strdup("");
        char *cp = context > 1 ? dl_format("cp=%d,", context) : dl_strdup("");
        char *text = dl_format("--layout %s%s%sfsdp=%d (%s)", tp, cp, pp, shards,
                               DL_BYTES_TEXT(memory.needs_bytes));
        free(cp);
        dl_join(fits, ", ", text);
        free(tp);
        free(pp);
        free(text);
        return;
    }
}

/* The settings, other than the network's, with which the point fits; NULL: none. */
static char *try_settings(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point)
{
    char *fits = NULL;
    if (!dl_point_is_split(point)) {
        try_batch(&fits, scenario, costs, point);
        try_sharding(&fits, scenario, costs, point);
    } else {
        try_micro_batch(&fits, scenario, costs, point);
    }
    if (fits == NULL) try_layout(&fits, scenario, costs, point);
    return fits;
}

/* A network that keeps less in memory, and its option. Those that cost least time come first. */
typedef struct smaller_network {
    dl_recompute recompute; /* DL_RECOMPUTE_AUTO: as it is */
    const char *key, *option;
} smaller_network;

static const smaller_network smaller_networks[] = {
    {DL_RECOMPUTE_SELECTIVE, NULL, "--recompute selective"},
    {DL_RECOMPUTE_FULL, NULL, "--recompute full"},
    {DL_RECOMPUTE_AUTO, "frozen_bits=4", "NAME:frozen_bits=4"},
    {DL_RECOMPUTE_FULL, "frozen_bits=4", "NAME:frozen_bits=4 --recompute full"}};

/* Memory of a scenario with another network in place of its own. */
typedef struct changed {
    dl_scenario scenario; /* owns its `model` only */
    dl_costs costs;       /* owns nothing */
    dl_costs estimated;
} changed;

/* Whether the network can be so; then free_changed releases *c. */
static bool change(changed *c, const dl_scenario *scenario, const dl_costs *costs,
                   const smaller_network *to)
{
    dl_error err;
    *c = (changed){.scenario = *scenario, .costs = *costs};
    if (scenario->model == NULL || costs->model_count > 0) return false;
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
    c->costs.layers = c->estimated.layers;
    c->costs.layer_count = c->estimated.layer_count;
    c->costs.gpu_memory = c->estimated.gpu_memory;
    c->costs.frozen_bytes = c->estimated.frozen_bytes;
    return true;
}

static void free_changed(changed *c)
{
    free(c->scenario.model);
    dl_costs_free(&c->estimated);
}

/* Tries smaller networks with the settings as they are or, with `settings`, others for each. */
static void try_networks(char **fits, const dl_scenario *scenario, const dl_costs *costs,
                         const dl_point *point, bool settings)
{
    for (size_t i = 0; i < DL_LENGTH(smaller_networks); i++) {
        const char *option = smaller_networks[i].option;
        changed c;
        if (!change(&c, scenario, costs, &smaller_networks[i])) continue;
        const dl_gpu_memory memory = dl_run_memory(&c.scenario, &c.costs, point);
        char *others = settings ? try_settings(&c.scenario, &c.costs, point) : NULL;
        char *text = others != NULL ? dl_format("%s with %s", option, others)
                     : !settings && dl_memory_fits(&memory)
                         ? dl_format("%s (%s)", option, DL_BYTES_TEXT(memory.needs_bytes))
                         : NULL;
        if (text != NULL) dl_join(fits, ", ", text);
        free_changed(&c);
        free(others);
        free(text);
        if (text != NULL) return;
    }
}

char *dl_fits_remedy(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point,
                     const dl_gpu_memory *memory)
{
    char *replica = dl_generate_remedy(scenario);
    if (replica != NULL) return replica;
    char *fits = try_settings(scenario, costs, point);
    try_networks(&fits, scenario, costs, point, false);
    if (fits == NULL) try_networks(&fits, scenario, costs, point, true);
    if (fits != NULL) {
        char *text = dl_format("what fits: %s", fits);
        free(fits);
        return text;
    }
    const bool by_tokens =
        scenario->model != NULL && dl_architecture_class(scenario->model) == DL_MODEL_TRANSFORMER;
    const double of_samples = memory->content.activations + memory->content.logits;
    return dl_format("no smaller batch%s and no sharding fits: %ssplit the model (--layout "
                     "pp=COUNT), or take larger GPUs",
                     by_tokens ? ", no recomputation" : "",
                     by_tokens && of_samples > memory->needs_bytes / 2
                         ? "shorten the samples (NAME:sequence=COUNT), "
                         : "");
}

char *dl_fits_text(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point,
                   const dl_gpu_memory *memory)
{
    char *content = dl_fits_content(&memory->content);
    char *remedy = dl_fits_remedy(scenario, costs, point, memory);
    char *text = dl_format("%s; %s", content, remedy);
    free(content);
    free(remedy);
    return text;
}

dl_status dl_fits_check(const dl_sweep *sweep, dl_error *err)
{
    for (size_t i = 0; i < sweep->row_count; i++)
        if (sweep->rows[i].error == NULL || dl_memory_fits(&sweep->rows[i].memory)) return DL_OK;
    return sweep->row_count == 1
               ? dl_error_set(err, DL_ERR_UNFIT, "the point %s", sweep->rows[0].error)
               : dl_error_set(err, DL_ERR_UNFIT,
                              "none of %zu points fits into its GPUs; the first %s",
                              sweep->row_count, sweep->rows[0].error);
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
