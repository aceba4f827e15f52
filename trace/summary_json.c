#include "common/json.h"
#include "trace/summary.h"

/* The histogram ends with its last bin that is not empty. */
static void write_staleness(dl_json *to, const dl_staleness_summary *s)
{
    if (s->count == 0) {
        dl_json_null_item(to, "staleness");
        return;
    }
    dl_json_begin(to, "staleness", '{');
    dl_json_members(to, "count=%g mean=%g sd=%g p50=%g p90=%g max=%g", (double)s->count, s->mean,
                    s->sd, (double)s->p50, (double)s->p90, (double)s->max);
    dl_json_begin(to, "bins", '[');
    int bins = s->max < DL_STALENESS_BINS ? (int)s->max + 1 : DL_STALENESS_BINS + 1;
    for (int bin = 0; bin < bins; bin++)
        dl_json_number_item(to, NULL, (double)s->bins[bin]);
    dl_json_end(to, ']');
    dl_json_end(to, '}');
}

/* The members of a worker behind an opened object. */
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
    dl_json_begin(to, "workers", '[');
    for (size_t i = 0; i < summary->worker_count; i++) {
        dl_json_begin(to, NULL, '{');
        dl_json_number_item(to, "worker", summary->workers[i].worker);
        write_worker(to, &summary->workers[i]);
    }
    dl_json_end(to, ']');
    dl_json_begin(to, "total", '{');
    dl_json_number_item(to, "workers", (double)summary->worker_count);
    write_worker(to, &summary->total);
}

static void write_operations(const dl_summary *summary, dl_json *to)
{
    dl_json_begin(to, "operations", '[');
    for (size_t i = 0; i < summary->operation_count; i++) {
        const dl_operation_summary *operation = &summary->operations[i];
        dl_json_object(to, NULL, "name=%s kind=%s phase=%s count=%g mean_ns=%g share_frac=%g",
                       operation->name, dl_record_kind_name(operation->kind),
                       dl_phase_name(operation->phase), (double)operation->count,
                       operation->mean_ns, operation->share_frac);
    }
    dl_json_end(to, ']');
}

static void write_copies(const dl_summary *summary, dl_json *to)
{
    dl_json_begin(to, "copies", '[');
    for (size_t i = 0; i < summary->copy_count; i++) {
        const dl_copy_summary *copy = &summary->copies[i];
        dl_json_object(to, NULL, "phase=%s count=%g bytes=%g total_ns=%g bytes_per_s=%g",
                       dl_phase_name(copy->phase), (double)copy->count, copy->bytes, copy->total_ns,
                       copy->bytes_per_s);
    }
    dl_json_end(to, ']');
}

static void write_benches(const dl_summary *summary, dl_json *to)
{
    dl_json_begin(to, "benches", '[');
    for (size_t i = 0; i < summary->bench_count; i++) {
        const dl_bench_summary *bench = &summary->benches[i];
        dl_json_begin(to, NULL, '{');
        dl_json_members(to, "name=%s bytes=%g vectors=%u threads=%u samples=%u", bench->name,
                        (double)bench->bytes, bench->vectors, bench->threads, bench->samples);
        dl_distribution_write_json(to, "duration_ns", &bench->duration_ns);
        dl_json_members(to, "bytes_per_s=%g samples_per_s=%g", bench->bytes_per_s,
                        bench->samples_per_s);
        dl_json_end(to, '}');
    }
    dl_json_end(to, ']');
}

void dl_summary_write_json(const dl_summary *summary, FILE *out)
{
    dl_json json = {out, false}, *to = &json;
    write_head(summary, to);
    write_workers(summary, to);
    write_operations(summary, to);
    write_copies(summary, to);
    write_benches(summary, to);
    dl_json_begin(to, "warnings", '[');
    for (size_t i = 0; i < summary->warning_count; i++) {
        dl_json_text_item(to, NULL, summary->warnings[i]);
    }
    dl_json_end(to, ']');
    dl_json_end(to, '}');
    fputc('\n', out);
}
