/* Operations that were timed while the GPU waited for their launch. */
#include "calibrate/calibration.h"

#include <gsl/gsl_fit.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"

/* A part of forward and backward that is no gap but the scatter of both measurements, and the marks
 * between operations. */
#define GAP_MATTERS_FRAC 0.05

#define BATCHES_MAX 32

/* Of one batch size: a pass as training has it, and on the GPU itself. */
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
    double *values = NULL;
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
    free(values);
    p->own_ns = own.value;
    p->error_ns = own.error;
    p->count = own.count;
    p->trained_ns = pass_ns(costs, (double)p->batch);
    return status;
}

/* All batch sizes that have samples, at most BATCHES_MAX. */
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

/* own = fixed + per_sample batch, by relative deviations; neither below 0. Of one batch size in the
 * proportion of the operations' own lines. */
static void fit_line(const pass *passes, size_t count, const dl_costs *costs, double *fixed_ns,
                     double *per_sample_ns)
{
    if (count == 1) {
        const double fixed = fmax(0, pass_ns(costs, 0));
        const double part = fmin(1, fixed / passes[0].trained_ns);
        *fixed_ns = part * passes[0].own_ns;
        *per_sample_ns = (1 - part) * passes[0].own_ns / (double)passes[0].batch;
        return;
    }
    double x[BATCHES_MAX], y[BATCHES_MAX], weight[BATCHES_MAX], cov[3], chisq, mean = 0, each = 0;
    for (size_t i = 0; i < count; i++) {
        x[i] = (double)passes[i].batch;
        y[i] = passes[i].own_ns;
        weight[i] = 1 / (y[i] * y[i]);
        mean += y[i] / (double)count;
        each += y[i] / x[i] / (double)count;
    }
    gsl_fit_wlinear(x, 1, weight, 1, y, 1, count, fixed_ns, per_sample_ns, &cov[0], &cov[1],
                    &cov[2], &chisq);
    if (*fixed_ns < 0) {
        *fixed_ns = 0;
        *per_sample_ns = each;
    } else if (*per_sample_ns < 0) {
        *fixed_ns = mean;
        *per_sample_ns = 0;
    }
}

static bool is_of_pass(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot != NULL && (strcmp(dot, ".forward") == 0 || strcmp(dot, ".backward") == 0);
}

/* Each operation keeps its part of the pass at `batch`. */
static void set_operations(dl_costs *costs, double batch, double fixed_ns, double per_sample_ns,
                           double error_frac)
{
    double sum = 0;
    for (size_t i = 0; i < costs->op_count; i++) {
        const dl_op_cost *op = &costs->ops[i];
        if (is_of_pass(op->name))
            sum += fmax(0, op->fixed_ns.value + op->per_sample_ns.value * batch);
    }
    for (size_t i = 0; i < costs->op_count; i++) {
        dl_op_cost *op = &costs->ops[i];
        if (!is_of_pass(op->name)) continue;
        const double part = fmax(0, op->fixed_ns.value + op->per_sample_ns.value * batch) / sum;
        op->fixed_ns.value = part * fixed_ns;
        op->fixed_ns.error = part * fixed_ns * error_frac;
        op->per_sample_ns.value = part * per_sample_ns;
        op->per_sample_ns.error = part * per_sample_ns * error_frac;
    }
    costs->linearity_count = 0; /* was of the lines before */
}

/* copies_k were of steps with their gaps. Where k copies take no longer than one, the launches limit,
 * and all that is known of the GPU is that they do not take more than turns. */
static void set_sharing(dl_costs *costs, double ratio)
{
    for (int k = 2; k <= DL_SHARING_MAX; k++) {
        dl_value *factor = &costs->sharing[k];
        if (!factor->known) continue;
        const double most = fmax(1, factor->value);
        const double scale = fmin(most, factor->value * ratio) / factor->value;
        factor->value *= scale;
        factor->error *= scale;
    }
}

dl_status dl_launch_gaps_fit(const dl_dataset *dataset, dl_costs *costs, dl_notes *notes,
                             dl_error *err)
{
    pass passes[BATCHES_MAX];
    size_t count = 0;
    if (dataset->op_count == 0) return DL_OK;
    const dl_status status = find_passes(dataset, costs, passes, &count, err);
    if (status != DL_OK || count == 0) return status;
    double worst = 0, launch_ns = 0, ratio = 0, error_frac = 0;
    int64_t at = 0, samples = 0, largest = 0;
    for (size_t i = 0; i < count; i++) {
        const pass *p = &passes[i];
        const double idle = 1 - p->own_ns / p->trained_ns;
        const double update_ns = dl_costs_step_ns(costs, (double)p->batch, "update");
        ratio += (p->trained_ns + update_ns) / (p->own_ns + update_ns) / (double)count;
        error_frac = fmax(error_frac, p->error_ns / p->own_ns);
        samples += p->count;
        if (p->batch > largest) largest = p->batch;
        if (idle > GAP_MATTERS_FRAC) launch_ns = fmax(launch_ns, p->trained_ns);
        if (idle > worst) {
            worst = idle;
            at = p->batch;
        }
    }
    if (worst <= GAP_MATTERS_FRAC) {
        dl_notes_add(notes, "between operations the GPU waits for at most %.1f %% of a pass",
                     100 * worst);
        return DL_OK;
    }
    double fixed_ns, per_sample_ns;
    fit_line(passes, count, costs, &fixed_ns, &per_sample_ns);
    set_operations(costs, (double)largest, fixed_ns, per_sample_ns, error_frac);
    set_sharing(costs, ratio);
    if (!costs->dispatch.per_worker_ns.known || costs->dispatch.per_worker_ns.value < launch_ns) {
        costs->dispatch.per_worker_ns = (dl_value){.known = true,
                                                   .value = launch_ns,
                                                   .error = error_frac * launch_ns,
                                                   .count = samples,
                                                   .origin = DL_ORIGIN_FITTED};
    }
    dl_notes_add(notes,
                 "at batch %lld the GPU waits %.0f %% of a pass for launches: forward and backward "
                 "are those of passes that it did not wait in, and the rest is launching, "
                 "[dispatch] per_worker_ns",
                 (long long)at, 100 * worst);
    return DL_OK;
}
