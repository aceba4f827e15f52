#include "common/json.h"
#include "trace/summary.h"

/* ,"key": or "key": where the object has just been opened; a key that begins with '{' opens it. */
static void write_key(FILE *out, const char *key)
{
    if (key[0] == '{') {
        fputc('{', out);
        key++;
    } else {
        fputc(',', out);
    }
    dl_json_string(out, key);
    fputc(':', out);
}

static void write_number(FILE *out, const char *key, double value)
{
    write_key(out, key);
    dl_json_number(out, value);
}

static void write_text(FILE *out, const char *key, const char *text)
{
    write_key(out, key);
    dl_json_string(out, text);
}

static void write_distribution(FILE *out, const char *key, const dl_distribution *d)
{
    write_key(out, key);
    write_number(out, "{count", (double)d->count);
    write_number(out, "mean", d->mean);
    write_number(out, "sd", d->sd);
    write_number(out, "low", d->low);
    write_number(out, "p10", d->p10);
    write_number(out, "p50", d->p50);
    write_number(out, "p90", d->p90);
    write_number(out, "p99", d->p99);
    write_number(out, "high", d->high);
    fputc('}', out);
}

/* The histogram ends with its last bin that is not empty. */
static void write_staleness(FILE *out, const dl_staleness_summary *s)
{
    write_key(out, "staleness");
    if (s->count == 0) {
        fputs("null", out);
        return;
    }
    write_number(out, "{count", (double)s->count);
    write_number(out, "mean", s->mean);
    write_number(out, "sd", s->sd);
    write_number(out, "p50", (double)s->p50);
    write_number(out, "p90", (double)s->p90);
    write_number(out, "max", (double)s->max);
    write_key(out, "bins");
    int bins = s->max < DL_STALENESS_BINS ? (int)s->max + 1 : DL_STALENESS_BINS + 1;
    for (int bin = 0; bin < bins; bin++) {
        fputc(bin == 0 ? '[' : ',', out);
        dl_json_number(out, (double)s->bins[bin]);
    }
    fputs("]}", out);
}

/* The members of a worker behind an opened object. */
static void write_worker(FILE *out, const dl_worker_summary *worker)
{
    write_number(out, "warmup_steps", (double)worker->warmup_count);
    write_distribution(out, "step_ns", &worker->step_ns);
    write_number(out, "samples", (double)worker->samples);
    write_number(out, "samples_per_s", worker->samples_per_s);
    for (int p = 0; p < DL_PART_COUNT; p++) {
        char key[32];
        snprintf(key, sizeof key, "%s_frac", dl_part_name((dl_part)p));
        write_number(out, key, worker->part_frac[p]);
    }
    write_staleness(out, &worker->staleness);
    fputc('}', out);
}

static void write_head(const dl_summary *summary, FILE *out)
{
    const dl_trace *trace = summary->trace;
    write_text(out, "{path", trace->path);
    write_key(out, "complete");
    fputs(trace->complete ? "true" : "false", out);
    write_number(out, "bytes_ignored", (double)trace->bytes_ignored);
    write_number(out, "records", (double)trace->record_count);
    write_key(out, "meta");
    fputc('{', out);
    for (size_t i = 0; i < trace->meta_count; i++) {
        if (i > 0) fputc(',', out);
        dl_json_string(out, trace->meta[2 * i]);
        fputc(':', out);
        dl_json_string(out, trace->meta[2 * i + 1]);
    }
    fputc('}', out);
}

static void write_workers(const dl_summary *summary, FILE *out)
{
    write_key(out, "workers");
    fputc('[', out);
    for (size_t i = 0; i < summary->worker_count; i++) {
        if (i > 0) fputc(',', out);
        write_number(out, "{worker", summary->workers[i].worker);
        write_worker(out, &summary->workers[i]);
    }
    fputc(']', out);
    write_key(out, "total");
    write_number(out, "{workers", (double)summary->worker_count);
    write_worker(out, &summary->total);
}

static void write_operations(const dl_summary *summary, FILE *out)
{
    write_key(out, "operations");
    fputc('[', out);
    for (size_t i = 0; i < summary->operation_count; i++) {
        const dl_operation_summary *operation = &summary->operations[i];
        if (i > 0) fputc(',', out);
        write_text(out, "{name", operation->name);
        write_text(out, "kind", dl_record_kind_name(operation->kind));
        write_text(out, "phase", dl_phase_name(operation->phase));
        write_number(out, "count", (double)operation->count);
        write_number(out, "mean_ns", operation->mean_ns);
        write_number(out, "share_frac", operation->share_frac);
        fputc('}', out);
    }
    fputc(']', out);
}

static void write_copies(const dl_summary *summary, FILE *out)
{
    write_key(out, "copies");
    fputc('[', out);
    for (size_t i = 0; i < summary->copy_count; i++) {
        const dl_copy_summary *copy = &summary->copies[i];
        if (i > 0) fputc(',', out);
        write_text(out, "{phase", dl_phase_name(copy->phase));
        write_number(out, "count", (double)copy->count);
        write_number(out, "bytes", copy->bytes);
        write_number(out, "total_ns", copy->total_ns);
        write_number(out, "bytes_per_s", copy->bytes_per_s);
        fputc('}', out);
    }
    fputc(']', out);
}

static void write_benches(const dl_summary *summary, FILE *out)
{
    write_key(out, "benches");
    fputc('[', out);
    for (size_t i = 0; i < summary->bench_count; i++) {
        const dl_bench_summary *bench = &summary->benches[i];
        if (i > 0) fputc(',', out);
        write_text(out, "{name", bench->name);
        write_number(out, "bytes", (double)bench->bytes);
        write_number(out, "vectors", bench->vectors);
        write_number(out, "threads", bench->threads);
        write_number(out, "samples", bench->samples);
        write_distribution(out, "duration_ns", &bench->duration_ns);
        write_number(out, "bytes_per_s", bench->bytes_per_s);
        write_number(out, "samples_per_s", bench->samples_per_s);
        fputc('}', out);
    }
    fputc(']', out);
}

void dl_summary_write_json(const dl_summary *summary, FILE *out)
{
    write_head(summary, out);
    write_workers(summary, out);
    write_operations(summary, out);
    write_copies(summary, out);
    write_benches(summary, out);
    write_key(out, "warnings");
    fputc('[', out);
    for (size_t i = 0; i < summary->warning_count; i++) {
        if (i > 0) fputc(',', out);
        dl_json_string(out, summary->warnings[i]);
    }
    fputs("]}\n", out);
}
