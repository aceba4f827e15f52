#include "calibrate/calibration.h"

#include <math.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/sort.h"

/* Minimum difference of the factors at the smallest and largest batch size for a note, if it also
 * exceeds 3 standard errors. */
#define CONTENTION_AGREE 0.05

/* Returns whether `next` starts a new run after `previous`. Within a run the samples come copy by
 * copy, each in the order of its steps. */
static bool starts_run(const dl_record *previous, const dl_record *next)
{
    return next->vectors != previous->vectors || next->samples != previous->samples ||
           next->worker < previous->worker ||
           (next->worker == previous->worker && next->step <= previous->step);
}

dl_copies_run *dl_contention_runs(const dl_bench_trace *bench, size_t *count)
{
    dl_copies_run *runs = NULL;
    const dl_record *previous = NULL;
    *count = 0;
    for (size_t i = 0; i < bench->count; i++) {
        const dl_record *sample = &bench->samples[i];
        if (sample->name != DL_SAMPLE_STEP) {
            previous = NULL;
            continue;
        }
        if (previous == NULL || starts_run(previous, sample)) {
            DL_APPEND(runs, *count, "runs of copies") =
                (dl_copies_run){.copies = (int)sample->vectors,
                                .batch = sample->samples,
                                .cores = sample->threads,
                                .samples = sample};
        }
        runs[*count - 1].count++;
        previous = sample;
    }
    return runs;
}

/* A run's step time: the robust location estimate, or the mean. */
static dl_status run_time(const dl_copies_run *run, bool mean, double *time_ns, dl_error *err)
{
    DL_AUTOFREE double *values = dl_calloc(run->count, sizeof *values, "step times");
    for (size_t i = 0; i < run->count; i++)
        values[i] = (double)run->samples[i].duration_ns;
    dl_estimate time;
    dl_status status = DL_OK;
    if (mean) {
        time = dl_fit_mean(values, run->count);
    } else {
        status = dl_fit_location(values, run->count, &time, err);
    }
    if (status == DL_OK) *time_ns = time.value;
    return status;
}

/* Returns run number `round` of k copies at a batch size among the runs of one trace; NULL if there
 * is none. */
static const dl_copies_run *find_round(const dl_copies_run *runs, size_t count, int copies,
                                       int64_t batch, size_t round)
{
    for (size_t i = 0; i < count; i++) {
        if (runs[i].copies != copies || runs[i].batch != batch) continue;
        if (round-- == 0) return &runs[i];
    }
    return NULL;
}

/* Ratios of all rounds of one k and batch, over the bench traces. */
typedef struct ratios {
    double *values;
    size_t count;
} ratios;

/* Adds the ratios of one trace. `slices`: copies are time-sliced, as on cores but not on GPUs.
 * `trained_ns`: time of the step alone; 0: use the same round's single copy. */
static dl_status add_rounds(const dl_copies_run *runs, size_t count, bool slices, double trained_ns,
                            const dl_contention_point *point, ratios *all, dl_error *err)
{
    for (size_t round = 0;; round++) {
        const dl_copies_run *many = find_round(runs, count, point->copies, point->batch, round);
        const dl_copies_run *alone = find_round(runs, count, 1, point->batch, round);
        if (many == NULL || (alone == NULL && trained_ns <= 0)) return DL_OK;
        const double turns = (double)many->copies / (double)many->cores;
        double many_ns, alone_ns = trained_ns;
        const bool mean = slices && turns > 1;
        dl_status status = run_time(many, mean, &many_ns, err);
        if (status == DL_OK && trained_ns <= 0) status = run_time(alone, mean, &alone_ns, err);
        if (status != DL_OK) return status;
        DL_APPEND(all->values, all->count, "rounds") =
            many_ns / (alone_ns * (turns > 1 ? turns : 1));
    }
}

/* Time in ns of a step's operations on a GPU in training at that batch size, timed as in the bench;
 * 0: not trained. With this reference, costs times factor equal the measured time of k copies,
 * independent of the bench's short run of one copy. */
static double trained_on_gpu_ns(const dl_dataset *dataset, const dl_costs *costs, int64_t batch)
{
    const double samples = (double)batch;
    for (size_t r = 0; r < dataset->run_count && dataset->gpu.gpu; r++) {
        if (dataset->runs[r].batch == batch)
            return dl_costs_step_ns(costs, samples, "forward") +
                   dl_costs_step_ns(costs, samples, "backward") +
                   dl_costs_step_ns(costs, samples, "update");
    }
    return 0;
}

static dl_status fit_point(const dl_dataset *dataset, const dl_costs *costs,
                           dl_contention_point *point, dl_error *err)
{
    ratios all = {0};
    dl_status status = DL_OK;
    for (size_t b = 0; b < dataset->bench_count && status == DL_OK; b++) {
        size_t count;
        DL_AUTOFREE dl_copies_run *runs = dl_contention_runs(&dataset->benches[b], &count);
        const bool gpu = dataset->benches[b].gpu;
        const double trained_ns = gpu ? trained_on_gpu_ns(dataset, costs, point->batch) : 0;
        status = add_rounds(runs, count, !gpu, trained_ns, point, &all, err);
    }
    if (status == DL_OK && all.count == 0) {
        status = dl_error_set(err, DL_ERR_DATA,
                              "%d copies of the step were measured at batch %lld, but never one "
                              "alone to compare with",
                              point->copies, (long long)point->batch);
    }
    if (status == DL_OK) status = dl_fit_location(all.values, all.count, &point->factor, err);
    free(all.values);
    return status;
}

DL_ORDER(by_copies_and_batch, dl_contention_point, DL_BY(copies), DL_BY(batch));

/* Lists a point for every measured k, 2 <= k <= DL_SHARING_MAX, and batch. */
static void list_points(const dl_dataset *dataset, dl_contention_fit *fit)
{
    for (size_t b = 0; b < dataset->bench_count; b++) {
        size_t count;
        DL_AUTOFREE dl_copies_run *runs = dl_contention_runs(&dataset->benches[b], &count);
        for (size_t r = 0; r < count; r++) {
            const dl_contention_point point = {.copies = runs[r].copies, .batch = runs[r].batch};
            bool known = point.copies < 2 || point.copies > DL_SHARING_MAX;
            for (size_t i = 0; i < fit->count && !known; i++) {
                known = by_copies_and_batch(&fit->points[i], &point) == 0;
            }
            if (known) continue;
            DL_APPEND(fit->points, fit->count, "sharing points") = point;
        }
    }
    dl_sort(fit->points, fit->count, sizeof *fit->points, by_copies_and_batch);
}

/* Combines the batch sizes of one k, points[n], into one number by fitting a constant. */
static dl_status combine(const dl_contention_point *points, size_t n, dl_value *value,
                         dl_error *err)
{
    if (n == 1) {
        const dl_estimate only = points[0].factor;
        *value = (dl_value){.known = true,
                            .value = only.value,
                            .error = only.error,
                            .count = only.count,
                            .origin = DL_ORIGIN_FITTED};
        return DL_OK;
    }
    double *factor = dl_calloc(2 * n, sizeof *factor, "sharing fit"), *error = factor + n;
    int64_t rounds = 0;
    for (size_t i = 0; i < n; i++) {
        factor[i] = points[i].factor.value;
        error[i] = points[i].factor.error;
        rounds += points[i].factor.count;
    }
    dl_estimate mean;
    const dl_status status = dl_fit_constant(factor, error, factor, n, &mean, err);
    free(factor);
    if (status == DL_OK)
        *value = (dl_value){.known = true,
                            .value = mean.value,
                            .error = mean.error,
                            .count = rounds,
                            .origin = DL_ORIGIN_FITTED};
    return status;
}

/* Notes significant and relevant differences between the smallest and largest batch size of one
 * k. */
static void note_disagreement(const dl_contention_point *small, const dl_contention_point *large,
                              dl_notes *notes)
{
    const double difference = fabs(large->factor.value - small->factor.value);
    const double error = hypot(large->factor.error, small->factor.error);
    if (difference <= 3 * error || difference <= CONTENTION_AGREE) return;
    dl_notes_add(notes,
                 "sharing: %d copies cost %.3f at batch %lld but %.3f at batch %lld; a mean is "
                 "taken",
                 small->copies, small->factor.value, (long long)small->batch, large->factor.value,
                 (long long)large->batch);
}

dl_status dl_contention_fit_factors(const dl_dataset *dataset, dl_contention_fit *fit,
                                    dl_costs *costs, dl_notes *notes, dl_error *err)
{
    list_points(dataset, fit);
    dl_status status = DL_OK;
    for (size_t i = 0; i < fit->count && status == DL_OK; i++) {
        status = fit_point(dataset, costs, &fit->points[i], err);
    }
    DL_GROUPS (first, end, fit->count, fit->points[end].copies == fit->points[first].copies) {
        if (status != DL_OK) break;
        dl_value *factor = &costs->sharing[fit->points[first].copies];
        status = combine(fit->points + first, end - first, factor, err);
        if (status == DL_OK) note_disagreement(&fit->points[first], &fit->points[end - 1], notes);
    }
    if (status == DL_OK && fit->count > 0) {
        costs->sharing[1] = (dl_value){
            .known = true, .value = 1, .error = 0, .count = 0, .origin = DL_ORIGIN_MEASURED};
    }
    return status;
}

void dl_contention_fit_free(dl_contention_fit *fit)
{
    free(fit->points);
    *fit = (dl_contention_fit){0};
}
