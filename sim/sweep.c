#include "sim/sweep.h"

#include <gsl/gsl_cdf.h>
#include <gsl/gsl_sort.h>
#include <gsl/gsl_statistics_double.h>
#include <math.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/units.h"

/* The work: runs[(point x replicates) + replicate], the baselines' points behind the scenario's. */
typedef struct jobs {
    const dl_scenario *scenario;
    const dl_costs *costs;
    const dl_sweep_config *config;
    dl_point *points;
    size_t point_count, visible;
    int *baseline; /* [visible] index in points */
    bool *fits;    /* [point_count] into its GPUs */
    dl_run_result *results;
    int64_t runs, next, done; /* next and done: under the mutex */
    dl_status status;         /* the first failure in order of jobs; under the mutex */
    int64_t failed_run;
    dl_error error;
    pthread_mutex_t mutex;
} jobs;

static dl_point baseline_of(const dl_scenario *scenario, const dl_point *point)
{
    int64_t batch = scenario->batch_per_worker ? point->batch / point->workers : point->batch;
    dl_point baseline = {.cores = point->cores == DL_CORES_GPU ? DL_CORES_GPU : 1,
                         .workers = 1,
                         .batch = batch,
                         .mode = &dl_mode_none};
    for (int o = 0; o < DL_SYNC_SWEPT; o++)
        baseline.option[o] = dl_sync_options[o].fallback;
    return baseline;
}

static void list_points(jobs *all)
{
    const dl_scenario *scenario = all->scenario;
    size_t visible = scenario->point_count;
    all->visible = all->point_count = visible;
    all->points = dl_calloc(2 * visible, sizeof *all->points, "points and baselines");
    all->baseline = dl_calloc(visible, sizeof *all->baseline, "baselines");
    memcpy(all->points, scenario->points, visible * sizeof *all->points);
    for (size_t i = 0; i < visible; i++) {
        dl_point baseline = baseline_of(scenario, &scenario->points[i]);
        size_t b = visible;
        while (b < all->point_count && all->points[b].batch != baseline.batch)
            b++;
        if (b == all->point_count) all->points[all->point_count++] = baseline;
        all->baseline[i] = (int)b;
    }
    all->fits = dl_calloc(all->point_count, sizeof *all->fits, "points that fit");
    for (size_t p = 0; p < all->point_count; p++) {
        dl_gpu_memory memory = dl_run_memory(scenario, all->costs, &all->points[p]);
        all->fits[p] = !(memory.needs_bytes > memory.has_bytes);
    }
}

char *dl_sweep_missing(const dl_scenario *scenario, const dl_costs *costs)
{
    unsigned needs = 0;
    for (size_t i = 0; i < scenario->point_count; i++) {
        needs |= dl_run_needs(scenario, &scenario->points[i]);
    }
    return dl_costs_missing(costs, needs);
}

/* The number of the next job, or -1. */
static int64_t take(jobs *all)
{
    pthread_mutex_lock(&all->mutex);
    int64_t run = all->next < all->runs && all->status == DL_OK ? all->next++ : -1;
    pthread_mutex_unlock(&all->mutex);
    return run;
}

static void note_done(jobs *all, int64_t run, dl_status status, const dl_error *error)
{
    pthread_mutex_lock(&all->mutex);
    all->done++;
    if (status != DL_OK && (all->status == DL_OK || run < all->failed_run)) {
        all->status = status;
        all->failed_run = run;
        all->error = *error;
    }
    if (all->config->progress != NULL) {
        all->config->progress(all->config->user, all->done, all->runs);
    }
    pthread_mutex_unlock(&all->mutex);
}

static void *work(void *argument)
{
    jobs *all = argument;
    for (int64_t run = take(all); run >= 0; run = take(all)) {
        size_t point = (size_t)(run / all->scenario->replicates);
        dl_run_config config = {
            .scenario = all->scenario,
            .costs = all->costs,
            .point = &all->points[point],
            .replicate = (uint32_t)(run % all->scenario->replicates),
            .without_slow = point >= all->visible,
        };
        dl_error error = {0};
        dl_status status = all->fits[point] ? dl_run(&config, &all->results[run], &error) : DL_OK;
        note_done(all, run, status, &error);
    }
    return NULL;
}

static dl_status run_all(jobs *all, dl_error *err)
{
    int threads = all->config->threads;
    if (threads > all->runs) threads = (int)all->runs;
    pthread_t *handles = dl_calloc((size_t)threads, sizeof *handles, "threads");
    int started = 0, refused = 0;
    for (; started < threads - 1 && refused == 0; started += refused == 0) {
        refused = pthread_create(&handles[started], NULL, work, all);
    }
    if (refused == 0) work(all);
    for (int t = 0; t < started; t++)
        pthread_join(handles[t], NULL);
    free(handles);
    if (refused != 0) {
        return dl_error_set(err, DL_ERR_SYSTEM, "cannot start thread %d: %s", started + 1,
                            strerror(refused));
    }
    if (all->status != DL_OK && err != NULL) *err = all->error;
    return all->status;
}

static void add_staleness(dl_run_result *pooled, const dl_run_result *run)
{
    if (run->staleness_bins > pooled->staleness_bins) {
        size_t bins = (size_t)run->staleness_bins, old = (size_t)pooled->staleness_bins;
        int64_t *grown = dl_calloc(bins * (size_t)run->workers, sizeof *grown, "staleness counts");
        for (size_t w = 0; w < (size_t)run->workers && old > 0; w++) {
            memcpy(grown + w * bins, pooled->staleness + w * old, old * sizeof *grown);
        }
        free(pooled->staleness);
        pooled->staleness = grown;
        pooled->staleness_bins = run->staleness_bins;
    }
    for (int w = 0; w < run->workers; w++) {
        for (int s = 0; s < run->staleness_bins; s++) {
            pooled->staleness[w * pooled->staleness_bins + s] +=
                run->staleness[w * run->staleness_bins + s];
        }
    }
}

/* Median over the replicates of the figure at `offset` of their results. */
static double median_of(const dl_run_result *runs, int64_t replicates, size_t offset)
{
    double *values = dl_calloc((size_t)replicates, sizeof *values, "replicates");
    for (int64_t r = 0; r < replicates; r++) {
        values[r] = *(const double *)(const void *)((const char *)&runs[r] + offset);
    }
    gsl_sort(values, 1, (size_t)replicates);
    double median = gsl_stats_quantile_from_sorted_data(values, 1, (size_t)replicates, 0.5);
    free(values);
    return median;
}

/* Adds `share` of a run's figures to the row's means. */
static void add_run(dl_run_result *mean, const dl_run_result *run, double share)
{
    mean->applied_frac += share * run->applied_frac;
    mean->updates_per_s += share * run->updates_per_s;
    mean->updates += run->updates;
    mean->step_sd_s += share * run->step_sd_s;
    mean->step_p50_s += share * run->step_p50_s;
    mean->step_p99_s += share * run->step_p99_s;
    for (int p = 0; p < DL_PART_COUNT; p++)
        mean->part_frac[p] += share * run->part_frac[p];
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
}

static void set_interval(dl_row *row, const dl_run_result *runs, int64_t replicates)
{
    size_t count = (size_t)replicates;
    row->low_per_s = row->high_per_s = (double)NAN;
    if (count < 2) return;
    double *values = dl_calloc(count, sizeof *values, "throughputs");
    for (size_t r = 0; r < count; r++)
        values[r] = runs[r].throughput_per_s;
    if (count >= DL_INTERVAL_REPLICATES) {
        gsl_sort(values, 1, count);
        row->low_per_s = gsl_stats_quantile_from_sorted_data(values, 1, count, 0.025);
        row->high_per_s = gsl_stats_quantile_from_sorted_data(values, 1, count, 0.975);
    } else {
        double mean = gsl_stats_mean(values, 1, count);
        double sd = gsl_stats_sd_m(values, 1, count, mean);
        double t = gsl_cdf_tdist_Pinv(0.975, (double)(count - 1));
        row->low_per_s = fmax(0, mean - t * sd);
        row->high_per_s = mean + t * sd;
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
    for (int w = 0; w < mean->workers; w++) {
        double own = 0, own_sum = 0;
        for (int s = 0; s < bins; s++) {
            int64_t count = mean->staleness[w * bins + s];
            counts[s] += count;
            own += (double)count;
            own_sum += (double)count * s;
            squares += (double)count * s * s;
        }
        total += (int64_t)own;
        sum += own_sum;
        row->worker_staleness[w] = own_sum / own;
    }
    row->staleness_mean = sum / (double)total;
    row->staleness_sd =
        sqrt(fmax(0, squares / (double)total - row->staleness_mean * row->staleness_mean));
    row->staleness_p50 = staleness_quantile(counts, bins, total, 0.5);
    row->staleness_p90 = staleness_quantile(counts, bins, total, 0.9);
    row->staleness_p99 = staleness_quantile(counts, bins, total, 0.99);
    row->staleness_max = bins - 1;
    free(counts);
}

/* A row without figures. */
static void set_unfit(dl_row *row)
{
    const double nan = (double)NAN;
    char needs[32], has[32], over[32];
    const dl_gpu_memory *memory = &row->memory;
    row->error =
        dl_format("does not fit: a GPU needs %s of %s, %s too much",
                  dl_format_bytes(needs, sizeof needs, memory->needs_bytes),
                  dl_format_bytes(has, sizeof has, memory->has_bytes),
                  dl_format_bytes(over, sizeof over, memory->needs_bytes - memory->has_bytes));
    row->mean = (dl_run_result){.throughput_per_s = nan,
                                .applied_frac = nan,
                                .updates_per_s = nan,
                                .step_mean_s = nan,
                                .step_sd_s = nan,
                                .step_p50_s = nan,
                                .step_p99_s = nan,
                                .drift_steps_mean = nan,
                                .drift_steps_max = nan,
                                .clock_lag_max = nan,
                                .usage = {.busiest_frac = nan, .link_frac = nan}};
    for (int p = 0; p < DL_PART_COUNT; p++)
        row->mean.part_frac[p] = nan;
    row->low_per_s = row->high_per_s = row->speedup = row->efficiency = nan;
    row->staleness_mean = row->staleness_sd = row->staleness_p50 = row->staleness_p90 =
        row->staleness_p99 = row->staleness_max = nan;
}

static void set_row(dl_row *row, const jobs *all, size_t index)
{
    const dl_scenario *scenario = all->scenario;
    int64_t replicates = scenario->replicates;
    const dl_run_result *runs = &all->results[(int64_t)index * replicates];
    const dl_run_result *base = &all->results[all->baseline[index] * replicates];
    *row = (dl_row){.point = all->points[index],
                    .memory = dl_run_memory(scenario, all->costs, &all->points[index])};
    row->origin = dl_run_origin(scenario, all->costs, &row->point);
    row->extrapolated = dl_run_extrapolates(all->costs, &row->point) ||
                        dl_run_extrapolates(all->costs, &all->points[all->baseline[index]]);
    if (!all->fits[index]) {
        set_unfit(row);
        return;
    }
    row->mean.workers = row->point.workers;
    row->mean.worker_step_s = dl_calloc((size_t)row->point.workers, sizeof(double), "mean steps");
    const size_t throughput = offsetof(dl_run_result, throughput_per_s);
    for (int64_t r = 0; r < replicates; r++)
        add_run(&row->mean, &runs[r], 1 / (double)replicates);
    row->mean.throughput_per_s = median_of(runs, replicates, throughput);
    row->mean.step_mean_s = median_of(runs, replicates, offsetof(dl_run_result, step_mean_s));
    row->mean.usage = runs[0].usage;
    set_interval(row, runs, replicates);
    row->speedup = all->fits[all->baseline[index]]
                       ? row->mean.throughput_per_s / median_of(base, replicates, throughput)
                       : (double)NAN;
    row->efficiency = row->speedup / row->point.workers;
    dl_mode_staleness kind = row->point.mode->staleness;
    row->staleness_mean =
        kind == DL_MODE_STALENESS_ZERO ? row->point.option[DL_SYNC_LAG] : (double)NAN;
    row->staleness_sd = row->staleness_p50 = row->staleness_p90 = row->staleness_p99 =
        row->staleness_max = row->staleness_mean;
    if (kind == DL_MODE_STALENESS_SOME) set_staleness(row);
}

static void collect(dl_sweep *sweep, const jobs *all)
{
    *sweep = (dl_sweep){.row_count = all->visible, .runs = all->runs};
    sweep->rows = dl_calloc(all->visible, sizeof *sweep->rows, "rows");
    for (size_t i = 0; i < all->visible; i++)
        set_row(&sweep->rows[i], all, i);
    for (int64_t run = 0; run < all->runs; run++)
        sweep->events += all->results[run].events;
}

dl_status dl_sweep_run(dl_sweep *sweep, const dl_scenario *scenario, const dl_costs *costs,
                       const dl_sweep_config *config, dl_error *err)
{
    char *missing = dl_sweep_missing(scenario, costs);
    if (missing != NULL) {
        dl_error_set_at(err, DL_ERR_DATA, costs->path, 0, "costs are missing: %s", missing);
        free(missing);
        return DL_ERR_DATA;
    }
    int64_t start_ns = dl_clock_ns();
    jobs all = {.scenario = scenario, .costs = costs, .config = config};
    list_points(&all);
    all.runs = (int64_t)all.point_count * scenario->replicates;
    all.results = dl_calloc((size_t)all.runs, sizeof *all.results, "results");
    pthread_mutex_init(&all.mutex, NULL);
    dl_status status = run_all(&all, err);
    if (status == DL_OK) {
        collect(sweep, &all);
        sweep->seconds = dl_ns_to_s((double)(dl_clock_ns() - start_ns));
    }
    for (int64_t run = 0; run < all.runs; run++)
        dl_run_result_free(&all.results[run]);
    pthread_mutex_destroy(&all.mutex);
    free(all.results);
    free(all.points);
    free(all.baseline);
    free(all.fits);
    return status;
}

void dl_sweep_free(dl_sweep *sweep)
{
    for (size_t i = 0; i < sweep->row_count; i++) {
        dl_run_result_free(&sweep->rows[i].mean);
        free(sweep->rows[i].worker_staleness);
        free(sweep->rows[i].error);
    }
    free(sweep->rows);
    *sweep = (dl_sweep){0};
}
