#include "common/json.h"
#include "trace/activity/activity_summary.h"

static void write_head(const dl_activity_summary *summary, dl_json *to)
{
    const dl_trace *trace = summary->trace;
    dl_json_begin(to, NULL, '{');
    dl_json_text_item(to, "path", trace->path);
    dl_json_bool_item(to, "complete", trace->complete);
    dl_json_number_item(to, "bytes_ignored", (double)trace->bytes_ignored);
    dl_json_number_item(to, "activities", (double)trace->activity_count);
    dl_json_text_item(to, "host", summary->host);
    dl_json_text_item(to, "pid", summary->pid);
    dl_json_text_item(to, "command", summary->command);
    dl_json_text_item(to, "rank", summary->rank);
    dl_json_text_item(to, "world_size", summary->world_size);
    dl_json_begin(to, "meta", '{');
    for (size_t i = 0; i < trace->meta_count; i++) {
        dl_json_text_item(to, trace->meta[2 * i], trace->meta[2 * i + 1]);
    }
    dl_json_end(to, '}');
}

static void write_time(dl_json *to, const dl_device_summary *device)
{
    const dl_device_timeline *t = &device->time;
    dl_json_begin(to, "time", '{');
    dl_json_text_item(to, "of", device->in_steps ? "steps" : "trace");
    dl_json_number_item(to, "start_ns", (double)t->start_ns);
    dl_json_number_item(to, "span_ns", (double)(t->end_ns - t->start_ns));
    dl_json_number_item(to, "busy_ns", (double)t->busy_ns);
    dl_json_number_item(to, "kernel_ns", (double)t->kernel_ns);
    dl_json_number_item(to, "compute_ns", (double)t->compute_ns);
    dl_json_number_item(to, "communication_ns", (double)t->communication_ns);
    dl_json_number_item(to, "exposed_communication_ns", (double)t->exposed_communication_ns);
    dl_json_number_item(to, "copy_ns", (double)t->copy_ns);
    dl_json_number_item(to, "exposed_copy_ns", (double)t->exposed_copy_ns);
    dl_json_number_item(to, "idle_ns", (double)t->idle_ns);
    dl_json_number_item(to, "launch_bound_ns", (double)t->launch_bound_ns);
    dl_json_number_item(to, "unknown_gap_ns", (double)t->unknown_gap_ns);
    dl_json_number_item(to, "gaps", (double)t->gap_count);
    dl_json_end(to, '}');
}

static void write_steps(dl_json *to, const dl_device_summary *device)
{
    dl_json_begin(to, "steps", '{');
    dl_json_text_item(to, "method", dl_step_method_name(device->step_method));
    dl_json_number_item(to, "warmup", (double)device->warmup_steps);
    dl_json_number_item(to, "other", (double)device->other_steps);
    dl_distribution_write_json(to, "duration_ns", &device->step_ns);
    dl_json_number_item(to, "order_match_frac", device->step_order_match);
    dl_json_number_item(to, "similarity_frac", device->step_similarity);
    dl_json_end(to, '}');
}

/* An object without members where the cost is not known. */
static void write_estimate(dl_json *to, const dl_capture_estimate *estimate)
{
    dl_json_begin(to, "capture_cost", '{');
    for (int i = 0; i < DL_CAPTURE_PER_RECORD && estimate->steps > 0; i++) {
        char key[40];
        snprintf(key, sizeof key, "%s_per_step", dl_capture_item_names[i]);
        dl_json_number_item(to, key, estimate->per_step[i]);
    }
    if (estimate->steps > 0) {
        dl_json_number_item(to, "step_ns", estimate->step_ns);
        dl_json_number_item(to, "step_low_ns", estimate->step_low_ns);
        dl_json_number_item(to, "step_high_ns", estimate->step_high_ns);
        dl_json_number_item(to, "share_frac", estimate->share_frac);
    }
    dl_json_end(to, '}');
}

/* An object of a list, or the member `name`. */
static void write_class(dl_json *to, const char *name, const char *class_name,
                        const dl_class_summary *class)
{
    dl_json_begin(to, name, '{');
    dl_json_text_item(to, "class", class_name);
    dl_json_number_item(to, "count", (double)class->count);
    dl_json_number_item(to, "total_ns", class->total_ns);
    dl_json_number_item(to, "share_frac", class->share_frac);
    dl_json_end(to, '}');
}

static void write_kernels(dl_json *to, const dl_device_summary *device)
{
    dl_json_number_item(to, "kernel_total_ns", device->kernel_total_ns);
    dl_json_begin(to, "classes", '[');
    for (int c = 0; c < DL_KERNEL_CLASS_END; c++) {
        write_class(to, NULL, dl_kernel_class_name((dl_kernel_class)c), &device->classes[c]);
    }
    dl_json_end(to, ']');
    write_class(to, "graphs", "graph", &device->graphs);
    dl_json_begin(to, "kernels", '[');
    for (size_t i = 0; i < device->kernel_count; i++) {
        const dl_kernel_summary *k = &device->kernels[i];
        dl_json_begin(to, NULL, '{');
        dl_json_text_item(to, "name", k->name);
        dl_json_text_item(to, "class", dl_kernel_class_name(k->class));
        dl_json_text_item(to, "phase", dl_phase_name(k->phase));
        dl_json_number_item(to, "count", (double)k->count);
        dl_json_number_item(to, "total_ns", k->total_ns);
        dl_json_number_item(to, "share_frac", k->share_frac);
        dl_json_end(to, '}');
    }
    dl_json_end(to, ']');
}

static void write_transfers(dl_json *to, const dl_device_summary *device)
{
    dl_json_begin(to, "copies", '[');
    for (size_t i = 0; i < device->transfer_count; i++) {
        const dl_transfer_summary *t = &device->transfers[i];
        dl_json_begin(to, NULL, '{');
        dl_json_text_item(to, "kind", dl_activity_kind_name(t->kind));
        dl_json_text_item(to, "direction", dl_copy_direction_name(t->direction));
        dl_json_text_item(to, "memory", dl_host_memory_name(t->memory));
        dl_json_number_item(to, "count", (double)t->count);
        dl_json_number_item(to, "bytes", t->bytes);
        dl_json_number_item(to, "total_ns", t->total_ns);
        dl_json_number_item(to, "bytes_per_s", t->bytes_per_s);
        dl_json_end(to, '}');
    }
    dl_json_end(to, ']');
}

static void write_collectives(dl_json *to, const dl_device_summary *device)
{
    dl_json_begin(to, "collectives", '[');
    for (size_t i = 0; i < device->collective_count; i++) {
        const dl_collective_summary *c = &device->collectives[i];
        dl_json_begin(to, NULL, '{');
        dl_json_text_item(to, "name", c->name);
        if (c->algorithm[0] != '\0') dl_json_text_item(to, "algorithm", c->algorithm);
        dl_json_number_item(to, "bytes", (double)c->bytes);
        dl_json_number_item(to, "ranks", c->ranks);
        dl_json_number_item(to, "calls", c->calls);
        dl_distribution_write_json(to, "duration_ns", &c->duration_ns);
        dl_json_number_item(to, "algorithm_bytes_per_s", c->algorithm_bytes_per_s);
        dl_json_number_item(to, "bus_bytes_per_s", c->bus_bytes_per_s);
        dl_json_number_item(to, "best_bus_bytes_per_s", c->best_bus_bytes_per_s);
        dl_json_end(to, '}');
    }
    dl_json_end(to, ']');
}

static void write_devices(const dl_activity_summary *summary, dl_json *to)
{
    dl_json_begin(to, "devices", '[');
    for (size_t i = 0; i < summary->device_count; i++) {
        const dl_device_summary *device = &summary->devices[i];
        dl_json_begin(to, NULL, '{');
        dl_json_number_item(to, "device", device->time.device);
        dl_json_text_item(to, "name", device->name);
        write_time(to, device);
        write_steps(to, device);
        write_estimate(to, &device->capture);
        write_kernels(to, device);
        write_transfers(to, device);
        write_collectives(to, device);
        dl_json_end(to, '}');
    }
    dl_json_end(to, ']');
}

static void write_host_list(dl_json *to, const char *key, const dl_host_list *list)
{
    dl_json_begin(to, key, '[');
    for (size_t i = 0; i < list->count; i++) {
        dl_json_begin(to, NULL, '{');
        dl_json_text_item(to, "name", list->items[i].name);
        dl_json_number_item(to, "count", (double)list->items[i].count);
        dl_json_number_item(to, "total_ns", list->items[i].total_ns);
        dl_json_number_item(to, "longest_ns", list->items[i].longest_ns);
        dl_json_end(to, '}');
    }
    dl_json_end(to, ']');
}

static void write_host(const dl_activity_host *host, dl_json *to)
{
    dl_json_begin(to, "host_time", '{');
    dl_json_number_item(to, "call_ns", host->call_ns);
    dl_json_number_item(to, "sync_call_ns", host->sync_call_ns);
    write_host_list(to, "calls", &host->calls);
    write_host_list(to, "syncs", &host->syncs);
    write_host_list(to, "overheads", &host->overheads);
    dl_json_end(to, '}');
}

static void write_capture(const dl_capture_knowledge *capture, dl_json *to)
{
    dl_json_begin(to, "capture", '{');
    dl_json_text_item(to, "preset", capture->preset);
    dl_json_bool_item(to, "cost_known", capture->known);
    for (int i = 0; i < DL_CAPTURE_ITEM_COUNT && capture->known; i++) {
        const dl_capture_figure *figure = &capture->figures.items[i];
        dl_json_begin(to, dl_capture_item_names[i], '{');
        dl_json_number_item(to, "ns", figure->ns);
        dl_json_number_item(to, "low_ns", figure->low_ns);
        dl_json_number_item(to, "high_ns", figure->high_ns);
        dl_json_end(to, '}');
    }
    if (!capture->known) dl_json_text_item(to, "reason", capture->text);
    dl_json_end(to, '}');
}

static void write_quality(const dl_trace_quality *q, dl_json *to)
{
    dl_json_begin(to, "quality", '{');
    dl_json_text_item(to, "stopped", q->stopped);
    dl_json_text_item(to, "takeover", q->takeover);
    for (int loss = 0; loss < DL_LOSS_END; loss++)
        dl_json_number_item(to, dl_loss_name((dl_loss)loss), (double)q->losses[loss]);
    dl_json_number_item(to, "early_works", (double)q->early_count);
    dl_json_number_item(to, "early_worst_ns", (double)q->early_worst_ns);
    dl_json_number_item(to, "launched_works", (double)q->launched_count);
    dl_json_number_item(to, "works", (double)q->work_count);
    dl_json_end(to, '}');
}

void dl_activity_summary_write_json(const dl_activity_summary *summary, FILE *out)
{
    dl_json json = {out, false}, *to = &json;
    write_head(summary, to);
    write_devices(summary, to);
    write_host(&summary->host_time, to);
    write_quality(&summary->quality, to);
    write_capture(&summary->capture, to);
    dl_json_begin(to, "warnings", '[');
    for (size_t i = 0; i < summary->warning_count; i++) {
        dl_json_text_item(to, NULL, summary->warnings[i]);
    }
    dl_json_end(to, ']');
    dl_json_end(to, '}');
    fputc('\n', out);
}
