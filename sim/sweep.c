#include "sim/sweep.h"

#include <math.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/sort.h"
#include "common/units.h"
#include "sim/generate/generate.h"
#include "sim/shares.h"
#include "sim/statistics.h"
#include "sim/sweep_internal.h"
#include "sim/traced.h"

/* Added to the scenario's seed for the draws of runs, so that they differ from those of compute. */
#define RUN_SEED 0x72756e

/* Figures of a row, set to NaN if it was not run. */
static const size_t figures[] = {
    offsetof(dl_row, mean.step_mean_s),
    offsetof(dl_row, mean.step_p50_s),
    offsetof(dl_row, mean.step_p99_s),
    offsetof(dl_row, mean.step_sd_s),
    offsetof(dl_row, mean.throughput_per_s),
    offsetof(dl_row, low_per_s),
    offsetof(dl_row, high_per_s),
    offsetof(dl_row, speedup),
    offsetof(dl_row, speedup_low),
    offsetof(dl_row, speedup_high),
    offsetof(dl_row, efficiency),
    offsetof(dl_row, mean.part_frac[DL_PART_COMPUTE]),
    offsetof(dl_row, mean.part_frac[DL_PART_DISPATCH]),
    offsetof(dl_row, mean.part_frac[DL_PART_COMMUNICATION]),
    offsetof(dl_row, mean.part_frac[DL_PART_AVERAGING]),
    offsetof(dl_row, mean.part_frac[DL_PART_WAITING]),
    offsetof(dl_row, mean.part_frac[DL_PART_INPUT]),
    offsetof(dl_row, mean.applied_frac),
    offsetof(dl_row, mean.updates_per_s),
    offsetof(dl_row, staleness_mean),
    offsetof(dl_row, staleness_sd),
    offsetof(dl_row, staleness_p50),
    offsetof(dl_row, staleness_p90),
    offsetof(dl_row, staleness_p99),
    offsetof(dl_row, staleness_max),
    offsetof(dl_row, mean.drift_steps_mean),
    offsetof(dl_row, mean.drift_steps_max),
    offsetof(dl_row, mean.clock_lag_max),
};

/* The runs of one point. */
typedef struct row_runs {
    const dl_run_result *central; /* [central_count >= 1] replicates with undrawn costs */
    int64_t central_count;
    /* Replicates with drawn costs, or with undrawn ones if only `logs` are drawn; may be empty.
     * drawn_step 0: all are the same run. */
    const dl_run_result *drawn;
    int64_t drawn_count, drawn_step;
    const double *logs; /* [drawn_count] logarithm of a factor on the throughput; NULL: no factor */
} row_runs;

/* Copies staleness counts to [rows x bins], with bins beyond the result's set to 0; rows = 1 sums
 * them over workers. The caller frees the array. */
static int64_t *spread_staleness(const dl_run_result *of, int rows, int bins)
{
    int64_t *counts = dl_calloc((size_t)rows * (size_t)bins, sizeof *counts, "staleness counts");
    for (int r = 0; r < of->staleness_rows; r++) {
        for (int s = 0; s < of->staleness_bins; s++)
            counts[(size_t)(r % rows) * (size_t)bins + (size_t)s] +=
                of->staleness[(size_t)r * (size_t)of->staleness_bins + (size_t)s];
    }
    return counts;
}

static void add_worker_staleness(dl_run_result *pooled, const dl_run_result *run)
{
    const size_t workers = (size_t)run->workers;
    if (pooled->worker_stale_sum == NULL) {
        pooled->worker_stale_sum = dl_calloc(workers, sizeof(int64_t), "staleness of workers");
        pooled->worker_stale_count = dl_calloc(workers, sizeof(int64_t), "gradients of workers");
    }
    for (size_t w = 0; w < workers; w++) {
        pooled->worker_stale_sum[w] += run->worker_stale_sum[w];
        pooled->worker_stale_count[w] += run->worker_stale_count[w];
    }
}

static void add_staleness(dl_run_result *pooled, const dl_run_result *run)
{
    if (run->staleness_bins == 0) return;
    const bool first = pooled->staleness_bins == 0;
    const int rows = first || run->staleness_rows < pooled->staleness_rows ? run->staleness_rows
                                                                           : pooled->staleness_rows;
    const int bins =
        run->staleness_bins > pooled->staleness_bins ? run->staleness_bins : pooled->staleness_bins;
    if (rows != pooled->staleness_rows || bins != pooled->staleness_bins) {
        int64_t *grown = spread_staleness(pooled, rows, bins);
        free(pooled->staleness);
        pooled->staleness = grown;
        pooled->staleness_rows = rows;
        pooled->staleness_bins = bins;
    }
    for (int r = 0; r < run->staleness_rows; r++) {
        for (int s = 0; s < run->staleness_bins; s++)
            pooled->staleness[(size_t)(r % rows) * (size_t)bins + (size_t)s] +=
                run->staleness[(size_t)r * (size_t)run->staleness_bins + (size_t)s];
    }
    add_worker_staleness(pooled, run);
}

/* Median over the replicates of the result's member at `offset`, a double. */
static double median_of(const dl_run_result *runs, int64_t replicates, size_t offset)
{
    DL_AUTOFREE double *values = dl_calloc((size_t)replicates, sizeof *values, "replicates");
    for (int64_t r = 0; r < replicates; r++) {
        values[r] = *(const double *)(const void *)((const char *)&runs[r] + offset);
    }
    dl_sort_doubles(values, (size_t)replicates);
    return dl_quantile(values, (size_t)replicates, 0.5);
}

/* Adds the members of *run, all of them doubles, with weight `share` to those of *mean, which is
 * made if it is NULL; returns it. */
static void *add_doubles(void *mean, const void *run, size_t bytes, double share)
{
    double *sum = mean != NULL ? mean : dl_calloc(1, bytes, "means of figures");
    const double *added = run;
    for (size_t i = 0; i < bytes / sizeof *sum; i++)
        sum[i] += share * added[i];
    return sum;
}

static void add_split(dl_run_result *mean, const dl_split_result *run, double share)
{
    if (mean->split == NULL) mean->split = dl_calloc(1, sizeof *mean->split, "figures of stages");
    mean->split->stages = run->stages;
    mean->split->bubble_frac += share * run->bubble_frac;
    mean->split->crossed_bytes += share * run->crossed_bytes;
    mean->split->reduced_bytes += share * run->reduced_bytes;
    for (int s = 0; s < run->stages; s++)
        mean->split->busy_frac[s] += share * run->busy_frac[s];
}

/* Adds a run to the row's means with weight `share`. */
static void add_run(dl_run_result *mean, const dl_run_result *run, double share)
{
    mean->samples += run->samples;
    mean->span_s += run->span_s;
    mean->tail_frac += share * run->tail_frac;
    mean->applied_frac += share * run->applied_frac;
    mean->updates_per_s += share * run->updates_per_s;
    mean->updates += run->updates;
    mean->step_sd_s += share * run->step_sd_s;
    mean->step_p50_s += share * run->step_p50_s;
    mean->step_p99_s += share * run->step_p99_s;
    for (int p = 0; p < DL_PART_COUNT; p++)
        mean->part_frac[p] += share * run->part_frac[p];
    mean->goodput_frac += share * run->goodput_frac;
    mean->away_frac += share * run->away_frac;
    mean->drift_steps_mean += share * run->drift_steps_mean;
    mean->drift_steps_max = isnan(run->drift_steps_max)
                                ? run->drift_steps_max
                                : fmax(mean->drift_steps_max, run->drift_steps_max);
    mean->clock_lag_max = fmax(mean->clock_lag_max, run->clock_lag_max);
    for (int w = 0; w < run->workers; w++) {
        mean->worker_step_s[w] += share * run->worker_step_s[w];
    }
    mean->events += run->events;
    add_staleness(mean, run);
    if (run->split != NULL) add_split(mean, run->split, share);
    if (run->averaging != NULL)
        mean->averaging =
            add_doubles(mean->averaging, run->averaging, sizeof *run->averaging, share);
    if (run->syncer != NULL)
        mean->syncer = add_doubles(mean->syncer, run->syncer, sizeof *run->syncer, share);
    if (run->rollout != NULL)
        mean->rollout = add_doubles(mean->rollout, run->rollout, sizeof *run->rollout, share);
}

/* Number of runs that show how the row varies: those with drawn costs or, if none are drawn, all
 * others. */
static size_t varied_count(const row_runs *runs)
{
    return (size_t)(runs->drawn_count > 0 ? runs->drawn_count : runs->central_count);
}

/* The throughput of one of these runs. */
static double varied_rate(const row_runs *runs, size_t number)
{
    if (runs->drawn_count == 0) return runs->central[number].throughput_per_s;
    const double per_s = runs->drawn[(int64_t)number * runs->drawn_step].throughput_per_s;
    return runs->logs != NULL ? per_s * exp(runs->logs[number]) : per_s;
}

/* Sets the interval around `center` of the rates or, with `base`, of their ratios to the baseline's
 * runs with the same costs and noise (sim/sweep.h). */
static void set_interval(const row_runs *runs, const row_runs *base, double center, double *low,
                         double *high)
{
    const size_t count = varied_count(runs);
    /* The center was computed from the central runs, which costs one degree of freedom. */
    const double freedom = (double)count - (runs->drawn_count > 0 ? 0 : 1);
    double *values = dl_calloc(count, sizeof *values, "rates"), squares = 0;
    for (size_t r = 0; r < count; r++) {
        values[r] = varied_rate(runs, r) / (base != NULL ? varied_rate(base, r) : 1);
        squares += pow(log(values[r] / center), 2);
    }
    *low = *high = center;
    if (count >= DL_INTERVAL_REPLICATES) {
        dl_sort_doubles(values, count);
        *low = fmin(center, dl_quantile(values, count, 0.025));
        *high = fmax(center, dl_quantile(values, count, 0.975));
    } else if (freedom > 0) {
        const double spread = dl_t_quantile(0.975, freedom) * sqrt(squares / freedom);
        *low = center * exp(-spread);
        *high = center * exp(spread);
    }
    free(values);
}

/* Smallest staleness that at least a fraction `p` of all gradients do not exceed. */
static double staleness_quantile(const int64_t *counts, int bins, int64_t total, double p)
{
    int64_t seen = 0;
    for (int s = 0; s < bins; s++) {
        seen += counts[s];
        if ((double)seen >= p * (double)total) return s;
    }
    return bins - 1;
}

static void set_staleness(dl_row *row)
{
    const dl_run_result *mean = &row->mean;
    int bins = mean->staleness_bins;
    int64_t *counts = dl_calloc((size_t)bins, sizeof *counts, "staleness counts"), total = 0;
    row->worker_staleness =
        dl_calloc((size_t)mean->workers, sizeof *row->worker_staleness, "staleness means");
    double sum = 0, squares = 0;
    for (int r = 0; r < mean->staleness_rows; r++) {
        for (int s = 0; s < bins; s++)
            counts[s] += mean->staleness[(size_t)r * (size_t)bins + (size_t)s];
    }
    for (int s = 0; s < bins; s++) {
        total += counts[s];
        sum += (double)counts[s] * s;
        squares += (double)counts[s] * s * s;
    }
    for (int w = 0; w < mean->workers; w++)
        row->worker_staleness[w] =
            (double)mean->worker_stale_sum[w] / (double)mean->worker_stale_count[w];
    row->staleness_mean = sum / (double)total;
    row->staleness_sd =
        sqrt(fmax(0, squares / (double)total - row->staleness_mean * row->staleness_mean));
    row->staleness_p50 = staleness_quantile(counts, bins, total, 0.5);
    row->staleness_p90 = staleness_quantile(counts, bins, total, 0.9);
    row->staleness_p99 = staleness_quantile(counts, bins, total, 0.99);
    row->staleness_max = bins - 1;
    free(counts);
}

/* Sets the error of a row whose point does not fit into row->memory; its figures are NaN. */
static void set_unfit_figures(dl_row *row, const dl_scenario *scenario)
{
    char needs[32], has[32], over[32];
    const dl_gpu_memory *memory = &row->memory;
    const dl_gpu_memory replica = dl_generate_memory(scenario);
    row->error =
        dl_format("does not fit: a GPU%s needs %s of %s, %s too much",
                  replica.needs_bytes > replica.has_bytes ? " of a generator" : "",
                  dl_format_bytes(needs, sizeof needs, memory->needs_bytes),
                  dl_format_bytes(has, sizeof has, memory->has_bytes),
                  dl_format_bytes(over, sizeof over, memory->needs_bytes - memory->has_bytes));
    for (size_t f = 0; f < DL_LENGTH(figures); f++)
        *(double *)(void *)((char *)row + figures[f]) = (double)NAN;
    row->mean.tail_frac = row->mean.usage.busiest_frac = row->mean.usage.link_frac = (double)NAN;
}

static void keep_rates(dl_row *row, const row_runs *runs)
{
    row->rate_count = varied_count(runs);
    row->rates = dl_calloc(row->rate_count, sizeof *row->rates, "rates");
    for (size_t r = 0; r < row->rate_count; r++)
        row->rates[r] = varied_rate(runs, r);
}

static void keep_steps(dl_row *row, const row_runs *runs)
{
    if (runs->central[0].step_quantiles_s == NULL) return;
    const size_t count = (size_t)runs->central_count;
    row->step_count = count * DL_STEP_QUANTILES;
    row->steps_s = dl_calloc(row->step_count, sizeof *row->steps_s, "quantiles of steps");
    for (size_t r = 0; r < count; r++)
        memcpy(row->steps_s + r * DL_STEP_QUANTILES, runs->central[r].step_quantiles_s,
               DL_STEP_QUANTILES * sizeof *row->steps_s);
    dl_sort_doubles(row->steps_s, row->step_count);
}

static void set_rates(dl_row *row, const row_runs *runs, const row_runs *base, bool interval)
{
    const size_t throughput = offsetof(dl_run_result, throughput_per_s);
    const double per_s = median_of(runs->central, runs->central_count, throughput);
    row->mean.throughput_per_s = per_s;
    row->low_per_s = row->high_per_s = (double)NAN;
    row->speedup = row->speedup_low = row->speedup_high = (double)NAN;
    if (interval) set_interval(runs, NULL, per_s, &row->low_per_s, &row->high_per_s);
    keep_rates(row, runs);
    if (base == NULL) return;
    row->speedup = per_s / median_of(base->central, base->central_count, throughput);
    if (interval && base->central_count == runs->central_count &&
        base->drawn_count == runs->drawn_count)
        set_interval(runs, base, row->speedup, &row->speedup_low, &row->speedup_high);
}

/* Computes the row's results from its runs. `base`: runs of its baseline, NULL for no speedup;
 * `interval`: whether to compute intervals; `worth`: dl_point_worth of the row over that of the
 * baseline. */
static void set_figures(dl_row *row, const row_runs *runs, const row_runs *base, bool interval,
                        double worth)
{
    const int64_t count = runs->central_count;
    row->mean.workers = row->point.workers;
    row->mean.worker_step_s = dl_calloc((size_t)row->point.workers, sizeof(double), "mean steps");
    for (int64_t r = 0; r < count; r++)
        add_run(&row->mean, &runs->central[r], 1 / (double)count);
    row->mean.step_mean_s = median_of(runs->central, count, offsetof(dl_run_result, step_mean_s));
    row->mean.usage = runs->central[0].usage;
    keep_steps(row, runs);
    set_rates(row, runs, base, interval);
    row->efficiency = row->speedup / worth;
    dl_mode_staleness kind = row->point.mode->staleness;
    const double lag = row->point.option[DL_SYNC_LAG];
    row->staleness_mean = kind == DL_MODE_STALENESS_ZERO || lag > 0 ? lag : (double)NAN;
    row->staleness_sd = row->staleness_p50 = row->staleness_p90 = row->staleness_p99 =
        row->staleness_max = row->staleness_mean;
    if (row->mean.rollout != NULL ||
        (kind == DL_MODE_STALENESS_SOME && row->mean.staleness_bins > 0))
        set_staleness(row);
}

/* --- running -------------------------------------------------------------------------------- */

/* The runs of one variant: for each point (the scenario's, then baselines), those with undrawn
 * costs and then those with drawn costs. */
typedef struct part {
    const dl_scenario *scenario;
    const dl_costs *costs;
    const dl_variant *variant;
    dl_point *points;
    size_t point_count, visible;
    size_t *baseline;       /* [visible] index of the point's baseline in `points` of part
                             * baseline_part */
    size_t *baseline_part;  /* [visible] part of the point's baseline; SIZE_MAX: no baseline */
    int **gpus;             /* [point_count - visible] GPU lists of the baselines' points, owned;
                             * NULL: any GPUs */
    bool *fits;             /* [point_count] whether the point fits into its GPUs */
    int64_t central, drawn; /* number of runs per point */
    double *compute_draws;  /* [drawn] logarithm of a factor on compute; NULL: no factor */
    double *run_draws;      /* [2][replicates] logarithm of a factor on the throughput of rows' and
                             * of baselines' runs; NULL: no factor */
    int64_t first, runs;
    double *weights;        /* [point_count] weight of each of the point's runs; 0: does not fit */
    dl_run_result *results; /* [runs] results in the order of runs */
} part;

/* The parts of a sweep. Jobs are runs, in descending order of weight. */
typedef struct parts {
    const dl_study *study;
    part *items; /* [count] parts, in the order of their runs */
    size_t count;
    int64_t runs;
    struct job *order; /* [runs] jobs by weight */
    dl_pace *pace;     /* NULL: no limit */
} parts;

typedef struct job {
    double weight;
    int64_t run;
} job;

static void list_points(part *p, const dl_variant *variant)
{
    const size_t visible = variant->scenario.point_count;
    *p = (part){.scenario = &variant->scenario,
                .costs = &variant->costs,
                .variant = variant,
                .visible = visible,
                .point_count = visible};
    p->points = dl_calloc(visible, sizeof *p->points, "points");
    p->baseline = dl_calloc(visible, sizeof *p->baseline, "baselines");
    p->baseline_part = dl_calloc(visible, sizeof *p->baseline_part, "parts of baselines");
    memcpy(p->points, variant->scenario.points, visible * sizeof *p->points);
    for (size_t i = 0; i < visible; i++)
        p->baseline_part[i] = SIZE_MAX;
}

static bool same_baseline(const dl_point *a, const dl_point *b)
{
    return a->batch == b->batch && a->mode == b->mode && a->workers == b->workers &&
           dl_axes_are_equal(a->size, b->size) && a->micro_batches == b->micro_batches &&
           a->chunks == b->chunks && a->option[DL_SYNC_ACCUMULATE] == b->option[DL_SYNC_ACCUMULATE];
}

/* Returns the index of the baseline among the part's points, adding it if it is new. */
static size_t add_baseline(part *p, dl_baseline base)
{
    size_t b = p->visible;
    while (b < p->point_count && !same_baseline(&p->points[b], &base.point))
        b++;
    if (b < p->point_count) {
        free(base.gpus);
        return b;
    }
    p->points = dl_realloc(p->points, b + 1, sizeof *p->points, "points and baselines");
    p->gpus = dl_realloc(p->gpus, b + 1 - p->visible, sizeof *p->gpus, "GPUs of baselines");
    p->points[b] = base.point;
    p->gpus[b - p->visible] = base.gpus;
    p->point_count++;
    return b;
}

/* Whether an earlier point of the part has the same baseline, which, without generators, depends
 * only on the batch and on whether the point runs on GPUs; sets *earlier to that point. */
static bool find_earlier(const part *p, size_t point, size_t *earlier)
{
    const dl_point *of = &p->points[point];
    const bool each = p->scenario->batch_per_worker;
    for (size_t i = 0; i < point && p->scenario->generators == NULL; i++) {
        const dl_point *before = &p->points[i];
        *earlier = i;
        if ((before->cores == DL_CORES_GPU) == (of->cores == DL_CORES_GPU) &&
            before->batch / (each ? before->workers : 1) == of->batch / (each ? of->workers : 1))
            return true;
    }
    return false;
}

/* Adds the baselines of the part's points to the parts of the baselines' variants. */
static void list_baselines(parts *all, const dl_study *study, size_t number)
{
    part *p = &all->items[number];
    for (size_t i = 0; i < p->visible; i++) {
        size_t earlier = 0;
        if (find_earlier(p, i, &earlier)) {
            p->baseline[i] = p->baseline[earlier];
            p->baseline_part[i] = p->baseline_part[earlier];
            continue;
        }
        const dl_baseline base = dl_sweep_baseline(study, number, &p->points[i]);
        p->baseline[i] = add_baseline(&all->items[base.variant], base);
        p->baseline_part[i] = base.variant;
    }
}

/* Sets draws[count] to the midpoints of equally likely parts of a normal distribution, shuffled. */
static void draw_normal(double *draws, int64_t count, double sd, uint64_t seed)
{
    for (int64_t d = 0; d < count; d++)
        draws[d] = sd * dl_normal_quantile(((double)d + 0.5) / (double)count);
    dl_shuffle(draws, (size_t)count, seed);
}

/* Draws logarithms of a factor on compute whose 95 % interval is +- log, by seed and GPU model. */
static void draw_compute(part *p, double log)
{
    const double sd = log / dl_normal_quantile(0.975);
    const dl_gpu_options *gpu = p->scenario->gpu;
    unsigned long seed = (unsigned long)p->scenario->seed;
    for (const char *c = gpu != NULL ? dl_machine_model(&gpu->machine, 0, 0)->name : ""; *c != '\0';
         c++) {
        seed = 31 * seed + (unsigned char)*c;
    }
    p->compute_draws = dl_calloc((size_t)p->drawn, sizeof *p->compute_draws, "draws");
    draw_normal(p->compute_draws, p->drawn, sd, seed);
}

/* Draws the differences between repeated runs: the same ones for all rows, so that comparisons
 * between rows do not change, and separate ones for the baselines, which are other runs. */
static void draw_runs(part *p, double sd)
{
    const uint64_t seed = (uint64_t)p->scenario->seed;
    const int64_t count = p->scenario->replicates;
    p->run_draws = dl_calloc(2 * (size_t)count, sizeof *p->run_draws, "draws");
    for (uint64_t of = 0; of < 2; of++)
        draw_normal(p->run_draws + (int64_t)of * count, count, sd, seed + RUN_SEED + of);
}

/* Initialises the part after all points are listed. */
static void init_part(part *p, const dl_variant *variant, int64_t first)
{
    p->first = first;
    p->fits = dl_calloc(p->point_count, sizeof *p->fits, "points that fit");
    for (size_t i = 0; i < p->point_count; i++) {
        const dl_gpu_memory memory = dl_run_memory(p->scenario, p->costs, &p->points[i]);
        p->fits[i] = !(memory.needs_bytes > memory.has_bytes);
    }
    const int64_t replicates = p->scenario->replicates;
    p->central = dl_run_varies(p->scenario, p->costs) ? replicates : 1;
    const double compute_log = dl_variant_compute_log(variant);
    const double run_sd = dl_costs_run_frac(p->costs);
    const bool draws = replicates > 1 && (compute_log > 0 || dl_costs_have_errors(p->costs));
    p->drawn = draws ? replicates : 0;
    if (draws && compute_log > 0) draw_compute(p, compute_log);
    if (replicates > 1 && run_sd > 0) draw_runs(p, run_sd);
    p->runs = (int64_t)p->point_count * (p->central + p->drawn);
    p->weights = dl_calloc(p->point_count, sizeof *p->weights, "weights of points");
    for (size_t i = 0; i < p->point_count; i++)
        p->weights[i] = p->fits[i] ? dl_run_weight(p->scenario, p->costs, &p->points[i]) : 0;
    p->results = dl_calloc((size_t)p->runs, sizeof *p->results, "results");
}

static void free_part(part *p)
{
    for (int64_t run = 0; run < p->runs; run++)
        dl_run_result_free(&p->results[run]);
    for (size_t b = p->visible; b < p->point_count; b++)
        free(p->gpus[b - p->visible]);
    free(p->results);
    free(p->points);
    free(p->baseline);
    free(p->baseline_part);
    free(p->gpus);
    free(p->fits);
    free(p->compute_draws);
    free(p->run_draws);
    free(p->weights);
}

char *dl_sweep_missing(const dl_scenario *scenario, const dl_costs *costs)
{
    unsigned needs = 0;
    char *layers = NULL;
    for (size_t i = 0; i < scenario->point_count; i++) {
        const dl_point *point = &scenario->points[i];
        needs |= dl_run_needs(scenario, costs, point);
        if (layers != NULL) continue;
        layers = dl_point_is_split(point) ? dl_run_split_missing(scenario, costs, point)
                                          : dl_run_collective_missing(scenario, costs, point);
    }
    char *missing = dl_costs_missing(costs, needs);
    if (missing == NULL || layers == NULL) return missing != NULL ? missing : layers;
    char *both = dl_format("%s, %s", missing, layers);
    free(missing);
    free(layers);
    return both;
}

char *dl_study_missing(const dl_study *study, const char **path)
{
    for (size_t v = 0; v < study->variant_count; v++) {
        const dl_variant *variant = &study->variants[v];
        char *missing = dl_sweep_missing(&variant->scenario, &variant->costs);
        if (missing == NULL) continue;
        *path = variant->costs.path;
        return missing;
    }
    return NULL;
}

static dl_status run_one(part *p, int64_t run, const dl_run_watch *watch, dl_error *err)
{
    const int64_t each = p->central + p->drawn;
    const size_t point = (size_t)(run / each);
    const int64_t draw = run % each - p->central; /* < 0: undrawn costs */
    const dl_run_config config = {
        .scenario = p->scenario,
        .costs = p->costs,
        .point = &p->points[point],
        .replicate = (uint32_t)(draw < 0 ? run % each : draw),
        .draw = draw < 0 ? 0 : (uint32_t)draw + 1,
        .without_slow = point >= p->visible,
        .on_policy = point >= p->visible,
        .by_spread = true,
        .compute_log = draw >= 0 && p->compute_draws != NULL ? p->compute_draws[draw] : 0,
        .watch = watch,
    };
    return p->fits[point] ? dl_run(&config, &p->results[run], err) : DL_OK;
}

/* The part that a job of the sweep belongs to; changes *run from the job's number to the run's
 * number in that part. */
static part *part_of(const parts *all, int64_t *run)
{
    size_t last = all->count - 1;
    *run = all->order[*run].run;
    while (all->items[last].first > *run)
        last--;
    *run -= all->items[last].first;
    return &all->items[last];
}

static dl_status run_job(void *user, int64_t number, dl_error *err)
{
    const parts *all = user;
    int64_t run = number;
    part *p = part_of(all, &run);
    dl_pace_run paced;
    dl_pace_start(&paced, all->pace, all->order[number].weight);
    const dl_status status = run_one(p, run, all->pace != NULL ? &paced.watch : NULL, err);
    return dl_pace_end(&paced, status, p->scenario->path, err);
}

static void encode_job(void *user, int64_t run, dl_bytes *into)
{
    const part *p = part_of(user, &run);
    dl_run_result_encode(&p->results[run], into);
}

/* Takes a job's result from a journal or another rank, so that this process need not run it. */
static bool decode_job(void *user, int64_t number, const void *data, size_t bytes)
{
    const parts *all = user;
    int64_t run = number;
    part *p = part_of(all, &run);
    const size_t point = (size_t)(run / (p->central + p->drawn));
    if (!dl_run_result_decode(&p->results[run], p->points[point].workers, data, bytes))
        return false;
    dl_pace_expect(all->pace, -all->order[number].weight);
    return true;
}

DL_ORDER(by_weight, job, DL_COMPARE(b->weight, a->weight), DL_BY(run));

/* Sorts the runs by weight. `repeats`: expected number of repetitions of all runs. */
static void order_jobs(parts *all, double repeats)
{
    double sum = 0;
    all->order = dl_calloc((size_t)all->runs, sizeof *all->order, "order of runs");
    for (size_t v = 0; v < all->count; v++) {
        const part *p = &all->items[v];
        for (int64_t run = 0; run < p->runs; run++) {
            const double weight = p->weights[run / (p->central + p->drawn)];
            all->order[p->first + run] = (job){weight, p->first + run};
            sum += weight;
        }
    }
    qsort(all->order, (size_t)all->runs, sizeof *all->order, by_weight);
    dl_pace_expect(all->pace, sum * (1 + repeats));
}

static dl_status run_all(parts *all, const dl_sweep_config *config, dl_journal *journal,
                         dl_error *err)
{
    const dl_jobs jobs = {
        .count = all->runs,
        .threads = config->threads,
        .user = all,
        .run = run_job,
        .encode = encode_job,
        .decode = decode_job,
        .progress = config->progress,
        .progress_user = config->user,
        .cluster = config->cluster,
        .journal = journal,
    };
    return dl_jobs_run(&jobs, err);
}

static row_runs runs_of(const part *p, size_t point)
{
    const dl_run_result *runs = &p->results[(int64_t)point * (p->central + p->drawn)];
    const int64_t replicates = p->scenario->replicates;
    row_runs of = {
        .central = runs,
        .central_count = p->central,
        .drawn = runs + p->central,
        .drawn_count = p->drawn,
        .drawn_step = 1,
    };
    if (p->run_draws == NULL) return of;
    const double per_s = median_of(runs, p->central, offsetof(dl_run_result, throughput_per_s));
    if (dl_sweep_run_sd(p->variant, &p->points[point], per_s) > 0)
        of.logs = p->run_draws + (point >= p->visible ? replicates : 0);
    if (p->drawn > 0) return of;
    of.drawn = runs; /* the costs have no errors: the drawn runs equal the others */
    of.drawn_count = replicates;
    of.drawn_step = p->central > 1 ? 1 : 0;
    return of;
}

/* Whether the first workers of both points have the same GPU model. */
static bool on_one_model(const part *p, const dl_point *point, const dl_point *baseline)
{
    DL_AUTOFREE int *models =
        dl_calloc((size_t)point->workers + (size_t)baseline->workers, sizeof *models, "models");
    dl_point_models(p->scenario, point, models);
    dl_point_models(p->scenario, baseline, models + point->workers);
    return models[0] == models[point->workers];
}

static void set_row(dl_row *row, const parts *all, size_t variant, size_t index)
{
    const part *p = &all->items[variant];
    const bool has_base = p->baseline_part[index] != SIZE_MAX;
    const part *of = has_base ? &all->items[p->baseline_part[index]] : p;
    const size_t base = has_base ? p->baseline[index] : index;
    const dl_point *baseline = &of->points[base];
    *row = (dl_row){.variant = variant,
                    .equal_layouts = (double)NAN,
                    .point = p->points[index],
                    .memory = dl_run_memory(p->scenario, p->costs, &p->points[index])};
    row->origin = p->variant->scaling.differs ? DL_ORIGIN_ASSUMED
                                              : dl_run_origin(p->scenario, p->costs, &row->point);
    row->extrapolated = dl_run_extrapolates(p->scenario, p->costs, &row->point) ||
                        dl_run_extrapolates(of->scenario, of->costs, baseline);
    if (!p->fits[index]) {
        set_unfit_figures(row, p->scenario);
        return;
    }
    const row_runs runs = runs_of(p, index);
    row_runs base_runs = runs_of(of, base);
    if (!dl_sweep_runs_differ(p->variant, &row->point, baseline)) base_runs.logs = runs.logs;
    row->baseline_gpus =
        p->scenario->generators != NULL ? dl_point_ranks(baseline) : dl_point_gpus(baseline);
    row->baseline_parts = (int64_t)fmax(1, baseline->option[DL_SYNC_ACCUMULATE]);
    row->baseline_is_own =
        p->baseline_part[index] == variant && on_one_model(p, &row->point, baseline);
    set_figures(row, &runs, has_base && of->fits[base] ? &base_runs : NULL,
                p->scenario->replicates > 1,
                dl_point_worth(p->scenario, p->costs, &row->point) /
                    dl_point_worth(of->scenario, of->costs, baseline));
    if (p->scenario->generators != NULL) { /* the baseline uses the same GPUs */
        row->efficiency = (double)NAN;
    } else if (has_base && of->fits[base]) {
        dl_sweep_baseline_text(row->baseline_text, all->study,
                               &all->study->variants[p->baseline_part[index]], baseline);
        /* A baseline that divides the model over GPUs differently from the row does not explain the
         * row's efficiency. */
        if (dl_axes_are_equal(row->point.size, baseline->size) || !dl_point_is_split(baseline))
            row->above = dl_sweep_above(p->scenario, p->costs, row, base_runs.central,
                                        (double)baseline->batch);
    }
}

/* Compares the rows with the traces of the costs. */
static void look_at_traces(dl_sweep *sweep, const dl_study *study, bool with_own)
{
    double error_frac = (double)NAN;
    const dl_cost_trace *trace = NULL;
    for (size_t r = 0; r < sweep->row_count; r++) {
        dl_row *row = &sweep->rows[r];
        const dl_variant *variant = &study->variants[row->variant];
        if (with_own && (r == 0 || row->variant != sweep->rows[r - 1].variant))
            trace = dl_traced_worst(variant, &error_frac);
        row->left_out_s = dl_traced_left_out_s(variant, &row->point);
        row->trace_error_frac = error_frac;
        row->contradicts_trace =
            trace != NULL && row->point.workers > 1 && dl_traced_contradicts(trace, error_frac);
    }
}

static void collect(dl_sweep *sweep, const parts *all)
{
    sweep->runs = all->runs;
    for (size_t v = 0; v < all->count; v++)
        sweep->row_count += all->items[v].visible;
    sweep->rows = dl_calloc(sweep->row_count, sizeof *sweep->rows, "rows");
    dl_row *row = sweep->rows;
    for (size_t v = 0; v < all->count; v++) {
        const part *p = &all->items[v];
        for (size_t i = 0; i < p->visible; i++)
            set_row(row++, all, v, i);
        for (int64_t run = 0; run < p->runs; run++)
            sweep->events += p->results[run].events;
    }
}

static dl_status open_journal(dl_sweep *sweep, const dl_sweep_config *config, int64_t runs,
                              dl_error *err)
{
    dl_status status = DL_OK;
    if (config->journal != NULL) {
        status = dl_journal_open(&sweep->journal, config->journal, config->key, runs, err);
    }
    return config->cluster != NULL ? dl_cluster_agree(config->cluster, status, err) : status;
}

dl_status dl_sweep_run(dl_sweep *sweep, const dl_study *study, const dl_sweep_config *config,
                       dl_error *err)
{
    const char *path = NULL;
    char *missing = dl_study_missing(study, &path);
    if (missing != NULL) {
        dl_error_set_at(err, DL_ERR_DATA, path, 0, "costs are missing: %s", missing);
        free(missing);
        return DL_ERR_DATA;
    }
    int64_t start_ns = dl_clock_ns();
    parts all = {.study = study, .count = study->variant_count, .pace = config->pace};
    all.items = dl_calloc(all.count, sizeof *all.items, "variants");
    for (size_t v = 0; v < all.count; v++)
        list_points(&all.items[v], &study->variants[v]);
    for (size_t v = 0; v < all.count && !config->no_baselines; v++)
        list_baselines(&all, study, v);
    for (size_t v = 0; v < all.count; v++) {
        init_part(&all.items[v], &study->variants[v], all.runs);
        all.runs += all.items[v].runs;
    }
    order_jobs(&all, config->repeats);
    *sweep = (dl_sweep){0};
    const bool leads = config->cluster == NULL || config->cluster->rank == 0;
    dl_status status = open_journal(sweep, config, all.runs, err);
    if (status == DL_OK) status = run_all(&all, config, sweep->journal, err);
    dl_pace_expect(config->pace, (double)-INFINITY); /* drops work that a failure left undone */
    if (status == DL_OK && leads) collect(sweep, &all);
    if (status == DL_OK && leads) look_at_traces(sweep, study, !config->no_influences);
    if (status == DL_OK && !config->no_influences) {
        status = dl_sweep_find_influences(sweep, study, config, all.runs, err);
    }
    /* Finished runs are kept even after a failure, which is reported. */
    dl_error why = {0};
    if (sweep->journal != NULL && dl_journal_flush(sweep->journal, &why) != DL_OK &&
        status == DL_OK) {
        status = why.code;
        if (err != NULL) *err = why;
    }
    sweep->seconds = dl_ns_to_s((double)(dl_clock_ns() - start_ns));
    for (size_t v = 0; v < all.count; v++)
        free_part(&all.items[v]);
    free(all.items);
    free(all.order);
    return status;
}

void dl_sweep_end_journal(dl_sweep *sweep)
{
    dl_journal_end(sweep->journal, true);
    sweep->journal = NULL;
}

void dl_sweep_free(dl_sweep *sweep)
{
    for (size_t i = 0; i < sweep->row_count; i++) {
        dl_run_result_free(&sweep->rows[i].mean);
        free(sweep->rows[i].worker_staleness);
        free(sweep->rows[i].error);
        free(sweep->rows[i].rates);
        free(sweep->rows[i].steps_s);
    }
    free(sweep->rows);
    free(sweep->influences);
    dl_journal_end(sweep->journal, false);
    *sweep = (dl_sweep){0};
}
