#include "common/json.h"
#include "trace/activity/activity_summary.h"

static void write_head(const dl_activity_summary *summary, dl_json *to)
{
    const dl_trace *trace = summary->trace;
    dl_json_begin(to, NULL, '{');
    dl_json_members(to,
                    "path=%s complete=%hhd bytes_ignored=%g activities=%g host=%s pid=%s "
                    "command=%s rank=%s world_size=%s",
                    trace->path, trace->complete, (double)trace->bytes_ignored,
                    (double)trace->activity_count, summary->host, summary->pid, summary->command,
                    summary->rank, summary->world_size);
    dl_json_begin(to, "meta", '{');
    for (size_t i = 0; i < trace->meta_count; i++) {
        dl_json_text_item(to, trace->meta[2 * i], trace->meta[2 * i + 1]);
    }
    dl_json_end(to, '}');
}

static void write_time(dl_json *to, const dl_device_summary *device)
{
    const dl_device_timeline *t = &device->time;
    dl_json_object(to, "time",
                   "of=%s start_ns=%g span_ns=%g busy_ns=%g kernel_ns=%g compute_ns=%g "
                   "communication_ns=%g exposed_communication_ns=%g copy_ns=%g exposed_copy_ns=%g "
                   "idle_ns=%g launch_bound_ns=%g unknown_gap_ns=%g gaps=%g",
                   device->in_steps ? "steps" : "trace", (double)t->start_ns,
                   (double)(t->end_ns - t->start_ns), (double)t->busy_ns, (double)t->kernel_ns,
                   (double)t->compute_ns, (double)t->communication_ns,
                   (double)t->exposed_communication_ns, (double)t->copy_ns,
                   (double)t->exposed_copy_ns, (double)t->idle_ns, (double)t->launch_bound_ns,
                   (double)t->unknown_gap_ns, (double)t->gap_count);
}

static void write_steps(dl_json *to, const dl_device_summary *device)
{
    dl_json_begin(to, "steps", '{');
    dl_json_members(to, "method=%s warmup=%g other=%g", dl_step_method_name(device->step_method),
                    (double)device->warmup_steps, (double)device->other_steps);
    dl_distribution_write_json(to, "duration_ns", &device->step_ns);
    dl_json_members(to, "order_match_frac=%g similarity_frac=%g", device->step_order_match,
                    device->step_similarity);
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
        dl_json_members(to, "step_ns=%g step_low_ns=%g step_high_ns=%g share_frac=%g",
                        estimate->step_ns, estimate->step_low_ns, estimate->step_high_ns,
                        estimate->share_frac);
    }
    dl_json_end(to, '}');
}

/* An object of a list, or the member `name`. */
static void write_class(dl_json *to, const char *name, const char *class_name,
                        const dl_class_summary *class)
{
    dl_json_object(to, name, "class=%s count=%g total_ns=%g share_frac=%g", class_name,
                   (double)class->count, class->total_ns, class->share_frac);
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
        dl_json_object(to, NULL, "name=%s class=%s phase=%s count=%g total_ns=%g share_frac=%g",
                       k->name, dl_kernel_class_name(k->class), dl_phase_name(k->phase),
                       (double)k->count, k->total_ns, k->share_frac);
    }
    dl_json_end(to, ']');
}

static void write_transfers(dl_json *to, const dl_device_summary *device)
{
    dl_json_begin(to, "copies", '[');
    for (size_t i = 0; i < device->transfer_count; i++) {
        const dl_transfer_summary *t = &device->transfers[i];
        dl_json_object(
            to, NULL, "kind=%s direction=%s memory=%s count=%g bytes=%g total_ns=%g bytes_per_s=%g",
            dl_activity_kind_name(t->kind), dl_copy_direction_name(t->direction),
            dl_host_memory_name(t->memory), (double)t->count, t->bytes, t->total_ns,
            t->bytes_per_s);
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
        dl_json_members(to, "bytes=%g ranks=%u calls=%u", (double)c->bytes, c->ranks, c->calls);
        dl_distribution_write_json(to, "duration_ns", &c->duration_ns);
        dl_json_members(to, "algorithm_bytes_per_s=%g bus_bytes_per_s=%g best_bus_bytes_per_s=%g",
                        c->algorithm_bytes_per_s, c->bus_bytes_per_s, c->best_bus_bytes_per_s);
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
        dl_json_members(to, "device=%u name=%s", device->time.device, device->name);
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
        dl_json_object(to, NULL, "name=%s count=%g total_ns=%g longest_ns=%g", list->items[i].name,
                       (double)list->items[i].count, list->items[i].total_ns,
                       list->items[i].longest_ns);
    }
    dl_json_end(to, ']');
}

static void write_host(const dl_activity_host *host, dl_json *to)
{
    dl_json_begin(to, "host_time", '{');
    dl_json_members(to, "call_ns=%g sync_call_ns=%g", host->call_ns, host->sync_call_ns);
    write_host_list(to, "calls", &host->calls);
    write_host_list(to, "syncs", &host->syncs);
    write_host_list(to, "overheads", &host->overheads);
    dl_json_end(to, '}');
}

static void write_capture(const dl_capture_knowledge *capture, dl_json *to)
{
    dl_json_begin(to, "capture", '{');
    dl_json_members(to, "preset=%s cost_known=%hhd", capture->preset, capture->known);
    for (int i = 0; i < DL_CAPTURE_ITEM_COUNT && capture->known; i++) {
        const dl_capture_figure *figure = &capture->figures.items[i];
        dl_json_object(to, dl_capture_item_names[i], "ns=%g low_ns=%g high_ns=%g", figure->ns,
                       figure->low_ns, figure->high_ns);
    }
    if (!capture->known) dl_json_text_item(to, "reason", capture->text);
    dl_json_end(to, '}');
}

static void write_quality(const dl_trace_quality *q, dl_json *to)
{
    dl_json_begin(to, "quality", '{');
    dl_json_members(to, "stopped=%s takeover=%s", q->stopped, q->takeover);
    for (int loss = 0; loss < DL_LOSS_END; loss++)
        dl_json_number_item(to, dl_loss_name((dl_loss)loss), (double)q->losses[loss]);
    dl_json_members(to, "early_works=%g early_worst_ns=%g launched_works=%g works=%g",
                    (double)q->early_count, (double)q->early_worst_ns, (double)q->launched_count,
                    (double)q->work_count);
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
