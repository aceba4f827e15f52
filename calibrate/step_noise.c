#include "calibrate/calibration.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/sort.h"
#include "sim/noise.h"
#include "sim/workload.h"

#define DL_STEP_NOISE_FACTORS_MAX 4096 /* maximum for one batch size and number of copies */

/* A set under construction: whole series, run by run. */
typedef struct gathered {
    dl_noise_set set;
    size_t train_runs; /* number of train runs, which come first */
} gathered;

/* Adds the empty series of one more run, one for each copy; returns the first. */
static dl_noise_series *add_run(gathered *all)
{
    dl_noise_set *set = &all->set;
    const size_t count = set->run_count * set->copies;
    set->series = dl_realloc(set->series, count + set->copies, sizeof *set->series, "noise");
    set->run_count++;
    memset(&set->series[count], 0, set->copies * sizeof *set->series);
    return &set->series[count];
}

static void add_factor(dl_noise_series *series, double factor)
{
    DL_APPEND(series->factors, series->count, "noise") = (float)factor;
}

static void add_train(gathered *all, const dl_dataset *dataset, double expected_ns)
{
    for (size_t r = 0; r < dataset->run_count; r++) {
        const dl_step_run *run = &dataset->runs[r];
        if (run->batch != all->set.batch) continue;
        dl_noise_series *series = add_run(all);
        for (size_t i = 0; i < run->steps; i++)
            add_factor(series, run->step_ns[i] / expected_ns);
    }
    all->train_runs = all->set.run_count;
}

/* Returns whether every copy of the run has a step. */
static bool is_whole(const dl_copies_run *run)
{
    size_t seen = 0;
    for (size_t i = 0; i < run->count; i++) {
        if (run->samples[i].worker == seen) seen++;
    }
    return seen == (size_t)run->copies;
}

/* Adds one run if the bench trace has runs of the set's copies and batch, however many rounds it
 * has. A noise run and a run of dl_exchange_runs_fit that were measured together thus have the same
 * index. */
static void add_bench(gathered *all, const dl_bench_trace *bench, double expected_ns)
{
    size_t count;
    dl_noise_series *series = NULL;
    DL_AUTOFREE dl_copies_run *runs = dl_contention_runs(bench, &count);
    for (size_t r = 0; r < count; r++) {
        const dl_copies_run *run = &runs[r];
        if ((size_t)run->copies != all->set.copies || run->batch != all->set.batch ||
            !is_whole(run)) {
            continue;
        }
        if (series == NULL) series = add_run(all);
        for (size_t i = 0; i < run->count; i++) {
            add_factor(&series[run->samples[i].worker],
                       (double)run->samples[i].duration_ns / expected_ns);
        }
    }
}

static double mean_of(const dl_noise_series *series, size_t count)
{
    double sum = 0;
    size_t steps = 0;
    for (size_t s = 0; s < count; s++) {
        for (size_t i = 0; i < series[s].count; i++)
            sum += (double)series[s].factors[i];
        steps += series[s].count;
    }
    return steps > 0 ? sum / (double)steps : 0;
}

/* Drops the benchmark's single-copy steps if they differ from the steps of the train runs. */
static void check_bench(gathered *all, dl_notes *notes)
{
    dl_noise_set *set = &all->set;
    if (all->train_runs == set->run_count) return;
    const double train = mean_of(set->series, all->train_runs);
    const double bench = mean_of(set->series + all->train_runs, set->run_count - all->train_runs);
    if (fabs(bench / train - 1) <= DL_STEP_NOISE_AGREE_FRAC) return;
    dl_notes_add(notes,
                 "noise: the bench's steps of one copy take %+.1f %% of the train traces' at batch "
                 "%lld; left out of the noise",
                 100 * (bench / train - 1), (long long)set->batch);
    while (set->run_count > all->train_runs)
        free(set->series[--set->run_count].factors);
}

/* Returns the maximum number of steps to keep per series, so that the total is at most
 * DL_STEP_NOISE_FACTORS_MAX. */
static size_t share_of_each(const dl_noise_set *set)
{
    size_t share = DL_STEP_NOISE_FACTORS_MAX, total;
    do {
        total = 0;
        for (size_t s = 0; s < set->run_count * set->copies; s++)
            total += set->series[s].count < share ? set->series[s].count : share;
        if (total > DL_STEP_NOISE_FACTORS_MAX) share--;
    } while (total > DL_STEP_NOISE_FACTORS_MAX && share > 1);
    return share;
}

/* Keeps the middle `share` steps of each series, and finds the shape of the kept factors: the lag-1
 * autocorrelation is the mean over the series, which are not contiguous. */
static void keep(dl_noise_set *set, dl_step_noise_set *fit)
{
    const size_t share = share_of_each(set), count = set->run_count * set->copies;
    DL_AUTOFREE double *kept = dl_calloc(count * share, sizeof *kept, "noise factors");
    DL_AUTOFREE double *means = dl_calloc(count, sizeof *means, "noise means");
    double lag1_sum = 0;
    *fit = (dl_step_noise_set){.batch = set->batch, .copies = set->copies, .runs = set->run_count};
    for (size_t s = 0; s < count; s++) {
        dl_noise_series *series = &set->series[s];
        const size_t steps = series->count < share ? series->count : share;
        means[s] = mean_of(series, 1);
        fit->steps += series->count;
        memmove(series->factors, series->factors + (series->count - steps) / 2,
                steps * sizeof *series->factors);
        series->count = steps;
        dl_noise_series_finish(series);
        for (size_t i = 0; i < steps; i++)
            kept[fit->kept + i] = (double)series->factors[i];
        lag1_sum += (double)steps * dl_fit_shape_of(kept + fit->kept, steps).lag1;
        fit->kept += steps;
    }
    fit->shape = dl_fit_shape_of(kept, fit->kept);
    fit->shape.lag1 = lag1_sum / (double)fit->kept;
    fit->run_sd = dl_fit_shape_of(means, count).sd;
}

static double gpu_step_ns(const dl_costs *costs, double batch)
{
    return dl_costs_step_ns(costs, batch, "forward") + dl_costs_step_ns(costs, batch, "backward") +
           dl_costs_step_ns(costs, batch, "update");
}

/* Adds the set of one number of copies and batch size, if it has runs. */
static void add_set(const dl_dataset *dataset, size_t copies, int64_t batch, dl_costs *costs,
                    dl_step_noise *fit, dl_notes *notes)
{
    gathered all = {.set = {.batch = batch, .copies = copies}};
    const double shared = dl_sharing(costs, (int)copies);
    const double expected_ns = dl_costs_step_ns(costs, (double)batch, NULL) * shared;
    if (copies == 1) add_train(&all, dataset, expected_ns);
    for (size_t b = 0; b < dataset->bench_count; b++) {
        /* For copies on a GPU, take the time of their operations there; for one copy, training
         * gives it. */
        const bool gpu = dataset->benches[b].gpu;
        if (gpu && copies == 1) continue;
        add_bench(&all, &dataset->benches[b],
                  gpu ? gpu_step_ns(costs, (double)batch) * shared * (double)copies : expected_ns);
    }
    if (copies == 1) check_bench(&all, notes);
    if (all.set.run_count == 0) return;
    costs->noise = dl_realloc(costs->noise, fit->count + 1, sizeof *costs->noise, "noise sets");
    fit->sets = dl_realloc(fit->sets, fit->count + 1, sizeof *fit->sets, "noise sets");
    keep(&all.set, &fit->sets[fit->count]);
    costs->noise[fit->count++] = all.set;
    costs->noise_count = fit->count;
}

void dl_step_noise_fit_factors(const dl_dataset *dataset, dl_costs *costs, dl_step_noise *fit,
                               dl_notes *notes)
{
    size_t count;
    DL_AUTOFREE int64_t *batches = dl_dataset_batches(dataset, &count);
    *fit = (dl_step_noise){0};
    for (size_t copies = 1; copies <= DL_SHARING_MAX; copies++) {
        const bool fits = dataset->gpu.gpu || (int64_t)copies <= costs->cores;
        if (copies > 1 && (!fits || !costs->sharing[copies].known)) continue;
        for (size_t b = 0; b < count; b++)
            add_set(dataset, copies, batches[b], costs, fit, notes);
    }
}

/* Maximum number of values in [work]; each is the mean of a group of drawn steps. Groups have
 * equally many steps, or differ by one. */
#define WORK_GROUPS_MAX 64

/* Data-dependent time of a step by the fitted lines, in ns; without lines, the number of
 * samples. */
static double data_ns(const dl_costs *costs, double samples)
{
    const double ns = dl_costs_step_ns(costs, samples, "input") +
                      dl_costs_step_ns(costs, samples, "forward") +
                      dl_costs_step_ns(costs, samples, "backward");
    return ns > 0 ? ns : samples;
}

void dl_work_fit(const dl_dataset *dataset, dl_costs *costs, dl_notes *notes)
{
    const size_t count = dataset->drawn_count;
    const size_t groups = count < WORK_GROUPS_MAX ? count : WORK_GROUPS_MAX;
    if (count == 0) return;
    double *times_ns = dl_calloc(count, sizeof *times_ns, "drawn steps"), mean_ns = 0;
    for (size_t i = 0; i < count; i++) {
        times_ns[i] = data_ns(costs, (double)dataset->drawn[i]);
        mean_ns += times_ns[i] / (double)count;
    }
    dl_sort(times_ns, count, sizeof *times_ns, dl_compare_doubles);
    costs->work_steps = dl_calloc(groups, sizeof *costs->work_steps, "work");
    costs->work_step_count = groups;
    double sum = 0;
    for (size_t g = 0; g < groups; g++) {
        const size_t first = g * count / groups, end = (g + 1) * count / groups;
        double group_ns = 0;
        for (size_t i = first; i < end; i++)
            group_ns += times_ns[i] / (double)(end - first);
        costs->work_steps[g] = (float)(group_ns / mean_ns);
        sum += (double)costs->work_steps[g];
    }
    for (size_t g = 0; g < groups; g++) /* makes the mean exactly 1, as groups may differ by one
                                         * step */
        costs->work_steps[g] *= (float)((double)groups / sum);
    free(times_ns);
    dl_notes_add(notes,
                 "[work] is of %zu steps of drawn numbers of samples: coefficient of variation "
                 "%.3f, largest %.2f times the mean",
                 count, dl_work_spread_of(costs, 1, 1).sd, (double)costs->work_steps[groups - 1]);
}

void dl_step_noise_free(dl_step_noise *fit)
{
    free(fit->sets);
    *fit = (dl_step_noise){0};
}
