#include "profiler/bench/overhead_report.h"

#include <stdlib.h>

#include "common/alloc.h"
#include "common/units.h"

#define CELL_BYTES 32

static void print_training(const dl_overhead_report *report, FILE *out)
{
    const dl_overhead *overhead = report->training;
    char step[CELL_BYTES], extra[CELL_BYTES], low[CELL_BYTES], high[CELL_BYTES];
    fprintf(out, "%s, batch %d, 1 worker: %d pairs of runs of %lld steps, %.0f records a step\n",
            report->model, report->batch, overhead->pairs, (long long)overhead->steps,
            overhead->records_per_step);
    fprintf(out, "step without a trace  %s\n", dl_format_ns(step, sizeof step, overhead->step_ns));
    fprintf(out, "recording adds        %s a step, %.0f %% interval %s to %s\n",
            dl_format_ns(extra, sizeof extra, overhead->extra_ns), 100 * DL_OVERHEAD_CONFIDENCE,
            dl_format_ns(low, sizeof low, overhead->low_ns),
            dl_format_ns(high, sizeof high, overhead->high_ns));
    fprintf(out, "                      %.2f %% of the step, interval %.2f to %.2f %%\n",
            100 * overhead->extra_ns / overhead->step_ns,
            100 * overhead->low_ns / overhead->step_ns,
            100 * overhead->high_ns / overhead->step_ns);
    fprintf(out, "                      %.0f ns a record\n",
            overhead->extra_ns / overhead->records_per_step);
}

static void print_nvtx(const dl_overhead_report *report, FILE *out)
{
    if (report->nvtx == NULL) {
        fprintf(out, "NVTX of other programs is not measured: %s\n", report->nvtx_reason);
        return;
    }
    fprintf(out, "recording another program's NVTX, one thread:\n");
    for (int i = 0; i < DL_CAPTURE_COST_COUNT; i++) {
        char added[CELL_BYTES], low[CELL_BYTES], high[CELL_BYTES];
        fprintf(out, "%-29s adds %s, %.0f %% interval %s to %s\n", dl_capture_case_names[i],
                dl_format_ns(added, sizeof added, report->nvtx[i].added_ns),
                100 * DL_OVERHEAD_CONFIDENCE, dl_format_ns(low, sizeof low, report->nvtx[i].low_ns),
                dl_format_ns(high, sizeof high, report->nvtx[i].high_ns));
    }
}

static void print_figures(const dl_launch_cost *cost, int variant, FILE *out)
{
    fprintf(out, "%-8s", dl_launch_variant_names[variant]);
    for (int i = 0; i < DL_CAPTURE_ITEM_COUNT; i++) {
        if (i == DL_CAPTURE_PER_RECORD && cost->records_per_launch[variant] == 0) continue;
        fprintf(out, " %13.0f", cost->figures[variant].items[i].ns);
    }
    fprintf(out, "\n%-8s", "");
    for (int i = 0; i < DL_CAPTURE_ITEM_COUNT; i++) {
        char interval[CELL_BYTES];
        if (i == DL_CAPTURE_PER_RECORD && cost->records_per_launch[variant] == 0) continue;
        const dl_capture_figure *figure = &cost->figures[variant].items[i];
        snprintf(interval, sizeof interval, "%.0f..%.0f", figure->low_ns, figure->high_ns);
        fprintf(out, " %13s", interval);
    }
    fputc('\n', out);
}

static void print_cuda(const dl_overhead_report *report, FILE *out)
{
    const dl_launch_cost *cost = report->cuda;
    if (cost == NULL) {
        fprintf(out, "CUDA's launches are not measured: %s\n", report->cuda_reason);
        return;
    }
    const dl_capture_figures *figures = &cost->figures[DL_LAUNCH_LIGHT];
    fprintf(out, "recording another program's CUDA on %s, %lld repetitions:\n", figures->device,
            (long long)figures->repetitions);
    fprintf(out,
            "ns that are added to a call, and their %.0f %% intervals; behind it the ns of\n"
            "other threads for a record\n%-8s",
            100 * DL_OVERHEAD_CONFIDENCE, "");
    for (int i = 0; i < DL_CAPTURE_ITEM_COUNT; i++)
        fprintf(out, " %13s", dl_capture_item_names[i]);
    fprintf(out, "\n%-8s", "bare");
    for (int i = 0; i < DL_CAPTURE_PER_RECORD; i++)
        fprintf(out, " %13.0f", cost->bare_ns[i]);
    fputc('\n', out);
    for (int v = DL_LAUNCH_NVTX; v < DL_LAUNCH_VARIANT_COUNT; v++)
        print_figures(cost, v, out);
}

void dl_overhead_report_print(const dl_overhead_report *report, FILE *out)
{
    print_training(report, out);
    print_nvtx(report, out);
    print_cuda(report, out);
}

static void write_number(dl_trace_writer *writer, const char *key, double value)
{
    char text[CELL_BYTES];
    snprintf(text, sizeof text, "%.9g", value);
    dl_trace_writer_meta(writer, key, text);
}

void dl_overhead_report_write(const dl_overhead_report *report, dl_trace_writer *writer)
{
    const dl_overhead *training = report->training;
    write_number(writer, "record_ns", training->extra_ns / training->records_per_step);
    write_number(writer, "record_low_ns", training->low_ns / training->records_per_step);
    write_number(writer, "record_high_ns", training->high_ns / training->records_per_step);
    write_number(writer, "pairs", training->pairs);
    for (int v = DL_LAUNCH_NVTX; v < DL_LAUNCH_VARIANT_COUNT; v++) {
        char key[64];
        snprintf(key, sizeof key, DL_CAPTURE_COST_KEY ".%s", dl_launch_variant_names[v]);
        char *text = report->cuda != NULL
                         ? dl_capture_figures_text(&report->cuda->figures[v])
                         : dl_format(DL_CAPTURE_COST_UNKNOWN " (%s)", report->cuda_reason);
        dl_trace_writer_meta(writer, key, text);
        free(text);
    }
}
