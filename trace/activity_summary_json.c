#include "common/json.h"
#include "trace/activity_summary.h"

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

static void write_bool(FILE *out, const char *key, bool value)
{
    write_key(out, key);
    fputs(value ? "true" : "false", out);
}

/* Between the elements of an array. */
static void write_comma(FILE *out, size_t i)
{
    if (i > 0) fputc(',', out);
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

static void write_head(const dl_activity_summary *summary, FILE *out)
{
    const dl_trace *trace = summary->trace;
    write_text(out, "{path", trace->path);
    write_bool(out, "complete", trace->complete);
    write_number(out, "bytes_ignored", (double)trace->bytes_ignored);
    write_number(out, "activities", (double)trace->activity_count);
    write_text(out, "host", summary->host);
    write_text(out, "pid", summary->pid);
    write_text(out, "command", summary->command);
    write_text(out, "rank", summary->rank);
    write_text(out, "world_size", summary->world_size);
    write_key(out, "meta");
    fputc('{', out);
    for (size_t i = 0; i < trace->meta_count; i++) {
        write_comma(out, i);
        dl_json_string(out, trace->meta[2 * i]);
        fputc(':', out);
        dl_json_string(out, trace->meta[2 * i + 1]);
    }
    fputc('}', out);
}

static void write_time(FILE *out, const dl_device_summary *device)
{
    const dl_device_timeline *t = &device->time;
    write_key(out, "time");
    write_text(out, "{of", device->in_steps ? "steps" : "trace");
    write_number(out, "start_ns", (double)t->start_ns);
    write_number(out, "span_ns", (double)(t->end_ns - t->start_ns));
    write_number(out, "busy_ns", (double)t->busy_ns);
    write_number(out, "kernel_ns", (double)t->kernel_ns);
    write_number(out, "compute_ns", (double)t->compute_ns);
    write_number(out, "communication_ns", (double)t->communication_ns);
    write_number(out, "exposed_communication_ns", (double)t->exposed_communication_ns);
    write_number(out, "copy_ns", (double)t->copy_ns);
    write_number(out, "exposed_copy_ns", (double)t->exposed_copy_ns);
    write_number(out, "idle_ns", (double)t->idle_ns);
    write_number(out, "launch_bound_ns", (double)t->launch_bound_ns);
    write_number(out, "unknown_gap_ns", (double)t->unknown_gap_ns);
    write_number(out, "gaps", (double)t->gap_count);
    fputc('}', out);
}

static void write_steps(FILE *out, const dl_device_summary *device)
{
    write_key(out, "steps");
    write_text(out, "{method", dl_step_method_name(device->step_method));
    write_number(out, "warmup", (double)device->warmup_steps);
    write_number(out, "other", (double)device->other_steps);
    write_distribution(out, "duration_ns", &device->step_ns);
    write_number(out, "order_match_frac", device->step_order_match);
    write_number(out, "similarity_frac", device->step_similarity);
    fputc('}', out);
}

/* The members of a class behind its name, and the end of the object. */
static void write_class(FILE *out, const char *name, const dl_class_summary *class)
{
    write_text(out, "{class", name);
    write_number(out, "count", (double)class->count);
    write_number(out, "total_ns", class->total_ns);
    write_number(out, "share_frac", class->share_frac);
    fputc('}', out);
}

static void write_kernels(FILE *out, const dl_device_summary *device)
{
    write_number(out, "kernel_total_ns", device->kernel_total_ns);
    write_key(out, "classes");
    fputc('[', out);
    for (int c = 0; c < DL_KERNEL_CLASS_END; c++) {
        write_comma(out, (size_t)c);
        write_class(out, dl_kernel_class_name((dl_kernel_class)c), &device->classes[c]);
    }
    fputs("]", out);
    write_key(out, "graphs");
    write_class(out, "graph", &device->graphs);
    write_key(out, "kernels");
    fputc('[', out);
    for (size_t i = 0; i < device->kernel_count; i++) {
        const dl_kernel_summary *k = &device->kernels[i];
        write_comma(out, i);
        write_text(out, "{name", k->name);
        write_text(out, "class", dl_kernel_class_name(k->class));
        write_text(out, "phase", dl_phase_name(k->phase));
        write_number(out, "count", (double)k->count);
        write_number(out, "total_ns", k->total_ns);
        write_number(out, "share_frac", k->share_frac);
        fputc('}', out);
    }
    fputc(']', out);
}

static void write_transfers(FILE *out, const dl_device_summary *device)
{
    write_key(out, "copies");
    fputc('[', out);
    for (size_t i = 0; i < device->transfer_count; i++) {
        const dl_transfer_summary *t = &device->transfers[i];
        write_comma(out, i);
        write_text(out, "{kind", dl_activity_kind_name(t->kind));
        write_text(out, "direction", dl_copy_direction_name(t->direction));
        write_text(out, "memory", dl_host_memory_name(t->memory));
        write_number(out, "count", (double)t->count);
        write_number(out, "bytes", t->bytes);
        write_number(out, "total_ns", t->total_ns);
        write_number(out, "bytes_per_s", t->bytes_per_s);
        fputc('}', out);
    }
    fputc(']', out);
}

static void write_collectives(FILE *out, const dl_device_summary *device)
{
    write_key(out, "collectives");
    fputc('[', out);
    for (size_t i = 0; i < device->collective_count; i++) {
        const dl_collective_summary *c = &device->collectives[i];
        write_comma(out, i);
        write_text(out, "{name", c->name);
        write_number(out, "bytes", (double)c->bytes);
        write_number(out, "ranks", c->ranks);
        write_number(out, "calls", c->calls);
        write_distribution(out, "duration_ns", &c->duration_ns);
        write_number(out, "algorithm_bytes_per_s", c->algorithm_bytes_per_s);
        write_number(out, "bus_bytes_per_s", c->bus_bytes_per_s);
        write_number(out, "best_bus_bytes_per_s", c->best_bus_bytes_per_s);
        fputc('}', out);
    }
    fputc(']', out);
}

static void write_devices(const dl_activity_summary *summary, FILE *out)
{
    write_key(out, "devices");
    fputc('[', out);
    for (size_t i = 0; i < summary->device_count; i++) {
        const dl_device_summary *device = &summary->devices[i];
        write_comma(out, i);
        write_number(out, "{device", device->time.device);
        write_text(out, "name", device->name);
        write_time(out, device);
        write_steps(out, device);
        write_kernels(out, device);
        write_transfers(out, device);
        write_collectives(out, device);
        fputc('}', out);
    }
    fputc(']', out);
}

static void write_host_list(FILE *out, const char *key, const dl_host_list *list)
{
    write_key(out, key);
    fputc('[', out);
    for (size_t i = 0; i < list->count; i++) {
        write_comma(out, i);
        write_text(out, "{name", list->items[i].name);
        write_number(out, "count", (double)list->items[i].count);
        write_number(out, "total_ns", list->items[i].total_ns);
        write_number(out, "longest_ns", list->items[i].longest_ns);
        fputc('}', out);
    }
    fputc(']', out);
}

static void write_host(const dl_activity_host *host, FILE *out)
{
    write_key(out, "host_time");
    write_number(out, "{call_ns", host->call_ns);
    write_number(out, "sync_call_ns", host->sync_call_ns);
    write_host_list(out, "calls", &host->calls);
    write_host_list(out, "syncs", &host->syncs);
    write_host_list(out, "overheads", &host->overheads);
    fputc('}', out);
}

static void write_quality(const dl_trace_quality *q, FILE *out)
{
    write_key(out, "quality");
    write_text(out, "{stopped", q->stopped);
    write_text(out, "takeover", q->takeover);
    for (int loss = 0; loss < DL_LOSS_END; loss++)
        write_number(out, dl_loss_name((dl_loss)loss), (double)q->losses[loss]);
    write_number(out, "early_works", (double)q->early_count);
    write_number(out, "early_worst_ns", (double)q->early_worst_ns);
    write_number(out, "launched_works", (double)q->launched_count);
    write_number(out, "works", (double)q->work_count);
    fputc('}', out);
}

void dl_activity_summary_write_json(const dl_activity_summary *summary, FILE *out)
{
    write_head(summary, out);
    write_devices(summary, out);
    write_host(&summary->host_time, out);
    write_quality(&summary->quality, out);
    write_key(out, "warnings");
    fputc('[', out);
    for (size_t i = 0; i < summary->warning_count; i++) {
        write_comma(out, i);
        dl_json_string(out, summary->warnings[i]);
    }
    fputs("]}\n", out);
}
