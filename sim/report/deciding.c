#include "sim/report/deciding.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/alloc.h"
#include "common/units.h"
#include "sim/scenario/keys.h"

#define VALUE_BYTES 34

/* Largest number of workers on one node. */
static int most_on_a_node(const dl_gpu_options *gpu, int workers)
{
    DL_AUTOFREE int *on_node =
        dl_calloc((size_t)gpu->machine.nodes, sizeof *on_node, "workers of nodes");
    int most = 0;
    for (int w = 0; w < workers; w++) {
        const int here = ++on_node[dl_gpu_options_place(gpu, w).node];
        if (here > most) most = here;
    }
    return most;
}

/* Whether the cores that make batches are always busy. If they start only after the host has read
 * the output of the forward pass, only the rest of the step counts. */
static bool cores_are_busy(const dl_variant *variant, const dl_row *row)
{
    const dl_gpu_options *gpu = variant->scenario.gpu;
    const int workers = row->point.workers;
    const double samples = (double)row->point.batch / workers;
    const double make_ns = dl_costs_step_ns(&variant->costs, samples, "input");
    const double without_ns = gpu->made_at_launch && gpu->reads == DL_READS_FORWARD
                                  ? dl_costs_step_ns(&variant->costs, samples, "forward")
                                  : 0;
    const double has_ns = (dl_s_to_ns(row->mean.step_mean_s) - without_ns) * gpu->input_cores;
    return make_ns * most_on_a_node(gpu, workers) >= 0.95 * has_ns;
}

/* Whether the storage of a node, or the shared storage, is always busy. */
static bool storage_is_busy(const dl_variant *variant, const dl_row *row, int limits)
{
    const dl_gpu_options *gpu = variant->scenario.gpu;
    const dl_scenario_input *input = &variant->scenario.input;
    const int workers = row->point.workers;
    const bool shared = limits == DL_LIMITS_SHARED_STORAGE;
    const dl_quantity *rate = gpu == NULL ? &input->storage_bytes_per_s
                              : shared    ? &gpu->shared_storage_bytes_per_s
                                          : &gpu->storage_bytes_per_s;
    if (!rate->known || (shared && gpu == NULL)) return false;
    const double samples = (double)row->point.batch / workers;
    const double read_bytes = (1 - input->cached_frac) * samples *
                              variant->costs.stored_bytes_per_sample.value *
                              (shared || gpu == NULL ? workers : most_on_a_node(gpu, workers));
    return read_bytes >= 0.95 * row->mean.step_mean_s * rate->value;
}

static bool any_storage_is_busy(const dl_variant *variant, const dl_row *row)
{
    return storage_is_busy(variant, row, DL_LIMITS_STORAGE) ||
           storage_is_busy(variant, row, DL_LIMITS_SHARED_STORAGE);
}

/* Time of a worker's step on an otherwise idle core, ns; with `batch`, only the time to make its
 * batch. */
static double work_ns(const dl_variant *variant, const dl_row *row, bool batch)
{
    static const char *const phases[] = {"input", "forward", "backward", "update"};
    const double samples = (double)row->point.batch / row->point.workers;
    double ns = 0;
    for (size_t p = 0; p < (batch ? 1 : DL_LENGTH(phases)); p++)
        ns += dl_costs_step_ns(&variant->costs, samples, phases[p]);
    return ns;
}

/* Whether training and making batches keep all cores busy, for at least 90 % of the time. */
static bool box_is_busy(const dl_variant *variant, const dl_row *row)
{
    const double has_ns = dl_s_to_ns(row->mean.step_mean_s) * row->point.cores;
    return row->point.workers * work_ns(variant, row, false) >= 0.9 * has_ns;
}

/* Whether the loaders of a worker on cores are busy for at least 95 % of the time. */
static bool loaders_are_busy(const dl_variant *variant, const dl_row *row)
{
    const dl_scenario_input *input = &variant->scenario.input;
    const dl_quantity *rate = &input->storage_bytes_per_s;
    const double samples = (double)row->point.batch / row->point.workers;
    const double read_s = rate->known
                              ? (1 - input->cached_frac) * samples *
                                    variant->costs.stored_bytes_per_sample.value / rate->value
                              : 0;
    const double batch_s = read_s + dl_ns_to_s(work_ns(variant, row, true));
    return batch_s >= 0.95 * row->mean.step_mean_s * input->loaders;
}

static bool is_storage(int limits)
{
    return limits == DL_LIMITS_STORAGE || limits == DL_LIMITS_SHARED_STORAGE;
}

/* Whether a row on GPUs waits for input because of the resource that the key sets (`limits`:
 * DL_LIMITS_*). */
static bool input_limits_gpus(int limits, const dl_variant *variant, const dl_row *row)
{
    const dl_gpu_options *gpu = variant->scenario.gpu;
    if (is_storage(limits)) return storage_is_busy(variant, row, limits);
    if (limits == DL_LIMITS_LOADERS || gpu->in_turn || any_storage_is_busy(variant, row))
        return false;
    if (limits == DL_LIMITS_PREFETCH && gpu->made_at_launch) return false;
    return cores_are_busy(variant, row) == (limits == DL_LIMITS_INPUT_CORES);
}

/* Whether a row on cores waits for input because of the resource that the key sets (`limits`:
 * DL_LIMITS_*). */
static bool input_limits_cores(int limits, const dl_variant *variant, const dl_row *row)
{
    const int loaders = variant->scenario.input.loaders;
    if (storage_is_busy(variant, row, DL_LIMITS_STORAGE)) return limits == DL_LIMITS_STORAGE;
    if (is_storage(limits) || limits == DL_LIMITS_INPUT_CORES) return false;
    if (loaders == 0)
        return limits == DL_LIMITS_LOADERS && dl_costs_of_other_program(&variant->costs);
    const bool busy = loaders_are_busy(variant, row) || box_is_busy(variant, row);
    if (limits == DL_LIMITS_LOADERS) return busy;
    const dl_key *prefetch = dl_keys_find(&dl_scenario_keys, "input", "prefetch");
    return !busy && variant->scenario.given[prefetch - dl_scenario_keys.rows];
}

/* Fraction of a worker's time spent on input; on cores without the time to fetch a ready batch. 0
 * if below DL_DECIDING_FRAC. */
static double input_part(const dl_variant *variant, const dl_row *row)
{
    const dl_value *take = &variant->costs.input_copy_ns;
    const bool takes = variant->scenario.input.loaders > 0 && take->known;
    const double part = row->mean.part_frac[DL_PART_INPUT] -
                        (takes ? dl_ns_to_s(take->value) / row->mean.step_mean_s : 0);
    return part >= DL_DECIDING_FRAC ? part : 0;
}

/* Returns the effect of a deciding default in words. */
static const char *effect_of(int limits, const dl_variant *variant, const dl_row *row, bool given)
{
    static const char *const effects[] = {
        [DL_LIMITS_NOTHING] = "",
        [DL_LIMITS_MODE] = "workers do not exchange anything: the speedup is the ideal one",
        [DL_LIMITS_NOISE] = "steps do not vary, so no worker is late by chance",
        [DL_LIMITS_INPUT_CORES] = "GPUs wait for input",
        [DL_LIMITS_LOADERS] = "busy whenever batches can be made; workers wait for input",
        [DL_LIMITS_PREFETCH] = "GPUs wait for input",
        [DL_LIMITS_STORAGE] = "read all the time; GPUs wait for input",
        [DL_LIMITS_SHARED_STORAGE] = "read all the time; GPUs wait for input",
        [DL_LIMITS_OVERLAP] = "exchange does not run during the backward pass: it takes",
        [DL_LIMITS_BUCKETS] = "exchange starts when all gradients are ready: it takes",
        [DL_LIMITS_SERVER] = "averaging and the server's updates take",
        [DL_LIMITS_PLACE] =
            "averages are an all-reduce of the GPUs, as PyTorch's local SGD has it; "
            "with where = cpu they go through the memory of the first node's "
            "host. Copies take",
    };
    const bool on_cores = variant->scenario.gpu == NULL;
    const dl_split split = dl_point_split(&row->point);
    if (limits == DL_LIMITS_OVERLAP && split.tensor * split.context * split.experts > 1)
        return "gradients are not exchanged during the backward pass; with the exchanges within "
               "layers this takes";
    if (limits == DL_LIMITS_NOISE && !on_cores)
        return variant->costs.gpu_spread_frac.known || variant->scenario.slow_count > 0
                   ? "steps do not vary: beyond lasting differences in speed, no worker is late by "
                     "chance"
                   : "steps do not vary and GPUs of one model are equal ([spread] gpu_frac), so no "
                     "worker is late by chance";
    if (limits == DL_LIMITS_PLACE && !dl_scenario_is_collective(&variant->scenario, &row->point))
        return "averages go through the memory of the first node's host; with where = allreduce, "
               "as "
               "PyTorch's local SGD has it, through an all-reduce of the GPUs. Copies take";
    if (limits == DL_LIMITS_INPUT_CORES && given)
        return "busy whenever batches can be made; GPUs wait for input";
    if (limits == DL_LIMITS_LOADERS && variant->scenario.input.loaders == 0)
        return "workers make their batches themselves: it takes";
    if (limits == DL_LIMITS_LOADERS && box_is_busy(variant, row))
        return "they and training keep all cores busy; workers wait for input";
    if (limits == DL_LIMITS_PREFETCH && on_cores) return "workers wait for input";
    if (limits == DL_LIMITS_STORAGE && on_cores) return "read all the time; workers wait for input";
    return effects[limits];
}

/* Fraction of the row's time caused by the limit, and its column; 0: the limit does not apply; NaN:
 * it applies but takes no time. */
static double part_of(int limits, const dl_variant *variant, const dl_row *row, const char **column)
{
    const dl_gpu_options *gpu = variant->scenario.gpu;
    const dl_exchange_plan plan = dl_scenario_exchange(&variant->scenario, &row->point);
    const dl_mode *mode = row->point.mode;
    const dl_split split = dl_point_split(&row->point);
    const double *part = row->mean.part_frac;
    const bool buckets = gpu != NULL && row->point.stages <= 1 &&
                         mode->exchange == DL_EXCHANGES_GRADIENTS && plan.late == 0;
    const bool server =
        dl_mode_takes(mode, DL_SYNC_SERVER_THREADS) &&
        (gpu == NULL || (gpu->where != DL_WHERE_GPU &&
                         !dl_scenario_is_collective(&variant->scenario, &row->point)));
    *column = NULL;
    if (row->error != NULL) return 0;
    switch (limits) {
    case DL_LIMITS_MODE: return row->point.workers > 1 ? (double)NAN : 0;
    case DL_LIMITS_NOISE:
        if (dl_costs_work_differs(&variant->costs)) return 0;
        return row->point.workers > 1 && mode->wait != DL_MODE_WAIT_NONE ? (double)NAN : 0;
    case DL_LIMITS_LOADERS:
    case DL_LIMITS_INPUT_CORES:
    case DL_LIMITS_PREFETCH:
    case DL_LIMITS_STORAGE:
    case DL_LIMITS_SHARED_STORAGE:
        *column = "input_frac";
        if (row->point.stages > 1 && is_storage(limits)) return 0;
        return (gpu != NULL ? input_limits_gpus(limits, variant, row)
                            : input_limits_cores(limits, variant, row))
                   ? input_part(variant, row)
                   : 0;
    case DL_LIMITS_OVERLAP:
        *column = "communication_frac";
        return buckets && !plan.as_ready && row->point.workers * split.shards > 1
                   ? part[DL_PART_COMMUNICATION]
                   : 0;
    case DL_LIMITS_BUCKETS:
        *column = "communication_frac";
        return buckets && plan.as_ready && variant->costs.gradient_count == 0
                   ? part[DL_PART_COMMUNICATION]
                   : 0;
    case DL_LIMITS_SERVER:
        *column = "averaging_frac";
        return server && row->point.workers > 1 ? part[DL_PART_AVERAGING] : 0;
    case DL_LIMITS_PLACE:
        *column = "communication_frac";
        return gpu != NULL && gpu->where != DL_WHERE_GPU && row->point.workers > 1 &&
                       dl_mode_averages(mode)
                   ? part[DL_PART_COMMUNICATION]
                   : 0;
    default: return 0;
    }
}

static bool is_of_input(const dl_key *key)
{
    return key->limits == DL_LIMITS_INPUT_CORES || key->limits == DL_LIMITS_LOADERS ||
           key->limits == DL_LIMITS_PREFETCH || is_storage(key->limits);
}

static double input_value(const dl_key *key, const dl_scenario *scenario)
{
    switch (key->limits) {
    case DL_LIMITS_STORAGE: return scenario->input.storage_bytes_per_s.value;
    case DL_LIMITS_SHARED_STORAGE: return scenario->gpu->shared_storage_bytes_per_s.value;
    case DL_LIMITS_INPUT_CORES: return scenario->gpu->input_cores;
    case DL_LIMITS_LOADERS: return scenario->input.loaders;
    default: return scenario->input.prefetch;
    }
}

dl_deciding_default *dl_deciding_defaults(const dl_study *study, const dl_sweep *sweep,
                                          size_t *count)
{
    dl_deciding_default *found =
        dl_calloc(dl_scenario_keys.count, sizeof *found, "defaults that decided");
    *count = 0;
    for (size_t k = 0; k < dl_scenario_keys.count; k++) {
        dl_deciding_default one = {.key = &dl_scenario_keys.rows[k]};
        if (one.key->limits == DL_LIMITS_NOTHING) continue;
        for (size_t r = 0; r < sweep->row_count; r++) {
            const dl_row *row = &sweep->rows[r];
            const dl_variant *variant = &study->variants[row->variant];
            const char *column = NULL;
            if (variant->scenario.given[k] && !is_of_input(one.key)) continue;
            /* With generators these defaults belong to the trainer. */
            if (variant->scenario.generators != NULL) continue;
            const double part = part_of(one.key->limits, variant, row, &column);
            if (!isnan(part) && part < DL_DECIDING_FRAC) continue;
            one.column = column;
            one.rows++;
            one.given = variant->scenario.given[k];
            if (one.effect == NULL || part > one.most)
                one.effect = effect_of(one.key->limits, variant, row, one.given);
            if (!(part > one.most)) continue;
            one.most = part;
            if (one.given) one.value = input_value(one.key, &variant->scenario);
        }
        if (one.rows > 0) found[(*count)++] = one;
    }
    return found;
}

static void value_text(char text[VALUE_BYTES], const dl_deciding_default *d)
{
    if (is_storage(d->key->limits)) {
        dl_format_bytes(text, VALUE_BYTES - 2, d->value);
        strcat(text, "/s");
    } else {
        snprintf(text, VALUE_BYTES, "%.0f", d->value);
    }
}

const char *dl_deciding_text(char *text, size_t bytes, const dl_deciding_default *d)
{
    char value[VALUE_BYTES];
    value_text(value, d);
    const int used = d->given ? snprintf(text, bytes, "[%s] %s = %s: %s", d->key->section,
                                         d->key->name, value, d->effect)
                              : snprintf(text, bytes, "default [%s] %s = %s: %s", d->key->section,
                                         d->key->name, d->key->fallback, d->effect);
    if (d->column != NULL && (size_t)used < bytes) {
        snprintf(text + used, bytes - (size_t)used, " up to %.1f %% of the time", 100 * d->most);
    }
    return text;
}
