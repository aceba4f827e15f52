/* Computes the results of a run from its team. */
#include "sim/run_internal.h"

#include <math.h>

#include "common/alloc.h"
#include "common/units.h"
#include "sim/statistics.h"
#include "sim/sync/syncer.h"

const char *const dl_part_names[DL_PART_COUNT] = {"compute",   "dispatch", "communication",
                                                  "averaging", "waiting",  "input"};

/* Index of the lower of the two sorted values that determine a quantile of `count` values. */
static size_t place_of(double share, size_t count)
{
    return (size_t)(share * (double)(count - 1));
}

/* The quantile of values[count], which it reorders by partial selection. values[0..least) must
 * already be in sorted position. */
static double quantile(double *values, size_t count, double share, size_t least)
{
    if (count == 0) return 0;
    const size_t below = place_of(share, count);
    dl_select(values + least, count - least, below - least);
    size_t next = below + 1;
    for (size_t i = below + 1; i < count; i++)
        if (values[i] < values[next]) next = i;
    if (below + 1 < count) {
        const double value = values[next];
        values[next] = values[below + 1];
        values[below + 1] = value;
    }
    return dl_quantile(values, count, share);
}

void dl_run_spread_of_steps(double *steps_s, size_t count, dl_run_result *result)
{
    result->step_sd_s = count > 1 ? dl_sd(steps_s, count) : 0;
    result->step_p50_s = quantile(steps_s, count, 0.5, 0);
    result->step_p99_s = quantile(steps_s, count, 0.99, count > 0 ? place_of(0.5, count) : 0);
}

static double *quantiles_of_steps(double *steps_s, size_t count)
{
    double *quantiles = dl_calloc(DL_STEP_QUANTILES, sizeof *quantiles, "quantiles of steps");
    dl_sort_doubles(steps_s, count);
    for (int q = 0; q < DL_STEP_QUANTILES; q++)
        quantiles[q] = dl_quantile(steps_s, count, (q + 0.5) / DL_STEP_QUANTILES);
    return quantiles;
}

static bool are_equal(const dl_run_share *shares, int workers)
{
    for (int w = 1; w < workers; w++)
        if (shares[w].samples != shares[0].samples) return false;
    return true;
}

/* Throughput is measured over the whole time span: workers that share cores run in turns of long
 * time slices, so the sum of the rates in their active phases exceeds the capacity of the cores. */
static void measure_throughput(const dl_team *team, const dl_point *point,
                               const dl_run_share *shares, dl_run_result *result)
{
    const bool equal = are_equal(shares, point->workers);
    int64_t done = 0, lost = 0, left_over = 0, span_ns = 0, first_ns = INT64_MAX;
    double samples = 0;
    int64_t since_ns = INT64_MAX;
    for (int w = 0; w < result->workers; w++) {
        const dl_worker *worker = &team->workers[w];
        done += worker->steps_done - worker->warm_up_steps;
        if (worker->measured_since_ns < since_ns) since_ns = worker->measured_since_ns;
        lost += worker->dropped;
        left_over += worker->contributions;
        samples += (double)(worker->steps_done - worker->warm_up_steps - worker->dropped) *
                   (double)shares[w].samples;
        if (worker->last_end_ns > span_ns) span_ns = worker->last_end_ns;
        if (worker->steps_done == team->config.steps && worker->last_end_ns < first_ns) {
            first_ns = worker->last_end_ns;
        }
    }
    span_ns -= since_ns;
    first_ns -= since_ns;
    result->samples =
        equal ? (double)(done - lost) * (double)point->batch / point->workers : samples;
    result->span_s = dl_ns_to_s((double)span_ns);
    result->throughput_per_s = result->samples / result->span_s;
    /* If all workers leave, none of them has done all its steps. */
    if (!team->config.each_ends && first_ns < span_ns)
        result->tail_frac = (double)(span_ns - first_ns) / (double)span_ns;
    result->applied_frac = 1 - (double)(lost + left_over) / (double)done;
}

static void measure_steps(const dl_team *team, bool is_compared, dl_run_result *result)
{
    const bool logs = team->config.keeps_logs;
    size_t count = 0;
    int workers = 0; /* workers with a step; learners may leave before their first step */
    for (int w = 0; w < result->workers; w++) {
        const int64_t steps = team->workers[w].steps_done - team->workers[w].warm_up_steps;
        count += (size_t)steps;
        workers += steps > 0;
    }
    DL_AUTOFREE double *all = logs ? dl_calloc(count, sizeof *all, "step times") : NULL;
    size_t used = 0;
    for (int w = 0; w < result->workers; w++) {
        const dl_worker *worker = &team->workers[w];
        const int64_t first = worker->warm_up_steps;
        for (int64_t s = first; s < worker->steps_done && logs; s++)
            all[used++] = dl_ns_to_s((double)dl_team_step_log(team, w)[s]);
        result->worker_step_s[w] = (double)NAN;
        if (worker->steps_done == first) continue;
        result->worker_step_s[w] =
            dl_ns_to_s((double)(worker->last_end_ns - worker->measured_since_ns)) /
            (double)(worker->steps_done - first);
        result->step_mean_s += result->worker_step_s[w] / workers;
    }
    if (logs) {
        dl_run_spread_of_steps(all, count, result);
        if (is_compared && count > 0) result->step_quantiles_s = quantiles_of_steps(all, count);
    } else {
        const dl_tally *tally = &team->tallies.steps;
        result->step_sd_s = dl_ns_to_s(dl_tally_sd_ns(tally));
        result->step_p50_s = dl_ns_to_s(dl_tally_quantile_ns(tally, 0.5));
        result->step_p99_s = dl_ns_to_s(dl_tally_quantile_ns(tally, 0.99));
    }
}

/* On cores the compute state is a single piece of work in the simulation; its time is divided among
 * input, dispatch and compute in proportion to their work. On GPUs it has compute only. */
static void split_compute(const dl_team *team, int number, double *part_ns)
{
    if (team->config.platform->on_gpus) {
        part_ns[DL_PART_COMPUTE] += (double)team->workers[number].spent_ns[DL_SPENT_COMPUTE];
        return;
    }
    const dl_worker *worker = &team->workers[number];
    const dl_workload *workload = team->config.workload;
    double slow = team->config.slow != NULL ? team->config.slow[number] : 1;
    double update_ns = worker->updates_at_once ? workload->update_ns : 0;
    double work_ns = dl_team_compute_ns(team, number) + update_ns;
    double time_ns = (double)worker->spent_ns[DL_SPENT_COMPUTE];
    double scale = work_ns > 0 ? time_ns / work_ns : 0;
    part_ns[DL_PART_INPUT] += scale * workload->input_ns;
    part_ns[DL_PART_DISPATCH] += scale * workload->dispatch_ns;
    part_ns[DL_PART_COMPUTE] += scale * (slow * workload->compute_ns + update_ns);
}

static void measure_parts(const dl_team *team, dl_run_result *result)
{
    static const dl_part part_of[DL_SPENT_COUNT] = {
        [DL_SPENT_COMPUTE] = DL_PART_COMPUTE,      [DL_SPENT_UPDATE] = DL_PART_COMPUTE,
        [DL_SPENT_DISPATCH] = DL_PART_DISPATCH,    [DL_SPENT_INPUT] = DL_PART_INPUT,
        [DL_SPENT_COPIES] = DL_PART_COMMUNICATION, [DL_SPENT_AVERAGE] = DL_PART_AVERAGING,
        [DL_SPENT_WAITING] = DL_PART_WAITING};
    double part_ns[DL_PART_COUNT] = {0}, sum_ns = 0;
    for (int w = 0; w < result->workers; w++) {
        const int64_t *spent_ns = team->workers[w].spent_ns;
        split_compute(team, w, part_ns);
        for (int s = DL_SPENT_COMPUTE + 1; s < DL_SPENT_COUNT; s++)
            part_ns[part_of[s]] += (double)spent_ns[s];
        if (team->on_core != NULL) part_ns[DL_PART_WAITING] += (double)team->on_core[w].queue_ns;
    }
    for (int p = 0; p < DL_PART_COUNT; p++)
        sum_ns += part_ns[p];
    for (int p = 0; p < DL_PART_COUNT; p++)
        result->part_frac[p] = part_ns[p] / sum_ns;
}

static int most_staleness(const dl_team *team)
{
    int most = -1;
    for (int w = 0; w < team->config.workers; w++) {
        const dl_worker *worker = &team->workers[w];
        const int32_t *log = dl_team_staleness_log(team, w);
        for (int64_t s = worker->warm_up_steps; s < worker->steps_done; s++) {
            if (log[s] > most) most = log[s];
        }
    }
    return most;
}

/* Counts staleness from the logs, by worker unless the table would be too large. */
static void count_staleness(const dl_team *team, dl_run_result *result)
{
    const int most = most_staleness(team);
    result->staleness_bins = most + 1;
    if (most < 0) return;
    const size_t workers = (size_t)result->workers, bins = (size_t)most + 1;
    const size_t rows = bins * workers <= DL_STALENESS_NUMBERS ? workers : 1;
    result->staleness_rows = (int)rows;
    result->staleness = dl_calloc(bins * rows, sizeof *result->staleness, "staleness counts");
    result->worker_stale_sum = dl_calloc(workers, sizeof(int64_t), "staleness of workers");
    result->worker_stale_count = dl_calloc(workers, sizeof(int64_t), "gradients of workers");
    for (size_t w = 0; w < workers; w++) {
        const dl_worker *worker = &team->workers[w];
        for (int64_t s = worker->warm_up_steps; s < worker->steps_done; s++) {
            const int32_t staleness = dl_team_staleness_log(team, (int)w)[s];
            if (staleness == DL_NO_STALENESS_YET) continue;
            result->staleness[w % rows * bins + (size_t)staleness]++;
            result->worker_stale_sum[w] += staleness;
            result->worker_stale_count[w]++;
        }
    }
}

/* Takes ownership of the counts of a team without logs. */
static void take_staleness(dl_team_tallies *tallies, dl_run_result *result)
{
    size_t bins = tallies->staleness_count;
    while (bins > 0 && tallies->staleness[bins - 1] == 0)
        bins--;
    result->staleness_bins = (int)bins;
    if (bins == 0) return;
    result->staleness_rows = 1;
    result->staleness = tallies->staleness;
    result->worker_stale_sum = tallies->worker_sum;
    result->worker_stale_count = tallies->worker_count;
    tallies->staleness = tallies->worker_sum = tallies->worker_count = NULL;
    tallies->staleness_count = 0;
}

static void measure_syncer(const dl_team *team, dl_run_result *result)
{
    const int64_t *merge_ns;
    int64_t since_ns;
    const int64_t merges = dl_syncer_merges(team, &merge_ns, &since_ns);
    const dl_upload_counts counts = dl_syncer_counts(team);
    dl_syncer_result *syncer = result->syncer = dl_calloc(1, sizeof *syncer, "figures of merges");
    *syncer = (dl_syncer_result){
        .uploaded = (double)counts.uploaded,
        .applied = (double)counts.applied,
        .too_stale = (double)counts.too_stale,
        .superseded = (double)counts.superseded,
        .unmerged = (double)counts.unmerged,
        .merges = (double)merges,
        .weight_mean = counts.weight / (double)counts.applied,
        .applied_weight_frac = counts.weight / (double)counts.uploaded,
    };
    result->applied_frac = (double)counts.applied / (double)counts.uploaded;
    syncer->goodput_frac = dl_absences_goodput(team);
}

/* Durations in s of all workers' outer steps; *count: their number. The caller frees them. */
static double *outer_steps(const dl_team *team, size_t *count)
{
    size_t room = 1;
    for (int w = 0; w < team->config.workers; w++)
        room += (size_t)(team->workers[w].steps_done / team->workers[w].interval);
    double *outer_s = dl_calloc(room, sizeof *outer_s, "outer steps");
    *count = 0;
    for (int w = 0; w < team->config.workers; w++) {
        const dl_worker *worker = &team->workers[w];
        const int64_t interval = worker->interval;
        int64_t first = (worker->warm_up_steps + interval - 1) / interval * interval;
        for (; first + interval <= worker->steps_done; first += interval) {
            int64_t ns = 0;
            for (int64_t s = first; s < first + interval; s++)
                ns += dl_team_step_log(team, w)[s];
            outer_s[(*count)++] = dl_ns_to_s((double)ns);
        }
    }
    return outer_s;
}

/* Mean outer step if steps are not logged: the workers' time in steps over their number of outer
 * steps. */
static double mean_outer_step_s(const dl_team *team, const dl_run_result *result)
{
    double sum_s = 0, outer_steps = 0;
    for (int w = 0; w < team->config.workers; w++) {
        const dl_worker *worker = &team->workers[w];
        const double steps = (double)(worker->steps_done - worker->warm_up_steps);
        if (steps <= 0) continue; /* the worker left before its first counted step */
        sum_s += steps * result->worker_step_s[w];
        outer_steps += steps / (double)worker->interval;
    }
    return sum_s / outer_steps;
}

/* Durations in s of outer steps with a syncer: from merge to merge; the caller frees them. */
static double *outer_steps_of_merges(const dl_team *team, size_t *count)
{
    const int64_t *merge_ns;
    int64_t since_ns;
    *count = (size_t)dl_syncer_merges(team, &merge_ns, &since_ns);
    double *outer_s = dl_calloc(*count + 1, sizeof *outer_s, "outer steps");
    for (size_t m = 0; m < *count; m++)
        outer_s[m] = dl_ns_to_s((double)(merge_ns[m] - (m > 0 ? merge_ns[m - 1] : since_ns)));
    return outer_s;
}

/* Number of outer steps since the start: merged versions with a syncer, otherwise the mean number
 * of exchanges of all parameters per worker. */
static double outer_steps_done(const dl_team *team)
{
    const int fragments = team->config.fragments;
    if (team->syncer != NULL) return (double)team->version;
    double sum = 0;
    for (int w = 0; w < team->config.workers; w++) {
        const dl_worker *worker = &team->workers[w];
        sum += (double)((int64_t)worker->steps_done * fragments / worker->interval) / fragments;
    }
    return sum / team->config.workers;
}

/* A communication thread's time in exchanges per outer step, in s, without waiting for others. */
static double exchanged_by_threads_s(const dl_team *team)
{
    double sum_ns = 0;
    int64_t exchanges = 0;
    for (int comm = team->config.workers; comm < team->agents; comm++) {
        const int64_t *spent_ns = team->workers[comm].spent_ns;
        sum_ns += (double)(spent_ns[DL_SPENT_COPIES] + spent_ns[DL_SPENT_AVERAGE]);
        exchanges += team->workers[comm].exchanged;
    }
    return dl_ns_to_s(sum_ns) * team->config.fragments / (double)exchanges;
}

static void measure_averaging(const dl_team *team, dl_run_result *result)
{
    const double nan = (double)NAN, *part = result->part_frac;
    const double outside =
        part[DL_PART_COMMUNICATION] + part[DL_PART_AVERAGING] + part[DL_PART_WAITING];
    size_t count = 0;
    DL_AUTOFREE double *outer_s = NULL;
    if (team->syncer != NULL) {
        outer_s = outer_steps_of_merges(team, &count);
    } else if (team->config.keeps_logs) {
        outer_s = outer_steps(team, &count);
    }
    dl_averaging_result *a = result->averaging = dl_calloc(1, sizeof *a, "outer steps");
    *a = (dl_averaging_result){1 - outside, nan, nan, nan, nan, nan, nan};
    if (team->syncer == NULL && !team->config.keeps_logs) {
        a->outer_step_mean_s = mean_outer_step_s(team, result);
        a->blocked_s = outside * a->outer_step_mean_s;
    }
    if (count > 0) {
        double interval = 0;
        for (int w = 0; w < result->workers; w++)
            interval += (double)team->workers[w].interval / result->workers;
        a->outer_step_mean_s = dl_mean(outer_s, count);
        dl_sort_doubles(outer_s, count);
        a->outer_step_p50_s = dl_quantile(outer_s, count, 0.5);
        a->outer_step_p95_s = dl_quantile(outer_s, count, 0.95);
        a->blocked_s = outside * (team->syncer != NULL ? interval * result->step_mean_s
                                                       : a->outer_step_mean_s);
    }
    if (!isnan(a->outer_step_mean_s) && team->config.platform->on_gpus)
        a->site_sent_bytes = result->usage.sent_bytes / outer_steps_done(team);
    if (team->config.comm_threads) {
        a->exchange_s = isnan(a->outer_step_mean_s) ? nan : exchanged_by_threads_s(team);
    } else if (team->syncer == NULL && !team->config.reduces_inside) {
        a->exchange_s =
            (part[DL_PART_COMMUNICATION] + part[DL_PART_AVERAGING]) * a->outer_step_mean_s;
    }
}

void dl_run_measure(dl_team *team, const dl_point *point, const dl_run_share *shares,
                    bool is_compared, dl_run_result *result)
{
    result->workers = point->workers;
    result->worker_step_s =
        dl_calloc((size_t)point->workers, sizeof *result->worker_step_s, "mean steps");
    measure_throughput(team, point, shares, result);
    measure_steps(team, is_compared, result);
    measure_parts(team, result);
    if (point->mode->staleness == DL_MODE_STALENESS_SOME) {
        if (team->config.keeps_logs) {
            count_staleness(team, result);
        } else {
            take_staleness(&team->tallies, result);
        }
    }
    team->config.platform->measure(team, &result->usage);
    dl_usage_note(&result->usage, "lock", (double)team->lock_busy_ns / (double)team->engine.now_ns);
    result->events = team->engine.handled;
    bool drifts = dl_mode_takes(point->mode, DL_SYNC_INTERVAL);
    const bool is_elastic = dl_absences_given(&team->config.absences);
    result->goodput_frac = is_elastic ? dl_absences_goodput(team) : (double)NAN;
    result->away_frac = is_elastic ? dl_absences_away(team) : (double)NAN;
    result->drift_steps_mean =
        drifts ? (double)team->drift_sum / (double)team->steps_started : (double)NAN;
    result->drift_steps_max = drifts ? (double)team->drift_max : (double)NAN;
    result->updates = team->version - team->warm_version;
    result->updates_per_s =
        (double)result->updates / dl_ns_to_s((double)(team->engine.now_ns - team->warm_ns));
    result->clock_lag_max = (double)team->clock_lag_max;
    if (team->syncer != NULL) measure_syncer(team, result);
    if (drifts) measure_averaging(team, result);
}
