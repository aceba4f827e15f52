/* Finds out whether the times of operations include waits of the GPU for launches, and fits the
 * time to launch a step. */
#include "calibrate/calibration.h"

#include <math.h>

#include "common/alloc.h"

/* Fraction of forward and backward above which a difference counts as gaps; smaller differences are
 * scatter of both measurements and the cost of marks between operations. */
#define GAP_MATTERS_FRAC 0.05

#define BATCHES_MAX 32

/* A forward and backward pass at one batch size: trained_ns in training, own_ns without gaps. */
typedef struct pass {
    int64_t batch;
    double trained_ns, own_ns, error_ns;
    int64_t count;
} pass;

static double pass_ns(const dl_costs *costs, double batch)
{
    return dl_costs_step_ns(costs, batch, "forward") + dl_costs_step_ns(costs, batch, "backward");
}

static dl_status find_pass(const dl_dataset *dataset, const dl_costs *costs, pass *p, dl_error *err)
{
    DL_AUTOFREE double *values = NULL;
    size_t count = 0;
    for (size_t b = 0; b < dataset->bench_count; b++) {
        const dl_bench_trace *bench = &dataset->benches[b];
        for (size_t i = 0; i < bench->count; i++) {
            const dl_record *r = &bench->samples[i];
            if (r->name == DL_SAMPLE_PASS && r->samples == p->batch)
                DL_APPEND(values, count, "passes") = (double)r->duration_ns;
        }
    }
    dl_estimate own = {0};
    const dl_status status = dl_fit_location(values, count, &own, err);
    p->own_ns = own.value;
    p->error_ns = own.error;
    p->count = own.count;
    p->trained_ns = pass_ns(costs, (double)p->batch);
    return status;
}

/* Finds all batch sizes with samples, at most BATCHES_MAX. */
static dl_status find_passes(const dl_dataset *dataset, const dl_costs *costs, pass *passes,
                             size_t *count, dl_error *err)
{
    dl_status status = DL_OK;
    *count = 0;
    for (size_t b = 0; b < dataset->bench_count; b++) {
        const dl_bench_trace *bench = &dataset->benches[b];
        for (size_t i = 0; i < bench->count && status == DL_OK; i++) {
            const dl_record *r = &bench->samples[i];
            size_t known = 0;
            if (r->name != DL_SAMPLE_PASS) continue;
            while (known < *count && passes[known].batch != r->samples)
                known++;
            if (known < *count || *count == BATCHES_MAX) continue;
            passes[*count].batch = r->samples;
            status = find_pass(dataset, costs, &passes[(*count)++], err);
        }
    }
    return status;
}

/* Shortest pass of all trained batch sizes: an upper bound of the launch time, which does not
 * depend on the batch. */
static double shortest_pass_ns(const dl_dataset *dataset, const dl_costs *costs)
{
    size_t count;
    DL_AUTOFREE int64_t *batches = dl_dataset_batches(dataset, &count);
    double least_ns = INFINITY;
    for (size_t b = 0; b < count; b++)
        least_ns = fmin(least_ns, pass_ns(costs, (double)batches[b]));
    return least_ns;
}

dl_status dl_launch_gaps_fit(const dl_dataset *dataset, dl_costs *costs, dl_notes *notes,
                             dl_error *err)
{
    pass passes[BATCHES_MAX];
    size_t count = 0;
    if (dataset->op_count == 0) return DL_OK;
    const dl_status status = find_passes(dataset, costs, passes, &count, err);
    if (status != DL_OK || count == 0) return status;
    double worst = 0, error_frac = 0;
    int64_t at = 0, samples = 0;
    for (size_t i = 0; i < count; i++) {
        const pass *p = &passes[i];
        const double idle = 1 - p->own_ns / p->trained_ns;
        error_frac = fmax(error_frac, p->error_ns / p->own_ns);
        samples += p->count;
        if (idle <= worst) continue;
        worst = idle;
        at = p->batch;
    }
    if (worst <= GAP_MATTERS_FRAC) {
        dl_notes_add(notes, "between operations the GPU waits for at most %.1f %% of a pass",
                     100 * worst);
        return DL_OK;
    }
    const double launch_ns = shortest_pass_ns(dataset, costs);
    if (!costs->dispatch.per_worker_ns.known || costs->dispatch.per_worker_ns.value < launch_ns) {
        costs->dispatch.per_worker_ns = (dl_value){.known = true,
                                                   .value = launch_ns,
                                                   .error = error_frac * launch_ns,
                                                   .count = samples,
                                                   .origin = DL_ORIGIN_FITTED};
    }
    dl_notes_add(
        notes,
        "at batch %lld the GPU waits for launches during %.0f %% of a pass: launching a step is "
        "taken "
        "to need at most %.1f us, the time of the shortest pass ([dispatch] per_worker_ns)",
        (long long)at, 100 * worst, launch_ns / 1e3);
    return DL_OK;
}
