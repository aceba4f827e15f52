#include "trace/training/summary.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/json.h"
#include "common/rows.h"
#include "common/sort.h"
#include "common/units.h"
#include "trace/activity/summary.h"

/* Share of the workers' time between steps above which a warning is added. */
#define BETWEEN_STEPS_FRAC 0.01

/* Returns the least value that at least `percent` % of sorted[count] do not exceed. */
static int64_t least_value(const double *sorted, size_t count, size_t percent)
{
    return (int64_t)sorted[(count * percent + 99) / 100 - 1];
}

static void sum_staleness(dl_staleness_summary *s, const dl_step *steps, size_t count)
{
    DL_AUTOFREE double *values = dl_calloc(count, sizeof *values, "staleness");
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        int64_t staleness = steps[i].staleness;
        if (steps[i].warmup || staleness < 0) continue;
        values[used++] = (double)staleness;
        s->bins[staleness < DL_STALENESS_BINS ? staleness : DL_STALENESS_BINS]++;
        if (staleness > s->max) s->max = staleness;
    }
    if (used > 0) {
        dl_distribution d = dl_distribution_of(values, used);
        s->count = used;
        s->mean = d.mean;
        s->sd = d.sd;
        s->p50 = least_value(values, used, 50);
        s->p90 = least_value(values, used, 90);
    }
}

/* Fills `worker` from steps[count] of one worker or of all workers. */
static void sum_steps(dl_worker_summary *worker, const dl_step *steps, size_t count)
{
    DL_AUTOFREE double *durations_ns = dl_calloc(count, sizeof *durations_ns, "step times");
    double total_ns = 0;
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        worker->warmup_count += steps[i].warmup;
        if (steps[i].warmup) continue;
        worker->samples += steps[i].samples;
        durations_ns[used++] = (double)steps[i].duration_ns;
        total_ns += (double)steps[i].duration_ns;
        for (int p = 0; p < DL_PART_COUNT; p++) {
            worker->part_frac[p] += (double)steps[i].part_ns[p];
        }
    }
    worker->step_ns = dl_distribution_of(durations_ns, used);
    for (int p = 0; p < DL_PART_COUNT; p++)
        worker->part_frac[p] /= total_ns > 0 ? total_ns : 1;
    if (total_ns > 0) worker->samples_per_s = (double)worker->samples / dl_ns_to_s(total_ns);
    sum_staleness(&worker->staleness, steps, count);
}

/* Samples per second of all workers, over the time in which any of them is in a step, from the end
 * of the last warm-up step. A step in progress at that time contributes its remaining fraction. */
static double total_samples_per_s(const dl_steps *steps)
{
    int64_t since_ns = 0;
    double samples = 0;
    DL_AUTOFREE dl_interval *spans = dl_calloc(steps->count, sizeof *spans, "steps");
    size_t count = 0;
    for (size_t i = 0; i < steps->count; i++) {
        const dl_step *step = &steps->steps[i];
        const int64_t end_ns = step->start_ns + step->duration_ns;
        if (step->warmup && end_ns > since_ns) since_ns = end_ns;
    }
    for (size_t i = 0; i < steps->count; i++) {
        const dl_step *step = &steps->steps[i];
        const int64_t start_ns = step->start_ns > since_ns ? step->start_ns : since_ns;
        const int64_t end_ns = step->start_ns + step->duration_ns;
        if (step->warmup || end_ns <= start_ns) continue;
        samples += step->samples * (double)(end_ns - start_ns) / (double)step->duration_ns;
        spans[count++] = (dl_interval){start_ns, end_ns};
    }
    const double time_ns = (double)dl_intervals_total(spans, dl_intervals_unite(spans, count));
    return time_ns > 0 ? samples / dl_ns_to_s(time_ns) : 0;
}

static void sum_workers(dl_summary *summary, const dl_steps *steps)
{
    summary->workers = dl_calloc(steps->worker_count, sizeof *summary->workers, "workers");
    sum_steps(&summary->total, steps->steps, steps->count);
    summary->total.samples_per_s = total_samples_per_s(steps);
    for (uint32_t w = 0; w < steps->worker_count; w++) {
        size_t first = steps->worker_first[w], count = steps->worker_first[w + 1] - first;
        if (count == 0) continue;
        dl_worker_summary *worker = &summary->workers[summary->worker_count++];
        worker->worker = w;
        sum_steps(worker, steps->steps + first, count);
    }
}

/* Returns the table entry of a record's kind, name and phase. `slots` holds 1 + the index of each
 * entry. */
static dl_operation_summary *find_operation(dl_summary *summary, uint32_t *slots,
                                            const dl_record *record)
{
    size_t slot = (record->name * (size_t)DL_RECORD_BENCH + record->kind) * (DL_PHASE_PULL + 1) +
                  record->phase;
    if (slots[slot] == 0) {
        DL_APPEND(summary->operations, summary->operation_count, "operations") =
            (dl_operation_summary){.kind = record->kind,
                                   .phase = record->phase,
                                   .name = dl_trace_name(summary->trace, record)};
        slots[slot] = (uint32_t)summary->operation_count;
    }
    return &summary->operations[slots[slot] - 1];
}

static void sum_operations(dl_summary *summary, const dl_steps *steps)
{
    size_t kinds = (size_t)DL_RECORD_BENCH * (DL_PHASE_PULL + 1);
    DL_AUTOFREE uint32_t *slots =
        dl_calloc(summary->trace->string_count * kinds, sizeof *slots, "operations");
    double total_ns = 0;
    for (size_t s = 0; s < steps->count; s++) {
        const dl_step *step = &steps->steps[s];
        if (step->warmup) continue;
        total_ns += (double)step->duration_ns;
        for (size_t i = 0; i + 1 < step->record_count; i++) {
            const dl_record *record = dl_steps_record(steps, summary->trace, step, i);
            dl_operation_summary *operation = find_operation(summary, slots, record);
            operation->count++;
            operation->mean_ns += (double)record->duration_ns;
        }
    }
    for (size_t i = 0; i < summary->operation_count; i++) {
        dl_operation_summary *operation = &summary->operations[i];
        operation->share_frac = total_ns > 0 ? operation->mean_ns / total_ns : 0;
        operation->mean_ns /= (double)operation->count;
    }
}

static void sum_copies(dl_summary *summary, const dl_steps *steps)
{
    dl_copy_summary by_phase[DL_PHASE_PULL + 1] = {0};
    for (size_t s = 0; s < steps->count; s++) {
        const dl_step *step = &steps->steps[s];
        if (step->warmup) continue;
        for (size_t i = 0; i + 1 < step->record_count; i++) {
            const dl_record *record = dl_steps_record(steps, summary->trace, step, i);
            if (record->kind != DL_RECORD_COPY) continue;
            dl_copy_summary *copy = &by_phase[record->phase];
            copy->count++;
            copy->bytes += (double)record->bytes;
            copy->total_ns += (double)record->duration_ns;
        }
    }
    summary->copies = dl_calloc(DL_PHASE_PULL + 1, sizeof *summary->copies, "copies");
    for (int phase = 0; phase <= DL_PHASE_PULL; phase++) {
        dl_copy_summary *copy = &by_phase[phase];
        if (copy->count == 0) continue;
        copy->phase = (dl_phase)phase;
        if (copy->total_ns > 0) copy->bytes_per_s = copy->bytes / dl_ns_to_s(copy->total_ns);
        summary->copies[summary->copy_count++] = *copy;
    }
}

/* A BENCH record with its name, for sorting by parameters. */
typedef struct bench_sample {
    const char *name;
    const dl_record *record;
} bench_sample;

DL_ORDER(by_parameters, bench_sample, DL_BY_TEXT(name), DL_BY(record->bytes),
         DL_BY(record->vectors), DL_BY(record->threads), DL_BY(record->samples));

static dl_bench_summary sum_bench(const bench_sample *samples, size_t count, double *durations_ns)
{
    const dl_record *record = samples[0].record;
    dl_bench_summary bench = {.name = samples[0].name,
                              .bytes = record->bytes,
                              .vectors = record->vectors,
                              .threads = record->threads,
                              .samples = record->samples};
    for (size_t i = 0; i < count; i++)
        durations_ns[i] = (double)samples[i].record->duration_ns;
    bench.duration_ns = dl_distribution_of(durations_ns, count);
    double median_s = dl_ns_to_s(bench.duration_ns.p50);
    if (median_s <= 0) return bench;
    if (strcmp(bench.name, "copy") == 0) {
        bench.bytes_per_s = (double)bench.bytes / median_s;
    } else if (strcmp(bench.name, "average") == 0 || strcmp(bench.name, "update") == 0) {
        bench.bytes_per_s = (double)bench.bytes * (bench.vectors + 1.0) / median_s;
    } else if (strcmp(bench.name, "step") == 0) {
        bench.samples_per_s = bench.samples / median_s;
    }
    return bench;
}

static void sum_benches(dl_summary *summary)
{
    const dl_trace *trace = summary->trace;
    size_t count = 0;
    DL_AUTOFREE bench_sample *samples = NULL;
    for (size_t i = 0; i < trace->record_count; i++) {
        const dl_record *record = &trace->records[i];
        if (record->kind != DL_RECORD_BENCH) continue;
        DL_APPEND(samples, count, "bench samples") =
            (bench_sample){dl_trace_name(trace, record), record};
    }
    DL_AUTOFREE double *durations_ns = dl_calloc(count, sizeof *durations_ns, "bench samples");
    dl_sort(samples, count, sizeof *samples, by_parameters);
    DL_GROUPS (first, end, count, by_parameters(&samples[first], &samples[end]) == 0) {
        DL_APPEND(summary->benches, summary->bench_count, "benches") =
            sum_bench(samples + first, end - first, durations_ns);
    }
}

static void warn_about_file(dl_summary *summary)
{
    dl_notes *warnings = &summary->warnings;
    const dl_trace *trace = summary->trace;
    const char *failed = dl_trace_meta(trace, "failed");
    if (failed != NULL) dl_notes_add(warnings, "the run failed: %s", failed);
    if (!trace->complete) {
        dl_notes_add(warnings,
                     "the trace is incomplete (killed run, full disk or damage); %" PRIu64
                     " bytes after its last whole chunk are ignored",
                     trace->bytes_ignored);
    } else if (trace->bytes_ignored > 0) {
        dl_notes_add(warnings, "%" PRIu64 " bytes after the end of the trace are ignored",
                     trace->bytes_ignored);
    }
}

/* Time between the steps of all workers as a fraction of their runs, from first start to last
 * end. */
static double between_steps_frac(const dl_steps *steps)
{
    double inside_ns = 0, whole_ns = 0;
    for (size_t i = 0; i < steps->count; i++)
        inside_ns += (double)steps->steps[i].duration_ns;
    for (uint32_t w = 0; w < steps->worker_count; w++) {
        if (steps->worker_first[w] == steps->worker_first[w + 1]) continue;
        const dl_step *first = &steps->steps[steps->worker_first[w]];
        const dl_step *last = &steps->steps[steps->worker_first[w + 1] - 1];
        whole_ns += (double)last->start_ns + (double)last->duration_ns - (double)first->start_ns;
    }
    return whole_ns > 0 ? 1 - inside_ns / whole_ns : 0;
}

static void warn_about_steps(dl_summary *summary, const dl_steps *steps)
{
    dl_notes *warnings = &summary->warnings;
    if (steps->count == 0) {
        if (summary->bench_count == 0) dl_notes_add(warnings, "the trace has no steps");
        return;
    }
    if (steps->overlap_count > 0) {
        dl_notes_add(warnings,
                     "in %zu of %zu steps the records cover more than the step: they "
                     "overlap, and the split is wrong there",
                     steps->overlap_count, steps->count);
    }
    if (steps->outside_count > 0) {
        dl_notes_add(warnings, "%zu records lie in no step and are not counted",
                     steps->outside_count);
    }
    double between_frac = between_steps_frac(steps);
    if (between_frac > BETWEEN_STEPS_FRAC) {
        dl_notes_add(warnings,
                     "%.1f %% of the workers' time lies between steps and is not "
                     "counted",
                     100 * between_frac);
    }
    if (summary->total.samples == 0) {
        dl_notes_add(warnings, "the steps do not say how many samples they had");
    }
    /* In a run over ranks, the trace is that of one rank, with its part of the workers. */
    const int64_t expected = dl_trace_meta_int(summary->trace, "workers", 0, INT64_MAX, -1);
    const int64_t parts = dl_trace_meta_int(summary->trace, "world_size", 1, INT32_MAX, 1);
    if (expected >= 0 && expected / parts != (int64_t)summary->worker_count) {
        dl_notes_add(warnings, "the run had %" PRId64 " workers, %zu of them have steps here",
                     expected, summary->worker_count);
    }
}

void dl_summary_init(dl_summary *summary, const dl_trace *trace)
{
    *summary = (dl_summary){.trace = trace};
    DL_SCOPED(dl_steps) steps = {0};
    dl_steps_init(&steps, trace);
    sum_workers(summary, &steps);
    sum_operations(summary, &steps);
    sum_copies(summary, &steps);
    sum_benches(summary);
    warn_about_file(summary);
    warn_about_steps(summary, &steps);
}

void dl_summary_free(dl_summary *summary)
{
    dl_notes_free(&summary->warnings);
    free(summary->workers);
    free(summary->operations);
    free(summary->copies);
    free(summary->benches);
    *summary = (dl_summary){0};
}

enum { BAR_COLUMNS = 40 };

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

#define WORKER_BYTES 16

/* Returns "0", "1", ... or "all", in text. */
static const char *worker_label(char text[WORKER_BYTES], const dl_summary *summary, size_t row)
{
    if (row == summary->worker_count) return "all";
    snprintf(text, WORKER_BYTES, "%" PRIu32, summary->workers[row].worker);
    return text;
}

#define WORKER(summary, row) worker_label((char[WORKER_BYTES]){0}, (summary), (row))

/* Value for display; NaN (not shown) for 0, which does not apply or is unknown. */
static double known(double value)
{
    return value > 0 ? value : (double)NAN;
}

/* Returns a row of the tables by worker: each worker, then the total if there are several workers;
 * NULL after the last row. */
static const dl_worker_summary *worker_row(const dl_summary *summary, size_t row)
{
    if (row < summary->worker_count) return &summary->workers[row];
    return row == summary->worker_count && row > 1 ? &summary->total : NULL;
}

static void print_steps(const dl_summary *summary, FILE *out)
{
    const dl_worker_summary *w;
    dl_rows to = {.out = out};
    dl_rows_begin(&to, NULL, "");
    for (size_t row = 0; (w = worker_row(summary, row)) != NULL; row++) {
        dl_rows_add(&to,
                    "|worker=%-s |steps=%zu |warm-up=%zu |mean=%gns |p50=%gns |p99=%gns |sd=%gns "
                    "|samples/s=%.1f",
                    WORKER(summary, row), w->step_ns.count, w->warmup_count, w->step_ns.mean,
                    w->step_ns.p50, w->step_ns.p99, w->step_ns.sd, w->samples_per_s);
    }
    dl_rows_end(&to, 0);
}

static void print_parts(const dl_summary *summary, FILE *out)
{
    const dl_worker_summary *w;
    dl_rows to = {.out = out};
    dl_rows_begin(&to, NULL, "% of the step");
    for (size_t row = 0; (w = worker_row(summary, row)) != NULL; row++) {
        const double *frac = w->part_frac;
        dl_rows_add(&to,
                    "|worker=%-s |compute=%.2f%% |dispatch=%.2f%% |communication=%.2f%% "
                    "|averaging=%.2f%% |waiting=%.2f%% |input=%.2f%% |slowdown=%.2f%%",
                    WORKER(summary, row), frac[DL_PART_COMPUTE], frac[DL_PART_DISPATCH],
                    frac[DL_PART_COMMUNICATION], frac[DL_PART_AVERAGING], frac[DL_PART_WAITING],
                    frac[DL_PART_INPUT], frac[DL_PART_SLOWDOWN]);
    }
    dl_rows_end(&to, 0);
}

static void put_operations(dl_rows *to, const dl_summary *summary)
{
    dl_rows_begin(to, "operations", "");
    for (size_t i = 0; i < summary->operation_count; i++) {
        const dl_operation_summary *o = &summary->operations[i];
        const char *phase = dl_phase_name(o->phase);
        dl_rows_add(to,
                    "name|=%s |operation=%-s kind=%-s phase|=%s |phase=%-s count=%" PRIu64
                    " mean_ns|mean=%gns share_frac|%% of step=%.2f%%",
                    o->name, o->name[0] != '\0' ? o->name : "-", dl_record_kind_name(o->kind),
                    phase, o->phase != DL_PHASE_NONE ? phase : "-", o->count, o->mean_ns,
                    o->share_frac);
    }
    dl_rows_end(to, 0);
}

static void put_copies(dl_rows *to, const dl_summary *summary)
{
    dl_rows_begin(to, "copies", "");
    for (size_t i = 0; i < summary->copy_count; i++) {
        const dl_copy_summary *c = &summary->copies[i];
        const double count = (double)c->count;
        dl_rows_add(to,
                    "phase|copies=%-s count=%" PRIu64 " bytes|=%g total_ns|=%g bytes_per_s|=%g "
                    "|bytes=%gB |bytes each=%gB |mean=%gns |rate=%gB/s",
                    dl_phase_name(c->phase), c->count, c->bytes, c->total_ns, c->bytes_per_s,
                    known(c->bytes), known(c->bytes / count), c->total_ns / count,
                    known(c->bytes_per_s));
    }
    dl_rows_end(to, 0);
}

static void print_staleness(const dl_summary *summary, FILE *out)
{
    const dl_worker_summary *w;
    const dl_staleness_summary *all = &summary->total.staleness;
    if (all->count == 0) return;
    dl_rows to = {.out = out};
    dl_rows_begin(&to, NULL, "staleness (updates between a worker's read and its own update)");
    for (size_t row = 0; (w = worker_row(summary, row)) != NULL; row++) {
        const dl_staleness_summary *s = &w->staleness;
        dl_rows_add(&to,
                    "|worker=%-s |updates=%" PRIu64 " |mean=%.3f |sd=%.3f |p50=%lld |p90=%lld "
                    "|max=%lld",
                    WORKER(summary, row), s->count, s->mean, s->sd, (long long)s->p50,
                    (long long)s->p90, (long long)s->max);
    }
    dl_rows_end(&to, 0);
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

static void print_benches(const dl_summary *summary, FILE *out)
{
    dl_rows to = {.out = out};
    dl_rows_begin(&to, NULL, "");
    for (size_t i = 0; i < summary->bench_count; i++) {
        const dl_bench_summary *b = &summary->benches[i];
        const dl_distribution *d = &b->duration_ns;
        DL_AUTOFREE char *rate = b->samples_per_s > 0 ? dl_format("%.0f/s", b->samples_per_s)
                                 : b->bytes_per_s > 0
                                     ? dl_format("%s/s", DL_BYTES_TEXT(b->bytes_per_s))
                                     : dl_strdup("");
        dl_rows_add(&to,
                    "|bench=%-s |bytes=%gB |vectors=%.0f |threads=%.0f |samples=%.0f |n=%zu "
                    "|median=%gns |p10=%gns |p90=%gns |rate=%s",
                    b->name, known((double)b->bytes), known(b->vectors), known(b->threads),
                    known(b->samples), d->count, d->p50, d->p10, d->p90, rate);
    }
    dl_rows_end(&to, 0);
}

void dl_summary_print(const dl_summary *summary, FILE *out)
{
    print_head(summary, out);
    if (summary->worker_count > 0) {
        print_steps(summary, out);
        print_parts(summary, out);
    }
    put_operations(&(dl_rows){.out = out}, summary);
    put_copies(&(dl_rows){.out = out}, summary);
    print_staleness(summary, out);
    print_benches(summary, out);
    dl_notes_print(&summary->warnings, "\n", "warning          ", out);
}

/* Writes staleness statistics; the histogram ends with its last non-empty bin. */
static void write_staleness(dl_json *to, const dl_staleness_summary *s)
{
    if (s->count == 0) {
        dl_json_null_item(to, "staleness");
        return;
    }
    dl_json_begin(to, "staleness", '{');
    dl_json_members(to, "count=%g mean=%g sd=%g p50=%g p90=%g max=%g", (double)s->count, s->mean,
                    s->sd, (double)s->p50, (double)s->p90, (double)s->max);
    const size_t bins = s->max < DL_STALENESS_BINS ? (size_t)s->max + 1 : DL_STALENESS_BINS + 1;
    DL_JSON_LIST (to, "bins", bin, bins)
        dl_json_number_item(to, NULL, (double)s->bins[bin]);
    dl_json_end(to, '}');
}

/* Writes a worker's members into the open object, and closes it. */
static void write_worker(dl_json *to, const dl_worker_summary *worker)
{
    dl_json_number_item(to, "warmup_steps", (double)worker->warmup_count);
    dl_distribution_write_json(to, "step_ns", &worker->step_ns);
    dl_json_members(to, "samples=%g samples_per_s=%g", (double)worker->samples,
                    worker->samples_per_s);
    for (int p = 0; p < DL_PART_COUNT; p++) {
        char key[32];
        snprintf(key, sizeof key, "%s_frac", dl_part_name((dl_part)p));
        dl_json_number_item(to, key, worker->part_frac[p]);
    }
    write_staleness(to, &worker->staleness);
    dl_json_end(to, '}');
}

static void write_head(const dl_summary *summary, dl_json *to)
{
    const dl_trace *trace = summary->trace;
    dl_json_begin(to, NULL, '{');
    dl_json_members(to, "path=%s complete=%hhd bytes_ignored=%g records=%g", trace->path,
                    trace->complete, (double)trace->bytes_ignored, (double)trace->record_count);
    dl_json_begin(to, "meta", '{');
    for (size_t i = 0; i < trace->meta_count; i++) {
        dl_json_text_item(to, trace->meta[2 * i], trace->meta[2 * i + 1]);
    }
    dl_json_end(to, '}');
}

static void write_workers(const dl_summary *summary, dl_json *to)
{
    DL_JSON_LIST (to, "workers", i, summary->worker_count) {
        dl_json_begin(to, NULL, '{');
        dl_json_number_item(to, "worker", summary->workers[i].worker);
        write_worker(to, &summary->workers[i]);
    }
    dl_json_begin(to, "total", '{');
    dl_json_number_item(to, "workers", (double)summary->worker_count);
    write_worker(to, &summary->total);
}

static void write_benches(const dl_summary *summary, dl_json *to)
{
    DL_JSON_LIST (to, "benches", i, summary->bench_count) {
        const dl_bench_summary *bench = &summary->benches[i];
        dl_json_begin(to, NULL, '{');
        dl_json_members(to, "name=%s bytes=%g vectors=%u threads=%u samples=%u", bench->name,
                        (double)bench->bytes, bench->vectors, bench->threads, bench->samples);
        dl_distribution_write_json(to, "duration_ns", &bench->duration_ns);
        dl_json_members(to, "bytes_per_s=%g samples_per_s=%g", bench->bytes_per_s,
                        bench->samples_per_s);
        dl_json_end(to, '}');
    }
}

void dl_summary_write_json(const dl_summary *summary, FILE *out)
{
    dl_json json = {out, false}, *to = &json;
    write_head(summary, to);
    write_workers(summary, to);
    put_operations(&(dl_rows){.json = to}, summary);
    put_copies(&(dl_rows){.json = to}, summary);
    write_benches(summary, to);
    dl_notes_write_json(to, "warnings", &summary->warnings);
    dl_json_end(to, '}');
    fputc('\n', out);
}
