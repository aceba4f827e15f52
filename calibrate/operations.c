#include "calibrate/calibration.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/names.h"

/* Minimum relative residual of a step that a note reports. */
#define DL_LINEARITY_LIMIT_FRAC 0.02

/* Location estimates of one operation, one per run. */
typedef struct centers {
    double *terms; /* [runs x 2]: 1, batch */
    double *value_ns, *error_ns, *scale_ns;
    int64_t count; /* number of steps of all runs */
} centers;

static void centers_init(centers *c, size_t runs)
{
    c->terms = dl_calloc(5 * runs, sizeof(double), "fit points"); /* one block for all arrays */
    c->value_ns = c->terms + 2 * runs;
    c->error_ns = c->value_ns + runs;
    c->scale_ns = c->error_ns + runs;
    c->count = 0;
}

/* Adds the location estimate of run `r`'s times[i * stride]. */
static dl_status add_center(centers *c, const dl_step_run *run, size_t r, const double *times,
                            size_t stride, dl_error *err)
{
    DL_AUTOFREE double *column = dl_calloc(run->steps, sizeof *column, "step times");
    for (size_t i = 0; i < run->steps; i++)
        column[i] = times[i * stride];
    dl_estimate center;
    const dl_status status = dl_fit_location(column, run->steps, &center, err);
    if (status != DL_OK) return status;
    c->terms[2 * r] = 1;
    c->terms[2 * r + 1] = (double)run->batch;
    c->value_ns[r] = center.value;
    c->error_ns[r] = hypot(center.error, DL_FIT_CLOCK_ERROR_NS);
    c->scale_ns[r] = fmax(center.value, 1);
    c->count += center.count;
    return DL_OK;
}

/* Finds the location estimates of operation `op` over all runs; op == op_count: the whole step. */
static dl_status find_centers(const dl_dataset *dataset, size_t op, centers *c, dl_error *err)
{
    dl_status status = DL_OK;
    for (size_t r = 0; r < dataset->run_count && status == DL_OK; r++) {
        const dl_step_run *run = &dataset->runs[r];
        const bool whole = op == dataset->op_count;
        status = add_center(c, run, r, whole ? run->step_ns : run->op_ns + op,
                            whole ? 1 : dataset->op_count, err);
    }
    return status;
}

static bool grows_with_batch(const char *op)
{
    return strcmp(op, "input") == 0 || dl_ends_with(op, ".forward") ||
           dl_ends_with(op, ".backward");
}

/* Fits a single batch size: the mean of the runs, split by assumption. */
static dl_status fit_one_batch(const centers *c, size_t runs, double batch, dl_op_cost *cost,
                               dl_error *err)
{
    dl_estimate mean;
    const dl_status status =
        dl_fit_constant(c->value_ns, c->error_ns, c->scale_ns, runs, &mean, err);
    if (status != DL_OK) return status;
    const dl_value zero = {
        .known = true, .value = 0, .error = 0, .count = c->count, .origin = DL_ORIGIN_ASSUMED};
    const bool grows = grows_with_batch(cost->name);
    const double divisor = grows ? batch : 1;
    const dl_value all = {.known = true,
                          .value = mean.value / divisor,
                          .error = mean.error / divisor,
                          .count = c->count,
                          .origin = DL_ORIGIN_ASSUMED};
    cost->fixed_ns = grows ? zero : all;
    cost->per_sample_ns = grows ? all : zero;
    return DL_OK;
}

static dl_status fit_batches(const centers *c, size_t runs, dl_op_cost *cost, dl_error *err)
{
    const dl_fit_problem problem = {runs, 2, c->terms, c->value_ns, c->error_ns, c->scale_ns};
    dl_fit_line line;
    const dl_status status = dl_fit_solve(&problem, &line, err);
    if (status != DL_OK) return status;
    cost->fixed_ns = (dl_value){.known = true,
                                .value = line.coefficient[0],
                                .error = line.error[0],
                                .count = c->count,
                                .origin = DL_ORIGIN_FITTED};
    cost->per_sample_ns = (dl_value){.known = true,
                                     .value = line.coefficient[1],
                                     .error = line.error[1],
                                     .count = c->count,
                                     .origin = DL_ORIGIN_FITTED};
    return DL_OK;
}

/* Notes all operations with a number constrained to 0. */
static void note_held(const dl_costs *costs, bool fixed, dl_notes *notes)
{
    DL_AUTOFREE char *names = NULL;
    for (size_t op = 0; op < costs->op_count; op++) {
        const dl_op_cost *cost = &costs->ops[op];
        if ((fixed ? cost->fixed_ns : cost->per_sample_ns).value > 0) continue;
        dl_join(&names, ", ", cost->name);
    }
    if (names == NULL) return;
    dl_notes_add(notes, "%s came out below 0 and is held at 0: %s",
                 fixed ? "fixed time" : "time per sample", names);
}

/* Merges runs at equal batch sizes into one point. */
static dl_op_point *make_points(const dl_dataset *dataset, const centers *c, const int64_t *batches,
                                size_t count)
{
    dl_op_point *points = dl_calloc(count, sizeof *points, "fit points");
    for (size_t b = 0; b < count; b++) {
        double sum = 0, variance = 0, runs = 0;
        for (size_t r = 0; r < dataset->run_count; r++) {
            if (dataset->runs[r].batch != batches[b]) continue;
            sum += c->value_ns[r];
            variance += c->error_ns[r] * c->error_ns[r];
            runs++;
        }
        points[b] = (dl_op_point){
            .batch = batches[b], .observed_ns = sum / runs, .error_ns = sqrt(variance) / runs};
    }
    return points;
}

static dl_status fit_op(const dl_dataset *dataset, size_t op, const int64_t *batches,
                        dl_operations *all, dl_costs *costs, dl_error *err)
{
    dl_op_fit *fit = &all->ops[op];
    dl_op_cost *cost = &costs->ops[op];
    fit->name = dataset->ops[op];
    cost->name = dl_strdup(dataset->ops[op]);
    centers c;
    centers_init(&c, dataset->run_count);
    dl_status status = find_centers(dataset, op, &c, err);
    if (status == DL_OK && all->batch_count == 1) {
        status = fit_one_batch(&c, dataset->run_count, (double)batches[0], cost, err);
    } else if (status == DL_OK) {
        status = fit_batches(&c, dataset->run_count, cost, err);
    }
    fit->points = make_points(dataset, &c, batches, all->batch_count);
    free(c.terms);
    for (size_t b = 0; b < all->batch_count; b++) {
        fit->points[b].fitted_ns =
            cost->fixed_ns.value + cost->per_sample_ns.value * (double)batches[b];
    }
    return status;
}

double dl_op_residual_frac(const dl_op_point *point)
{
    return point->fitted_ns > 0 ? point->observed_ns / point->fitted_ns - 1 : 0;
}

/* Adds the whole step at each batch size. */
static dl_status add_steps(const dl_dataset *dataset, const int64_t *batches, dl_operations *all,
                           dl_error *err)
{
    centers c;
    centers_init(&c, dataset->run_count);
    const dl_status status = find_centers(dataset, dataset->op_count, &c, err);
    DL_AUTOFREE dl_op_point *whole = make_points(dataset, &c, batches, all->batch_count);
    free(c.terms);
    all->steps = dl_calloc(all->batch_count, sizeof *all->steps, "steps");
    for (size_t b = 0; b < all->batch_count; b++) {
        dl_step_point *step = &all->steps[b];
        *step = (dl_step_point){.sum = {.batch = batches[b]},
                                .step_ns = whole[b].observed_ns,
                                .step_error_ns = whole[b].error_ns};
        for (size_t r = 0; r < dataset->run_count; r++) {
            if (dataset->runs[r].batch == batches[b])
                step->count += (int64_t)dataset->runs[r].steps;
        }
        for (size_t op = 0; op < all->op_count; op++) {
            const dl_op_point *point = &all->ops[op].points[b];
            step->sum.observed_ns += point->observed_ns;
            step->sum.error_ns = hypot(step->sum.error_ns, point->error_ns);
            step->sum.fitted_ns += point->fitted_ns;
        }
    }
    return status;
}

/* Sets the deviation from the lines: the time of all operations at each batch size divided by that
 * of their lines. Does nothing with fewer than three batch sizes, through which the lines pass;
 * with more than DL_LINEARITY_MAX only adds a note. */
static void set_linearity(const dl_operations *all, dl_costs *costs, dl_notes *notes)
{
    if (all->batch_count < 3) return;
    if (all->batch_count > DL_LINEARITY_MAX) {
        dl_notes_add(notes, "more than %d batch sizes: deviations from the lines are not kept",
                     DL_LINEARITY_MAX);
        return;
    }
    for (size_t b = 0; b < all->batch_count; b++) {
        const dl_op_point *sum = &all->steps[b].sum;
        int64_t count = all->steps[b].count;
        costs->linearity[b] = (dl_linearity){sum->batch,
                                             {.known = true,
                                              .value = sum->observed_ns / sum->fitted_ns,
                                              .error = sum->error_ns / sum->fitted_ns,
                                              .count = count,
                                              .origin = DL_ORIGIN_MEASURED}};
    }
    costs->linearity_count = all->batch_count;
}

/* Notes each batch size at which the step deviates from its line, and the operations that
 * contribute more than half of the limit, as a fraction of the step. */
static void note_deviations(const dl_operations *all, dl_notes *notes)
{
    for (size_t b = 0; b < all->batch_count; b++) {
        const dl_op_point *sum = &all->steps[b].sum;
        const double off = dl_op_residual_frac(sum);
        if (fabs(off) <= DL_LINEARITY_LIMIT_FRAC) continue;
        dl_notes_add(
            notes,
            "step: %+.1f %% from the fitted line at batch %lld: not linear, kept in [linearity]",
            100 * off, (long long)sum->batch);
        for (size_t op = 0; op < all->op_count; op++) {
            const dl_op_point *point = &all->ops[op].points[b];
            const double part = (point->observed_ns - point->fitted_ns) / sum->fitted_ns;
            if (fabs(part) <= DL_LINEARITY_LIMIT_FRAC / 2) continue;
            dl_notes_add(notes, "%s: %+.1f %% from its line there, %+.1f %% of the step",
                         all->ops[op].name, 100 * dl_op_residual_frac(point), 100 * part);
        }
    }
}

dl_status dl_operations_fit(const dl_dataset *dataset, dl_operations *operations, dl_costs *costs,
                            dl_notes *notes, dl_error *err)
{
    DL_ASSERT(dataset->run_count >= 1, "no runs");
    DL_AUTOFREE int64_t *batches = dl_dataset_batches(dataset, &operations->batch_count);
    costs->batch_min = batches[0];
    costs->batch_max = batches[operations->batch_count - 1];
    operations->op_count = costs->op_count = dataset->op_count;
    operations->ops = dl_calloc(dataset->op_count, sizeof *operations->ops, "operations");
    costs->ops = dl_calloc(dataset->op_count, sizeof *costs->ops, "operations");
    if (operations->batch_count == 1) {
        dl_notes_add(notes,
                     "one batch size (%lld) only: per-sample scaling is assumed (input, "
                     "forward, backward in proportion; the rest fixed)",
                     (long long)batches[0]);
    }
    dl_status status = DL_OK;
    for (size_t op = 0; op < dataset->op_count && status == DL_OK; op++) {
        status = fit_op(dataset, op, batches, operations, costs, err);
    }
    if (status == DL_OK) status = add_steps(dataset, batches, operations, err);
    if (status == DL_OK && operations->batch_count > 1) {
        note_held(costs, true, notes);
        note_held(costs, false, notes);
        note_deviations(operations, notes);
        set_linearity(operations, costs, notes);
    }
    return status;
}

void dl_operations_free(dl_operations *operations)
{
    for (size_t op = 0; op < operations->op_count; op++)
        free(operations->ops[op].points);
    free(operations->ops);
    free(operations->steps);
    *operations = (dl_operations){0};
}
