#include "sim/shares.h"

#include <math.h>

#include "common/alloc.h"
#include "sim/run_internal.h"
#include "sim/workload.h"

dl_gpu_options dl_point_gpu_options(const dl_scenario *scenario, const dl_point *point)
{
    dl_gpu_options options = *scenario->gpu;
    if (point->gpus != NULL) {
        options.gpus = (int *)point->gpus;
        options.gpu_count = point->workers * dl_point_ranks(point);
    }
    return options;
}

void dl_point_models(const dl_scenario *scenario, const dl_point *point, int *models)
{
    if (scenario->gpu == NULL) {
        for (int w = 0; w < point->workers; w++)
            models[w] = 0;
        return;
    }
    const dl_gpu_options options = dl_point_gpu_options(scenario, point);
    for (int w = 0; w < point->workers; w++) {
        const dl_place place = dl_gpu_options_place(&options, w);
        models[w] = dl_machine_model_number(&options.machine, place.node, place.index);
    }
}

/* --- shares by speed ------------------------------------------------------------------------- */

/* A worker whose share is computed. */
typedef struct sharer {
    const dl_costs *costs;
    int model;
    double factor; /* factor on its times: number of workers on its GPU x slowdown by sharing */
} sharer;

static double time_ns(const sharer *s, double samples)
{
    return s->factor * (dl_costs_model_step_ns(s->costs, s->model, samples, "forward") +
                        dl_costs_model_step_ns(s->costs, s->model, samples, "backward"));
}

/* Number of samples, up to `most`, that take at most limit_ns. */
static double samples_within(const sharer *s, double limit_ns, double most)
{
    double low = 0, high = most;
    if (time_ns(s, most) <= limit_ns) return most;
    for (int i = 0; i < 60 && high - low > 1e-9 * most; i++) {
        const double middle = (low + high) / 2;
        if (time_ns(s, middle) <= limit_ns) {
            low = middle;
        } else {
            high = middle;
        }
    }
    return low;
}

/* Sets within[workers] to the samples that each worker computes in at most limit_ns, and returns
 * their sum. */
static double samples_of_all(const sharer *s, int workers, double limit_ns, double most,
                             double *within)
{
    double sum = 0;
    for (int w = 0; w < workers; w++) {
        const bool as_before =
            w > 0 && s[w].model == s[w - 1].model && s[w].factor == s[w - 1].factor;
        within[w] = as_before ? within[w - 1] : samples_within(&s[w], limit_ns, most);
        sum += within[w];
    }
    return sum;
}

/* The worker that would be the first to finish one more sample. */
static int next_sharer(const sharer *s, int workers, const int64_t *samples)
{
    int best = 0;
    double best_ns = INFINITY;
    for (int w = 0; w < workers; w++) {
        const double ns = time_ns(&s[w], (double)(samples[w] + 1));
        if (ns >= best_ns) continue;
        best = w;
        best_ns = ns;
    }
    return best;
}

/* Divides `all` samples, which all workers together compute in one micro-batch, among the
 * workers. */
static void share_samples(const sharer *s, int workers, int64_t all, int64_t *samples)
{
    double low_ns = 0, high_ns = 0;
    DL_AUTOFREE double *within = dl_calloc((size_t)workers, sizeof *within, "shares");
    for (int w = 0; w < workers; w++)
        high_ns = fmax(high_ns, time_ns(&s[w], (double)all));
    for (int i = 0; i < 60; i++) {
        const double middle_ns = (low_ns + high_ns) / 2;
        if (samples_of_all(s, workers, middle_ns, (double)all, within) <= (double)all) {
            low_ns = middle_ns;
        } else {
            high_ns = middle_ns;
        }
    }
    int64_t left = all;
    samples_of_all(s, workers, low_ns, (double)all, within);
    for (int w = 0; w < workers; w++) {
        samples[w] =
            (int64_t)fmax(1, floor(within[w] + 1e-6)); /* bisection may give 63.9999999 for 64 */
        left -= samples[w];
    }
    const int64_t each = left > workers ? left / workers : 0; /* > 0 only if samples take no time */
    for (int w = 0; w < workers; w++)
        samples[w] += each;
    for (left -= each * workers; left > 0; left--)
        samples[next_sharer(s, workers, samples)]++;
    for (; left < 0; left++) { /* the worker with the most samples gives one for each worker raised
                                * to the minimum of one */
        int most = 0;
        for (int w = 1; w < workers; w++)
            if (samples[w] > samples[most]) most = w;
        samples[most]--;
    }
}

void dl_point_shares(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point,
                     int64_t *samples)
{
    const int workers = point->workers;
    for (int w = 0; w < workers; w++)
        samples[w] = point->batch / workers;
    if (scenario->gpu == NULL || scenario->shares == DL_SHARES_EQUAL) return;
    const int64_t micro_batches = (int64_t)point->option[DL_SYNC_ACCUMULATE];
    const dl_gpu_options options = dl_point_gpu_options(scenario, point);
    const int gpus = dl_gpu_options_count(&options);
    DL_AUTOFREE int *models = dl_calloc((size_t)workers, sizeof *models, "models");
    DL_AUTOFREE sharer *sharers = dl_calloc((size_t)workers, sizeof *sharers, "sharers");
    dl_point_models(scenario, point, models);
    for (int w = 0; w < workers; w++) {
        const int others = workers > gpus ? (workers - 1 - w % gpus) / gpus + 1 : 1;
        sharers[w] = (sharer){costs, models[w], others * dl_sharing(costs, others)};
    }
    share_samples(sharers, workers, point->batch / micro_batches, samples);
    for (int w = 0; w < workers; w++)
        samples[w] *= micro_batches;
}

/* --- speeds ---------------------------------------------------------------------------------- */

static double model_ns(const dl_costs *costs, int model, double batch)
{
    const sharer s = {costs, model, 1};
    return time_ns(&s, batch) + dl_costs_model_step_ns(costs, model, batch, "update");
}

int dl_fastest_gpu(const dl_scenario *scenario, const dl_costs *costs, double batch, int ranks)
{
    if (scenario->gpu == NULL || costs->model_count == 0) return 0;
    int fastest = 0, last = -1;
    double fastest_ns = INFINITY, ns = 0, slowest_ns = 0;
    const dl_machine *m = &scenario->gpu->machine;
    const int all = dl_gpu_options_count(scenario->gpu);
    const int most = all < DL_WORKERS_MAX ? all : DL_WORKERS_MAX; /* no worker uses a later GPU */
    for (int g = 0; g < most - most % ranks; g++) {
        const dl_place place = dl_gpu_options_place(scenario->gpu, g);
        const int model = dl_machine_model_number(m, place.node, place.index);
        if (model != last) ns = model_ns(costs, model, batch);
        last = model;
        slowest_ns = g % ranks == 0 ? ns : fmax(slowest_ns, ns);
        if (g % ranks < ranks - 1 || slowest_ns >= fastest_ns) continue;
        fastest = g + 1 - ranks;
        fastest_ns = slowest_ns;
    }
    return fastest;
}

double dl_point_micro_batch(const dl_point *point)
{
    const double parts =
        point->stages > 1 ? point->micro_batches : point->option[DL_SYNC_ACCUMULATE];
    return (double)point->batch / point->workers / dl_point_batches(point) / parts;
}

double dl_point_worth(const dl_scenario *scenario, const dl_costs *costs, const dl_point *point)
{
    const int gpus = dl_point_gpus(point);
    const bool divided = gpus != point->workers;
    if (scenario->gpu == NULL || costs->model_count == 0) return gpus;
    DL_AUTOFREE int64_t *samples = dl_calloc((size_t)point->workers, sizeof *samples, "shares");
    dl_point_shares(scenario, costs, point, samples);
    const dl_gpu_options options = dl_point_gpu_options(scenario, point);
    const dl_machine *m = &scenario->gpu->machine;
    const double mean = divided ? dl_point_micro_batch(point) : (double)point->batch / gpus;
    const dl_place first =
        dl_gpu_options_place(scenario->gpu, dl_fastest_gpu(scenario, costs, mean, 1));
    const int fastest = dl_machine_model_number(m, first.node, first.index);
    double worth = 0;
    for (int g = 0; g < gpus; g++) {
        const dl_place place = dl_gpu_options_place(&options, g);
        const int model = dl_machine_model_number(m, place.node, place.index);
        const double batch = divided ? mean : (double)samples[g];
        worth += model_ns(costs, fastest, batch) / model_ns(costs, model, batch);
    }
    return worth;
}

double dl_run_compute_factor(const dl_run_config *run, int model)
{
    const dl_costs *costs = run->costs;
    double most = 0;
    if (!run->by_spread || costs->model_count == 0) return exp(run->compute_log);
    for (int m = 0; m < costs->model_count; m++)
        most = fmax(most, costs->models[m].spread_log);
    return exp(run->compute_log * (most > 0 ? costs->models[model].spread_log / most : 1));
}

double *dl_run_slow_devices(const dl_scenario *scenario, const dl_gpu_options *gpus,
                            const dl_costs *costs, const dl_point *point)
{
    const int ranks = dl_point_ranks(point), count = point->workers * ranks;
    double *slow = dl_calloc((size_t)count, sizeof *slow, "slow GPUs");
    DL_AUTOFREE double *workers =
        dl_calloc((size_t)point->workers, sizeof *workers, "slow workers");
    dl_scenario_slow(scenario, point->workers, workers);
    for (int d = 0; d < count; d++)
        slow[d] = workers[d / ranks];
    if (gpus != NULL) {
        dl_gpus_spread(costs, count, dl_point_gpus(point), slow);
        dl_gpus_boards(gpus, costs, count, slow);
        dl_gpus_clocks(gpus, costs, count, slow);
    }
    return slow;
}
