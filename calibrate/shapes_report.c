/* Report and machine file of fitted shapes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "calibrate/shapes.h"
#include "common/alloc.h"
#include "common/rows.h"

/* --- report ---------------------------------------------------------------------------------- */

/* Formats "84.1 G +- 1.2 %"; "-" if the shapes do not determine the number. The caller frees it. */
static char *number_text(const dl_shape_number *number, dl_dimension dimension)
{
    char text[64];
    if (number->at_limit) return dl_strdup("-");
    return dl_format("%s +- %.2g %%", dl_amount_text(text, sizeof text, number->value, dimension),
                     100 * number->error_frac);
}

static void print_fits(const dl_shapes *shapes, FILE *out)
{
    dl_rows rows = {.out = out};
    dl_rows_begin(&rows, "passes", "times of products by three numbers each");
    for (int pass = 0; pass < DL_PRODUCT_PASSES; pass++) {
        const dl_shape_fit *fit = &shapes->passes[pass];
        DL_AUTOFREE char *flop = number_text(&fit->flop_per_s, DL_DIMENSION_FLOP_PER_S),
                         *bytes = number_text(&fit->bytes_per_s, DL_DIMENSION_BYTES_PER_S),
                         *fixed = number_text(&fit->fixed_ns, DL_DIMENSION_NS);
        dl_rows_add(&rows,
                    "pass=%-s flop_per_s|flop a second=%s bytes_per_s|bytes a second=%s "
                    "fixed_ns|each=%s shapes=%zu inside_mean|mean %% left out=%.1f "
                    "inside_max|max=%.1f",
                    dl_product_pass_names[pass], flop, bytes, fixed, fit->shapes,
                    100 * fit->inside.mean, 100 * fit->inside.max);
    }
    dl_rows_end(&rows, 0);
}

static void add_errors(dl_rows *rows, const dl_shapes *shapes, const char *name,
                       const dl_shape_errors *e)
{
    char worst[DL_SHAPE_NAME_BYTES];
    dl_rows_add(rows,
                "pass=%-s products=%zu mean_frac|mean=%.1f%% median_frac|median=%.1f%% "
                "max_frac|max=%.1f%% sum_frac|of a step's sum=%+.1f%% worst|at=%-s",
                name, e->count, e->mean, e->median, e->max, e->sum_frac,
                dl_shape_name(worst, &shapes->times[e->worst].product));
}

static void print_left_out(const dl_shapes *shapes, FILE *out)
{
    dl_rows rows = {.out = out};
    if (shapes->all.count == 0) {
        fputs("\nno product of a network was left out to judge the fit\n", out);
        return;
    }
    DL_AUTOFREE char *title =
        dl_format("errors on the products of %s, batch %s, which the fit does not use",
                  shapes->workload, shapes->batch);
    dl_rows_begin(&rows, "left_out", title);
    for (int pass = 0; pass < DL_PRODUCT_PASSES; pass++)
        if (shapes->passes[pass].left_out.count > 0)
            add_errors(&rows, shapes, dl_product_pass_names[pass], &shapes->passes[pass].left_out);
    add_errors(&rows, shapes, "all", &shapes->all);
    dl_rows_end(&rows, 0);
}

static void add_line(dl_rows *rows, const char *name, const dl_shape_line *line,
                     dl_dimension dimension)
{
    if (!(line->per_s.value > 0)) return;
    DL_AUTOFREE char *rate = number_text(&line->per_s, dimension),
                     *each = number_text(&line->fixed_ns, DL_DIMENSION_NS);
    DL_AUTOFREE char *left_out =
        line->left_out > 0 ? dl_format("%.1f", 100 * line->left_out_mean) : dl_strdup("-");
    dl_rows_add(rows,
                "kind=%-s per_s|a second=%s fixed_ns|each=%s inside_mean|mean %% off=%.1f "
                "left_out_mean|at the network's sizes=%s",
                name, rate, each, 100 * line->inside_mean, left_out);
}

static void print_kinds(const dl_shapes *shapes, FILE *out)
{
    dl_rows rows = {.out = out};
    dl_rows_begin(&rows, "kinds", "times of other kernels by two numbers each");
    for (int kind = 0; kind < DL_MOVES; kind++)
        add_line(&rows, dl_move_names[kind], &shapes->moves[kind], DL_DIMENSION_BYTES_PER_S);
    add_line(&rows, "attention", &shapes->attention[0], DL_DIMENSION_FLOP_PER_S);
    add_line(&rows, "attention_backward", &shapes->attention[1], DL_DIMENSION_FLOP_PER_S);
    dl_rows_end(&rows, 0);
}

/* Sets the ends of the sustained factor's interval of 95 %; equal: unknown. */
static void sustained_bounds(const dl_shapes *shapes, double *low, double *high)
{
    const dl_estimate *factor = &shapes->sustained;
    *low = factor->value * exp(-1.96 * factor->error / factor->value);
    *high = factor->value * exp(1.96 * factor->error / factor->value);
}

static void print_layer(const dl_shapes *shapes, FILE *out)
{
    char text[32];
    double low, high;
    if (shapes->sustained.count == 0) {
        fprintf(out, "\nno layer was measured in a loop%s%s\n", shapes->layer_note[0] ? ": " : "",
                shapes->layer_note);
    } else {
        sustained_bounds(shapes, &low, &high);
        fprintf(out,
                "\na layer in a loop%s%s takes %.3f times the sum of its %d kernels (%.3f to %.3f, "
                "%lld rounds)\n",
                shapes->layer_note[0] ? " " : "", shapes->layer_note, shapes->sustained.value,
                shapes->layer_kernels, low, high, (long long)shapes->sustained.count);
    }
    if (shapes->launch_ns.count > 0)
        fprintf(out, "the host takes %s to launch a kernel\n",
                dl_amount_text(text, sizeof text, shapes->launch_ns.value, DL_DIMENSION_NS));
    fprintf(out, "spread shapes at the end take %.3f of their time at the start\n", shapes->drift);
    if (shapes->others_frac >= DL_SHAPES_OTHERS_FRAC)
        fprintf(out,
                "other programs used %.0f %% of the processors meanwhile: these times hold only "
                "while they run\n",
                100 * shapes->others_frac);
}

void dl_shapes_print(const dl_shapes *shapes, FILE *out)
{
    fprintf(out, "%s, ", shapes->device);
    if (shapes->on_cores)
        fprintf(out, "%lld core%s, ", (long long)shapes->threads, shapes->threads > 1 ? "s" : "");
    fprintf(out, "%s\n", dl_arithmetic_names[shapes->arithmetic]);
    print_fits(shapes, out);
    print_left_out(shapes, out);
    print_kinds(shapes, out);
    print_layer(shapes, out);
}

/* --- machine file ---------------------------------------------------------------------------- */

/* Appends the two numbers of a kind, if it was measured, after their relative standard errors. */
static void extend_line(char **text, const char *name, const char *rate, const char *unit,
                        const dl_shape_line *line)
{
    if (!(line->per_s.value > 0)) return;
    dl_extend(text, "; %.2g, %.2g\n%s_%s = %.6g%s, fitted\n%s_ns = %.6gns, fitted\n",
              100 * line->per_s.error_frac, 100 * line->fixed_ns.error_frac, name, rate,
              line->per_s.value, unit, name, line->fixed_ns.value);
}

static char *kernels_text(const dl_shapes *shapes, const char *model)
{
    char *text = dl_format("; Fitted by dlcal shapes to %s: %s, %s of %s. Relative standard errors "
                           "of flop rate, byte\n"
                           "; rate and fixed time in %%, and errors of the products of %s (batch "
                           "%s), which the fit has "
                           "not seen.\n[kernels %s %s]\n",
                           shapes->path, shapes->device, dl_arithmetic_names[shapes->arithmetic],
                           shapes->on_cores ? "its cores" : "the GPU", shapes->workload,
                           shapes->batch, model, dl_arithmetic_names[shapes->arithmetic]);
    if (shapes->others_frac >= DL_SHAPES_OTHERS_FRAC)
        dl_extend(&text, "; Other programs used %.0f %% of the processors meanwhile.\n",
                  100 * shapes->others_frac);
    for (int pass = 0; pass < DL_PRODUCT_PASSES; pass++) {
        const char *name = dl_product_pass_names[pass];
        const dl_shape_fit *f = &shapes->passes[pass];
        dl_extend(&text,
                  "; %.2g, %.2g, %.2g; left out %.1f mean, %.1f median, %.1f max\n"
                  "%s_flop_per_s = %.6gflop/s, fitted\n%s_bytes_per_s = %.6gB/s, fitted\n"
                  "%s_ns = %.6gns, fitted\n",
                  100 * f->flop_per_s.error_frac, 100 * f->bytes_per_s.error_frac,
                  100 * f->fixed_ns.error_frac, 100 * f->left_out.mean, 100 * f->left_out.median,
                  100 * f->left_out.max, name, f->flop_per_s.value, name, f->bytes_per_s.value,
                  name, f->fixed_ns.value);
    }
    for (int kind = 0; kind < DL_MOVES; kind++)
        extend_line(&text, dl_move_names[kind], "bytes_per_s", "B/s", &shapes->moves[kind]);
    if (shapes->attention[0].per_s.value > 0 && shapes->attention[1].per_s.value > 0) {
        extend_line(&text, "attention_forward", "flop_per_s", "flop/s", &shapes->attention[0]);
        extend_line(&text, "attention_backward", "flop_per_s", "flop/s", &shapes->attention[1]);
    }
    if (shapes->sustained.count > 0) {
        double low, high;
        sustained_bounds(shapes, &low, &high);
        DL_AUTOFREE char *bounds =
            high > low ? dl_format(" (%.4g to %.4g)", low, high) : dl_strdup("");
        dl_extend(
            &text,
            "; a layer of %d kernels in a loop, %lld rounds\n%ssustained = %.4g%s, measured\n",
            shapes->layer_kernels, (long long)shapes->sustained.count,
            shapes->on_cores ? "; of programs that allocate memory for each result:\n; " : "",
            shapes->sustained.value, bounds);
    }
    if (shapes->launch_ns.count > 0)
        dl_extend(&text, "launch_ns = %.6gns, measured\n", shapes->launch_ns.value);
    return text;
}

/* Returns the text of a machine whose only device consists of the cores that the bench used. */
static char *cores_text(const dl_shapes *shapes)
{
    const double rate = shapes->moves[DL_MOVE_PLAIN].per_s.value;
    return dl_format("; The cores that dlprof bench shapes used, as one device.\n[machine]\n"
                     "schema = 1\nname = %lld cores of %s\npeer = none\n\n[gpu_model cores]\n"
                     "memory_bytes = %.6g, measured\nmemory_bytes_per_s = %.6gB/s, fitted\n"
                     "fp32_flop_per_s = %.6gflop/s, fitted\n\n"
                     "[link memory]\nbytes_per_s = %.6gB/s, fitted\nlatency_ns = 0ns, assumed\n\n"
                     "[host]\nmemory_bytes_per_s = %.6gB/s, fitted\n\n"
                     "[gpus 0]\nmodel = cores\nparent = socket0\nlink = memory\n",
                     (long long)shapes->threads, shapes->device, shapes->memory_bytes, rate,
                     shapes->passes[DL_PRODUCT_FORWARD].flop_per_s.value, rate, rate);
}

dl_status dl_shapes_machine(const dl_shapes *shapes, const char *base, const char *base_name,
                            char **text, dl_error *err)
{
    DL_AUTOFREE char *before = NULL;
    dl_machine machine = {0};
    dl_status status = DL_OK;
    if (base == NULL && !shapes->on_cores) {
        return dl_error_set(
            err, DL_ERR_USAGE,
            "--machine is needed: a machine with this GPU (%s), to which its kernels are added",
            shapes->device);
    }
    before = base != NULL ? dl_strdup(base) : cores_text(shapes);
    status = dl_machine_read_text(&machine, base_name, before, strlen(before), err);
    if (status == DL_OK && machine.model_count != 1) {
        status = dl_error_set_at(err, DL_ERR_DATA, base_name, 0,
                                 "it has %d [gpu_model]s: one is needed, that of the trace",
                                 machine.model_count);
    }
    if (status == DL_OK && machine.models[0].kernels[shapes->arithmetic].known) {
        status = dl_error_set_at(err, DL_ERR_DATA, base_name, 0, "it has [kernels %s %s] already",
                                 machine.models[0].name, dl_arithmetic_names[shapes->arithmetic]);
    }
    if (status == DL_OK) {
        DL_AUTOFREE char *kernels = kernels_text(shapes, machine.models[0].name);
        *text = dl_format("%s\n%s", before, kernels);
    }
    dl_machine_free(&machine);
    if (status != DL_OK) return status;
    /* Check that dlsim can read the machine file. */
    DL_SCOPED(dl_machine) written = {0};
    status = dl_machine_read_text(&written, base_name, *text, strlen(*text), err);
    if (status != DL_OK) {
        free(*text);
        *text = NULL;
    }
    return status;
}
