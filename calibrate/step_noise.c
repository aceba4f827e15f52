#include "calibrate/step_noise.h"

#include <math.h>
#include <stdlib.h>

#include "calibrate/sharing.h"
#include "common/alloc.h"

/* Factors of one run, in order. */
typedef struct source {
    double *factors; /* [count] */
    size_t count;
    bool train;
} source;

typedef struct sources {
    source *items;
    size_t count;
} sources;

static source *add_source(sources *all, size_t count, bool train)
{
    all->items = dl_realloc(all->items, all->count + 1, sizeof *all->items, "noise sources");
    source *added = &all->items[all->count++];
    *added = (source){dl_calloc(count, sizeof(double), "noise factors"), count, train};
    return added;
}

static void add_train(sources *all, const dl_dataset *dataset, const dl_costs *costs)
{
    for (size_t r = 0; r < dataset->run_count; r++) {
        const dl_step_run *run = &dataset->runs[r];
        const double fitted_ns = dl_costs_step_ns(costs, (double)run->batch, NULL);
        const source *added = add_source(all, run->steps, true);
        for (size_t i = 0; i < run->steps; i++)
            added->factors[i] = run->step_ns[i] / fitted_ns;
    }
}

static void add_bench(sources *all, const dl_bench_trace *bench, const dl_costs *costs)
{
    size_t count;
    dl_copies_run *runs = dl_sharing_runs(bench, &count);
    for (size_t r = 0; r < count; r++) {
        const dl_copies_run *run = &runs[r];
        if (run->copies != 1 || run->batch < costs->batch_min || run->batch > costs->batch_max)
            continue;
        const double fitted_ns = dl_costs_step_ns(costs, (double)run->batch, NULL);
        const source *added = add_source(all, run->count, false);
        for (size_t i = 0; i < run->count; i++) {
            added->factors[i] = (double)run->samples[i].duration_ns / fitted_ns;
        }
    }
    free(runs);
}

static double mean_factor(const sources *all, bool train, size_t *steps)
{
    double sum = 0;
    *steps = 0;
    for (size_t s = 0; s < all->count; s++) {
        if (all->items[s].train != train) continue;
        for (size_t i = 0; i < all->items[s].count; i++)
            sum += all->items[s].factors[i];
        *steps += all->items[s].count;
    }
    return *steps > 0 ? sum / (double)*steps : 0;
}

/* Leaves the bench's steps out if they are not like the train runs'. */
static void check_bench(sources *all, dl_notes *notes)
{
    size_t train_steps, bench_steps;
    const double train = mean_factor(all, true, &train_steps);
    const double bench = mean_factor(all, false, &bench_steps);
    if (bench_steps == 0 || fabs(bench / train - 1) <= DL_STEP_NOISE_AGREE_FRAC) return;
    dl_notes_add(notes,
                 "noise: the bench's steps of one copy take %+.1f %% of the train traces'; left "
                 "out of the noise",
                 100 * (bench / train - 1));
    for (size_t s = 0; s < all->count; s++) {
        if (!all->items[s].train) all->items[s].count = 0;
    }
}

/* The largest number of steps that every source may give, so that all together give at most
 * DL_STEP_NOISE_FACTORS_MAX. */
static size_t share_of_each(const sources *all)
{
    size_t share = DL_STEP_NOISE_FACTORS_MAX, total;
    do {
        total = 0;
        for (size_t s = 0; s < all->count; s++) {
            total += all->items[s].count < share ? all->items[s].count : share;
        }
        if (total > DL_STEP_NOISE_FACTORS_MAX) share--;
    } while (total > DL_STEP_NOISE_FACTORS_MAX);
    return share;
}

/* Keeps `share` of each source, and finds the shape of what is kept: the correlation of neighbours
 * as the mean over the sources, because pieces do not continue one another. */
static void keep(const sources *all, size_t share, dl_costs *costs, dl_step_noise *fit)
{
    double *kept = dl_calloc(DL_STEP_NOISE_FACTORS_MAX, sizeof *kept, "noise factors");
    double lag1_sum = 0;
    for (size_t s = 0; s < all->count; s++) {
        const source *one = &all->items[s];
        fit->steps += one->count;
        if (one->count == 0) continue;
        const size_t count = one->count < share ? one->count : share;
        const double *piece = one->factors + (one->count - count) / 2;
        if (count > 0) lag1_sum += (double)count * dl_fit_shape_of(piece, count).lag1;
        for (size_t i = 0; i < count; i++)
            kept[fit->kept + i] = piece[i];
        fit->kept += count;
        fit->sources++;
    }
    fit->shape = dl_fit_shape_of(kept, fit->kept);
    fit->shape.lag1 = lag1_sum / (double)fit->kept;
    costs->noise = dl_calloc(fit->kept, sizeof *costs->noise, "noise factors");
    costs->noise_count = fit->kept;
    for (size_t i = 0; i < fit->kept; i++)
        costs->noise[i] = (float)kept[i];
    free(kept);
}

void dl_step_noise_fit_factors(const dl_dataset *dataset, dl_costs *costs, dl_step_noise *fit,
                               dl_notes *notes)
{
    sources all = {0};
    *fit = (dl_step_noise){0};
    add_train(&all, dataset, costs);
    for (size_t b = 0; b < dataset->bench_count; b++)
        add_bench(&all, &dataset->benches[b], costs);
    check_bench(&all, notes);
    keep(&all, share_of_each(&all), costs, fit);
    for (size_t s = 0; s < all.count; s++)
        free(all.items[s].factors);
    free(all.items);
}
