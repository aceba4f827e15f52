#include <inttypes.h>
#include <string.h>

#include "common/units.h"
#include "trace/print.h"
#include "trace/summary.h"

enum { CELL_BYTES = 32, BAR_COLUMNS = 40 };

static void print_bytes(FILE *out, int columns, double bytes, const char *per)
{
    char cell[CELL_BYTES], all[CELL_BYTES + 8];
    snprintf(all, sizeof all, "%s%s", dl_format_bytes(cell, sizeof cell, bytes), per);
    fprintf(out, "%*s", columns, all);
}

static void print_head(const dl_summary *summary, FILE *out)
{
    const dl_trace *trace = summary->trace;
    dl_print_pair(out, "trace", trace->path);
    fprintf(out, "%-*s%zu, %s\n", DL_PRINT_KEY_COLUMNS, "records", trace->record_count,
            trace->complete ? "complete" : "incomplete");
    for (size_t i = 0; i < trace->meta_count; i++) {
        dl_print_pair(out, trace->meta[2 * i], trace->meta[2 * i + 1]);
    }
}

static void print_worker_label(FILE *out, const dl_summary *summary, size_t row)
{
    if (row < summary->worker_count) {
        fprintf(out, "%-7" PRIu32, summary->workers[row].worker);
    } else {
        fprintf(out, "%-7s", "all");
    }
}

/* Rows of the tables by worker: each worker, then all of them if there are several. */
static const dl_worker_summary *worker_row(const dl_summary *summary, size_t row)
{
    if (row < summary->worker_count) return &summary->workers[row];
    return row == summary->worker_count && row > 1 ? &summary->total : NULL;
}

static int part_columns(dl_part part)
{
    int columns = (int)strlen(dl_part_name(part));
    return columns > 8 ? columns : 8;
}

static void print_steps(const dl_summary *summary, FILE *out)
{
    const dl_worker_summary *w;
    fprintf(out, "\n%-7s%8s%8s%10s%10s%10s%10s%12s\n", "worker", "steps", "warm-up", "mean", "p50",
            "p99", "sd", "samples/s");
    for (size_t row = 0; (w = worker_row(summary, row)) != NULL; row++) {
        print_worker_label(out, summary, row);
        fprintf(out, "%8zu%8zu", w->step_ns.count, w->warmup_count);
        dl_print_ns(out, 10, w->step_ns.mean);
        dl_print_ns(out, 10, w->step_ns.p50);
        dl_print_ns(out, 10, w->step_ns.p99);
        dl_print_ns(out, 10, w->step_ns.sd);
        fprintf(out, "%12.1f\n", w->samples_per_s);
    }
}

static void print_parts(const dl_summary *summary, FILE *out)
{
    const dl_worker_summary *w;
    fprintf(out, "\n%% of the step\n%-7s", "worker");
    for (int p = 0; p < DL_PART_COUNT; p++) {
        fprintf(out, " %*s", part_columns((dl_part)p), dl_part_name((dl_part)p));
    }
    fputc('\n', out);
    for (size_t row = 0; (w = worker_row(summary, row)) != NULL; row++) {
        print_worker_label(out, summary, row);
        for (int p = 0; p < DL_PART_COUNT; p++) {
            fprintf(out, " %*.2f", part_columns((dl_part)p), 100 * w->part_frac[p]);
        }
        fputc('\n', out);
    }
}

static void print_operations(const dl_summary *summary, FILE *out)
{
    if (summary->operation_count == 0) return;
    fprintf(out, "\n%-26s%-10s%-10s%10s%12s%10s\n", "operation", "kind", "phase", "count", "mean",
            "% of step");
    for (size_t i = 0; i < summary->operation_count; i++) {
        const dl_operation_summary *o = &summary->operations[i];
        fprintf(out, "%-25s %-10s%-10s%10" PRIu64, o->name[0] != '\0' ? o->name : "-",
                dl_record_kind_name(o->kind),
                o->phase != DL_PHASE_NONE ? dl_phase_name(o->phase) : "-", o->count);
        dl_print_ns(out, 12, o->mean_ns);
        fprintf(out, "%10.2f\n", 100 * o->share_frac);
    }
}

static void print_copies(const dl_summary *summary, FILE *out)
{
    if (summary->copy_count == 0) return;
    fprintf(out, "\n%-10s%10s%14s%14s%12s%14s\n", "copies", "count", "bytes", "bytes each", "mean",
            "rate");
    for (size_t i = 0; i < summary->copy_count; i++) {
        const dl_copy_summary *c = &summary->copies[i];
        double count = (double)c->count;
        fprintf(out, "%-10s%10" PRIu64, dl_phase_name(c->phase), c->count);
        print_bytes(out, 14, c->bytes, "");
        print_bytes(out, 14, c->bytes / count, "");
        dl_print_ns(out, 12, c->total_ns / count);
        print_bytes(out, 14, c->bytes_per_s, "/s");
        fputc('\n', out);
    }
}

static void print_staleness(const dl_summary *summary, FILE *out)
{
    const dl_worker_summary *w;
    const dl_staleness_summary *all = &summary->total.staleness;
    if (all->count == 0) return;
    fprintf(out, "\nstaleness (updates between a worker's read and its own update)\n");
    fprintf(out, "%-7s%10s%10s%10s%10s%10s%10s\n", "worker", "updates", "mean", "sd", "p50", "p90",
            "max");
    for (size_t row = 0; (w = worker_row(summary, row)) != NULL; row++) {
        const dl_staleness_summary *s = &w->staleness;
        print_worker_label(out, summary, row);
        fprintf(out, "%10" PRIu64 "%10.3f%10.3f%10" PRId64 "%10" PRId64 "%10" PRId64 "\n", s->count,
                s->mean, s->sd, s->p50, s->p90, s->max);
    }
    uint64_t most = 0;
    for (int bin = 0; bin <= DL_STALENESS_BINS; bin++) {
        if (all->bins[bin] > most) most = all->bins[bin];
    }
    for (int bin = 0; bin <= DL_STALENESS_BINS; bin++) {
        if (all->bins[bin] == 0) continue;
        double share = (double)all->bins[bin];
        fprintf(out, "%5d%s%10" PRIu64 "%9.2f %% ", bin, bin == DL_STALENESS_BINS ? "+" : " ",
                all->bins[bin], 100 * share / (double)all->count);
        int columns = (int)(share / (double)most * BAR_COLUMNS + 0.5);
        for (int i = 0; i < columns; i++)
            fputc('#', out);
        fputc('\n', out);
    }
}

/* A parameter that does not apply is "-". */
static void print_parameter(FILE *out, uint32_t value)
{
    if (value > 0) {
        fprintf(out, "%8" PRIu32, value);
    } else {
        fprintf(out, "%8s", "-");
    }
}

static void print_benches(const dl_summary *summary, FILE *out)
{
    if (summary->bench_count == 0) return;
    fprintf(out, "\n%-8s%8s%8s%8s%8s%5s%8s%8s%8s%s\n", "bench", "bytes", "vectors", "threads",
            "samples", "n", "median", "p10", "p90", "  rate");
    for (size_t i = 0; i < summary->bench_count; i++) {
        const dl_bench_summary *b = &summary->benches[i];
        fprintf(out, "%-8s", b->name);
        if (b->bytes > 0) {
            print_bytes(out, 8, (double)b->bytes, "");
        } else {
            fprintf(out, "%8s", "-");
        }
        print_parameter(out, b->vectors);
        print_parameter(out, b->threads);
        print_parameter(out, b->samples);
        fprintf(out, "%5zu", b->duration_ns.count);
        dl_print_ns(out, 8, b->duration_ns.p50);
        dl_print_ns(out, 8, b->duration_ns.p10);
        dl_print_ns(out, 8, b->duration_ns.p90);
        if (b->bytes_per_s > 0) fprintf(out, "%6.1f GB/s", b->bytes_per_s * 1e-9);
        if (b->samples_per_s > 0) fprintf(out, "%6.0f/s", b->samples_per_s);
        fputc('\n', out);
    }
}

void dl_summary_print(const dl_summary *summary, FILE *out)
{
    print_head(summary, out);
    if (summary->worker_count > 0) {
        print_steps(summary, out);
        print_parts(summary, out);
    }
    print_operations(summary, out);
    print_copies(summary, out);
    print_staleness(summary, out);
    print_benches(summary, out);
    if (summary->warning_count > 0) fputc('\n', out);
    for (size_t i = 0; i < summary->warning_count; i++) {
        dl_print_pair(out, "warning", summary->warnings[i]);
    }
}
