#include "trace/activity/summary.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/json.h"
#include "common/units.h"
#include "trace/activity/demangle.h"
#include "trace/print.h"

enum { LABEL_BYTES = 128 };

/* Left-aligned; the middle of what is longer is cut out, as dl_cut_middle does. */
static void print_label(FILE *out, int columns, const char *text)
{
    char *label = dl_strdup(text);
    dl_cut_middle(label, (size_t)columns - 1);
    fprintf(out, "%-*s", columns, label);
    free(label);
}

/* A kernel's name: what is too long loses its namespaces, then the middle of the frame before '<',
 * since what the frame runs gives more. */
static void print_kernel_label(FILE *out, int columns, const char *name)
{
    char label[2 * DL_SHORT_NAME_CHARS];
    size_t room = (size_t)columns - 1;
    const char *frame = name, *scope, *inner;
    while (strlen(frame) > room && (scope = strstr(frame, "::")) != NULL)
        frame = scope + 2;
    inner = strchr(frame, '<');
    if (strlen(frame) > room && inner != NULL && strlen(inner) + 4 <= room) {
        snprintf(label, sizeof label, "%.*s", (int)(inner - frame), frame);
        dl_cut_middle(label, room - strlen(inner));
        strcat(label, inner);
        frame = label;
    }
    print_label(out, columns, frame);
}

static double percent(double part, double whole)
{
    return whole > 0 ? 100 * part / whole : 0;
}

static void print_left_out(FILE *out, size_t count, size_t top)
{
    if (count > top) fprintf(out, "and %zu more\n", count - top);
}

static void print_head(const dl_activity_summary *summary, FILE *out)
{
    char text[LABEL_BYTES];
    dl_print_pair(out, "trace", summary->trace->path);
    fprintf(out, "%-*s%zu, %s\n", DL_PRINT_KEY_COLUMNS, "activities",
            summary->trace->activity_count, summary->trace->complete ? "complete" : "incomplete");
    if (summary->host[0] != '\0') dl_print_pair(out, "host", summary->host);
    if (summary->pid[0] != '\0') dl_print_pair(out, "process", summary->pid);
    if (summary->rank[0] != '\0') {
        bool of = summary->world_size[0] != '\0';
        snprintf(text, sizeof text, "%s%s%s", summary->rank, of ? " of " : "", summary->world_size);
        dl_print_pair(out, "rank", text);
    }
    if (summary->command[0] != '\0') dl_print_pair(out, "command", summary->command);
    const char *samples = dl_trace_meta(summary->trace, "batch_samples");
    if (samples != NULL) {
        const size_t passes = summary->cpu.step_count > 0 ? summary->cpu.passes : 1;
        char times[40] = "";
        if (passes > 1) snprintf(times, sizeof times, ", %zu times a step", passes);
        snprintf(text, sizeof text, "%s samples%s, by the inputs of %s", samples, times,
                 dl_trace_meta_text(summary->trace, "batch_samples_of"));
        dl_print_pair(out, "batch", text);
    }
    for (size_t i = 0; i < summary->device_count; i++) {
        const dl_device_summary *d = &summary->devices[i];
        snprintf(text, sizeof text, "device %" PRIu32, d->time.device);
        if (d->name[0] != '\0') dl_print_pair(out, text, d->name);
    }
}

static void print_time(const dl_device_timeline *t, FILE *out)
{
    const double span_ns = (double)(t->end_ns - t->start_ns);
    fprintf(out, "%10s%7.1f%8.1f%7.1f%8.1f%7.1f%8.1f%7.1f%8.1f\n", DL_NS_TEXT(span_ns),
            percent((double)t->busy_ns, span_ns), percent((double)t->compute_ns, span_ns),
            percent((double)t->communication_ns, span_ns),
            percent((double)t->exposed_communication_ns, span_ns),
            percent((double)t->copy_ns, span_ns), percent((double)t->exposed_copy_ns, span_ns),
            percent((double)t->idle_ns, span_ns), percent((double)t->launch_bound_ns, span_ns));
}

static void print_times(const dl_activity_summary *summary, FILE *out)
{
    fprintf(out, "\n%% of the span; exposed: not hidden by compute; launch: idle for lack of it\n");
    fprintf(out, "%-8s%10s%7s%8s%7s%8s%7s%8s%7s%8s\n", "device", "span", "busy", "compute", "comm",
            "exposed", "copies", "exposed", "idle", "launch");
    for (size_t i = 0; i < summary->device_count; i++) {
        const dl_device_summary *d = &summary->devices[i];
        fprintf(out, "%-7" PRIu32 "%s", d->time.device, d->in_steps ? " " : "*");
        print_time(&d->time, out);
    }
    for (size_t i = 0; i < summary->device_count; i++) {
        if (summary->devices[i].in_steps) continue;
        fprintf(out, "* the whole trace, start-up too; the others from first to last step\n");
        return;
    }
}

static void print_steps_head(FILE *out)
{
    fprintf(out, "\n%-7s%7s%8s%7s%10s%10s%10s%7s%7s %s\n", "device", "steps", "warm-up", "other",
            "p50", "p90", "sd", "order", "alike", "found");
}

static void print_steps(const dl_activity_summary *summary, FILE *out)
{
    const dl_host_steps *host = &summary->host_steps;
    bool head = false;
    if (host->method != DL_STEPS_NONE) {
        print_steps_head(out);
        fprintf(out, "%-7s%7zu%8zu%7zu%10s%10s%10s%7s%7s %s\n", "host", host->step_ns.count,
                host->warmup_steps, host->other_steps, DL_NS_TEXT(host->step_ns.p50),
                DL_NS_TEXT(host->step_ns.p90), DL_NS_TEXT(host->step_ns.sd), "-", "-",
                dl_step_method_name(host->method));
        return;
    }
    for (size_t i = 0; i < summary->device_count; i++) {
        const dl_device_summary *d = &summary->devices[i];
        if (d->step_method == DL_STEPS_NONE) continue;
        if (!head) print_steps_head(out);
        head = true;
        fprintf(out, "%-7" PRIu32 "%7zu%8zu%7zu%10s%10s%10s%7.3f%7.3f %s\n", d->time.device,
                d->step_ns.count, d->warmup_steps, d->other_steps, DL_NS_TEXT(d->step_ns.p50),
                DL_NS_TEXT(d->step_ns.p90), DL_NS_TEXT(d->step_ns.sd), d->step_order_match,
                d->step_similarity, dl_step_method_name(d->step_method));
    }
}

static void print_class(FILE *out, const char *name, const dl_class_summary *class)
{
    if (class->count == 0) return;
    fprintf(out, "%-16s%10" PRIu64 "%12s%12s%8.2f\n", name, class->count,
            DL_NS_TEXT(class->total_ns), DL_NS_TEXT(class->total_ns / (double)class->count),
            100 * class->share_frac);
}

static void print_classes(const dl_device_summary *device, FILE *out)
{
    fprintf(out, "\n%-16s%10s%12s%12s%8s\n", "class", "count", "total", "mean", "%");
    for (int c = DL_KERNEL_OTHER + 1; c < DL_KERNEL_CLASS_END; c++) {
        print_class(out, dl_kernel_class_name((dl_kernel_class)c), &device->classes[c]);
    }
    print_class(out, dl_kernel_class_name(DL_KERNEL_OTHER), &device->classes[DL_KERNEL_OTHER]);
    print_class(out, "whole graphs", &device->graphs);
}

static void print_kernels(const dl_device_summary *device, size_t top, FILE *out)
{
    fprintf(out, "\n%-34s%-14s%8s%9s%9s%6s\n", "kernel", "class", "count", "total", "mean", "%");
    for (size_t i = 0; i < device->kernel_count && i < top; i++) {
        const dl_kernel_summary *k = &device->kernels[i];
        print_kernel_label(out, 34, k->name);
        fprintf(out, "%-14s%8" PRIu64 "%9s%9s%6.1f\n", dl_kernel_class_name(k->class), k->count,
                DL_NS_TEXT(k->total_ns), DL_NS_TEXT(k->total_ns / (double)k->count),
                100 * k->share_frac);
    }
    print_left_out(out, device->kernel_count, top);
}

static void print_transfers(const dl_device_summary *device, FILE *out)
{
    if (device->transfer_count == 0) return;
    fprintf(out, "\n%-9s%-10s%9s%11s%12s%10s%13s\n", "copies", "memory", "count", "bytes",
            "bytes each", "mean", "rate");
    for (size_t i = 0; i < device->transfer_count; i++) {
        const dl_transfer_summary *t = &device->transfers[i];
        bool set = t->kind == DL_ACTIVITY_MEMSET;
        fprintf(out, "%-9s%-10s%9" PRIu64, set ? "memset" : dl_copy_direction_name(t->direction),
                t->memory == DL_MEMORY_UNKNOWN ? "-" : dl_host_memory_name(t->memory), t->count);
        dl_print_bytes(out, 11, t->bytes, "");
        dl_print_bytes(out, 12, t->bytes / (double)t->count, "");
        fprintf(out, "%10s", DL_NS_TEXT(t->total_ns / (double)t->count));
        dl_print_bytes(out, 13, t->bytes_per_s, "/s");
        fputc('\n', out);
    }
}

static void print_collectives(const dl_device_summary *device, size_t top, FILE *out)
{
    char label[LABEL_BYTES];
    if (device->collective_count == 0) return;
    fprintf(out, "\n%-17s%9s%6s%8s%9s%9s%11s%11s\n", "collective", "bytes", "ranks", "count", "p50",
            "least", "bus rate", "best");
    for (size_t i = 0; i < device->collective_count && i < top; i++) {
        const dl_collective_summary *c = &device->collectives[i];
        snprintf(label, sizeof label, "%s", c->name[0] != '\0' ? c->name : "unknown");
        if (c->calls > 1) {
            snprintf(label, sizeof label, "%s x%" PRIu32, c->name, c->calls);
        }
        if (c->algorithm[0] != '\0') {
            snprintf(label, sizeof label, "%s %s", c->name, c->algorithm);
        }
        print_label(out, 17, label);
        dl_print_bytes(out, 9, (double)c->bytes, "");
        snprintf(label, sizeof label, "%" PRIu32, c->ranks);
        fprintf(out, "%6s%8zu%9s%9s", c->ranks > 0 ? label : "-", c->duration_ns.count,
                DL_NS_TEXT(c->duration_ns.p50), DL_NS_TEXT(c->duration_ns.low));
        dl_print_bytes(out, 11, c->bus_bytes_per_s, "/s");
        dl_print_bytes(out, 11, c->best_bus_bytes_per_s, "/s");
        fputc('\n', out);
    }
    print_left_out(out, device->collective_count, top);
}

static void print_host_list(const dl_host_list *list, const char *title, size_t top, FILE *out)
{
    if (list->count == 0) return;
    fprintf(out, "\n%-34s%8s%10s%9s%9s%10s\n", title, "count", "total", "p50", "mean", "longest");
    for (size_t i = 0; i < list->count && i < top; i++) {
        const dl_host_summary *h = &list->items[i];
        print_label(out, 34, h->name[0] != '\0' ? h->name : "-");
        fprintf(out, "%8" PRIu64 "%10s%9s%9s%10s\n", h->count, DL_NS_TEXT(h->total_ns),
                DL_NS_TEXT(h->p50_ns), DL_NS_TEXT(h->total_ns / (double)h->count),
                DL_NS_TEXT(h->longest_ns));
    }
    print_left_out(out, list->count, top);
}

static void print_host(const dl_activity_host *host, size_t top, FILE *out)
{
    print_host_list(&host->calls, "call", top, out);
    if (host->calls.count > 0) {
        fprintf(out, "threads in calls %s, of it waiting %s\n", DL_NS_TEXT(host->call_ns),
                DL_NS_TEXT(host->sync_call_ns));
    }
    print_host_list(&host->syncs, "waited for", top, out);
    print_host_list(&host->overheads, "profiler's own time", top, out);
}

/* Steps on cores, split by what the training thread did, and their collectives. */
static void print_cpu(const dl_activity_summary *summary, size_t top, FILE *out)
{
    const dl_cpu_training *cpu = &summary->cpu;
    if (cpu->step_count == 0) return;
    const dl_distribution steps = dl_cpu_training_steps(cpu);
    char text[LABEL_BYTES];
    size_t count = 0;
    snprintf(text, sizeof text, "training on cores, thread %" PRIu32, cpu->thread);
    fprintf(out, "\n%-34s%8s%12s%12s%8s\n", text, "", "mean", "sd", "%");
    for (int p = 0; p < DL_CPU_PARTS; p++) {
        const dl_distribution part = dl_cpu_training_part(cpu, (dl_cpu_part)p);
        if (part.high <= 0) continue;
        const bool waits = p == DL_CPU_PART_INPUT && cpu->waits_for_loaders;
        fprintf(out, "%-42s%12s%12s%8.1f\n",
                waits ? "waiting for input from loaders" : dl_cpu_part_names[p],
                DL_NS_TEXT(part.mean), DL_NS_TEXT(part.sd), percent(part.mean, steps.mean));
    }
    snprintf(text, sizeof text, "%zu steps of %zu, by %s", steps.count, cpu->step_count,
             dl_step_method_name(summary->cpu_method));
    fprintf(out, "%-42s%12s%12s%8.1f\n", text, DL_NS_TEXT(steps.mean), DL_NS_TEXT(steps.sd),
            percent(steps.mean, steps.mean));
    dl_cpu_collectives *groups = dl_cpu_training_collectives(cpu, &count);
    if (count > 0) {
        fprintf(out, "\n%-17s%9s%6s%8s%9s%9s  %s\n", "collective", "bytes", "ranks", "a step",
                "p50", "least", "called after, of the backward pass");
    }
    for (size_t i = 0; i < count && i < top; i++) {
        const dl_cpu_collectives *g = &groups[i];
        print_label(out, 17, g->name);
        dl_print_bytes(out, 9, (double)g->bytes, "");
        snprintf(text, sizeof text, "%" PRIu32, g->ranks);
        fprintf(out, "%6s%8.2f%9s%9s", g->ranks > 0 ? text : "-", g->per_step,
                DL_NS_TEXT(g->duration_ns.p50), DL_NS_TEXT(g->duration_ns.low));
        if (g->ready_frac >= 0) {
            fprintf(out, "  %.1f %%\n", 100 * g->ready_frac);
        } else {
            fprintf(out, "  -\n");
        }
    }
    print_left_out(out, count, top);
    free(groups);
}

/* One device's line: what its steps hold, and what that comes to. */
static void print_capture_estimate(const dl_device_summary *device, FILE *out)
{
    const dl_capture_estimate *e = &device->capture;
    char text[4 * LABEL_BYTES];
    if (e->steps == 0) return;
    snprintf(
        text, sizeof text,
        "device %" PRIu32 ": %.4g kernels, %.4g copies, %.4g events and %.4g waits per step: %s "
        "(95 %% interval %s to %s), %.2f %% of it if the host bounds it",
        device->time.device, e->per_step[DL_CAPTURE_PER_KERNEL], e->per_step[DL_CAPTURE_PER_COPY],
        e->per_step[DL_CAPTURE_PER_EVENT], e->per_step[DL_CAPTURE_PER_SYNC], DL_NS_TEXT(e->step_ns),
        DL_NS_TEXT(e->step_low_ns), DL_NS_TEXT(e->step_high_ns), 100 * e->share_frac);
    dl_print_pair(out, "", text);
}

/* Only of recordings of our own. */
static void print_capture(const dl_activity_summary *summary, FILE *out)
{
    const dl_capture_knowledge *capture = &summary->capture;
    char text[2 * LABEL_BYTES + DL_CAPTURE_NAME_BYTES];
    if (capture->preset[0] == '\0') return;
    if (!capture->known) {
        snprintf(text, sizeof text, "%s; its cost is %s", capture->preset,
                 capture->text[0] != '\0' ? capture->text : DL_CAPTURE_COST_UNKNOWN);
    } else {
        const dl_capture_figure *items = capture->figures.items;
        snprintf(text, sizeof text,
                 "%s; adds %.0f ns to a kernel's launch, %.0f a copy's, %.0f an event's, %.0f to "
                 "a wait; elsewhere %.0f ns per record",
                 capture->preset, items[DL_CAPTURE_PER_KERNEL].ns, items[DL_CAPTURE_PER_COPY].ns,
                 items[DL_CAPTURE_PER_EVENT].ns, items[DL_CAPTURE_PER_SYNC].ns,
                 items[DL_CAPTURE_PER_RECORD].ns);
    }
    fputc('\n', out);
    dl_print_pair(out, "recorded as", text);
    for (size_t i = 0; i < summary->device_count; i++)
        print_capture_estimate(&summary->devices[i], out);
}

void dl_activity_summary_print(const dl_activity_summary *summary, size_t top, FILE *out)
{
    print_head(summary, out);
    if (summary->device_count > 0) print_times(summary, out);
    print_steps(summary, out);
    for (size_t i = 0; i < summary->device_count; i++) {
        const dl_device_summary *device = &summary->devices[i];
        if (summary->device_count > 1) fprintf(out, "\ndevice %" PRIu32, device->time.device);
        if (device->kernel_total_ns > 0) {
            print_classes(device, out);
            print_kernels(device, top, out);
        }
        print_transfers(device, out);
        print_collectives(device, top, out);
    }
    print_cpu(summary, top, out);
    print_host(&summary->host_time, top, out);
    print_capture(summary, out);
    dl_notes_print(&summary->warnings, "\n", "warning          ", out);
}

static void print_compared(const dl_device_summary *device, FILE *out)
{
    const dl_device_timeline *t = &device->time;
    const double span_ns = (double)(t->end_ns - t->start_ns);
    fprintf(out, "%-4" PRIu32 "%10s%10s%7.1f%8.1f%8.1f%8.1f%7.1f%8.1f\n", t->device,
            device->step_ns.count > 0 ? DL_NS_TEXT(device->step_ns.p50) : "-", DL_NS_TEXT(span_ns),
            percent((double)t->busy_ns, span_ns), percent((double)t->compute_ns, span_ns),
            percent((double)t->exposed_communication_ns, span_ns),
            percent((double)t->exposed_copy_ns, span_ns), percent((double)t->idle_ns, span_ns),
            percent((double)t->launch_bound_ns, span_ns));
}

void dl_activity_summaries_compare(const dl_activity_summary *summaries, size_t count, FILE *out)
{
    size_t with_devices = 0;
    for (size_t i = 0; i < count; i++)
        with_devices += summaries[i].device_count > 0;
    if (with_devices < 2) return;
    fprintf(out, "\n%% of the span; comm and copies where exposed; p: process without a rank\n");
    fprintf(out, "%-9s%-4s%10s%10s%7s%8s%8s%8s%7s%8s\n", "rank", "dev", "step p50", "span", "busy",
            "compute", "comm", "copies", "idle", "launch");
    for (size_t i = 0; i < count; i++) {
        const dl_activity_summary *s = &summaries[i];
        for (size_t d = 0; d < s->device_count; d++) {
            char who[24];
            snprintf(who, sizeof who, "%s%s", s->rank[0] != '\0' ? "" : "p",
                     s->rank[0] != '\0' ? s->rank : s->pid);
            print_label(out, 9, who);
            print_compared(&s->devices[d], out);
        }
    }
}

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
    DL_JSON_LIST (to, "classes", c, DL_KERNEL_CLASS_END)
        write_class(to, NULL, dl_kernel_class_name((dl_kernel_class)c), &device->classes[c]);
    write_class(to, "graphs", "graph", &device->graphs);
    DL_JSON_LIST (to, "kernels", i, device->kernel_count) {
        const dl_kernel_summary *k = &device->kernels[i];
        dl_json_object(to, NULL, "name=%s class=%s phase=%s count=%g total_ns=%g share_frac=%g",
                       k->name, dl_kernel_class_name(k->class), dl_phase_name(k->phase),
                       (double)k->count, k->total_ns, k->share_frac);
    }
}

static void write_transfers(dl_json *to, const dl_device_summary *device)
{
    DL_JSON_LIST (to, "copies", i, device->transfer_count) {
        const dl_transfer_summary *t = &device->transfers[i];
        dl_json_object(
            to, NULL, "kind=%s direction=%s memory=%s count=%g bytes=%g total_ns=%g bytes_per_s=%g",
            dl_activity_kind_name(t->kind), dl_copy_direction_name(t->direction),
            dl_host_memory_name(t->memory), (double)t->count, t->bytes, t->total_ns,
            t->bytes_per_s);
    }
}

static void write_collectives(dl_json *to, const dl_device_summary *device)
{
    DL_JSON_LIST (to, "collectives", i, device->collective_count) {
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
}

static void write_devices(const dl_activity_summary *summary, dl_json *to)
{
    DL_JSON_LIST (to, "devices", i, summary->device_count) {
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
}

static void write_cpu(const dl_activity_summary *summary, dl_json *to)
{
    static const char *const keys[DL_CPU_PARTS] = {"input_ns", "forward_ns", "backward_ns",
                                                   "update_ns", "wait_ns"};
    const dl_cpu_training *cpu = &summary->cpu;
    const dl_distribution steps = dl_cpu_training_steps(cpu);
    size_t count = 0;
    dl_json_begin(to, "cores", '{');
    dl_json_members(to, "thread=%u method=%s steps=%g passes=%g gradient_bytes=%g", cpu->thread,
                    dl_step_method_name(summary->cpu_method), (double)cpu->regular_count,
                    (double)cpu->passes, cpu->gradient_bytes);
    dl_distribution_write_json(to, "duration_ns", &steps);
    for (int p = 0; p < DL_CPU_PARTS; p++) {
        const dl_distribution part = dl_cpu_training_part(cpu, (dl_cpu_part)p);
        dl_distribution_write_json(to, keys[p], &part);
    }
    dl_json_begin(to, "collectives", '[');
    dl_cpu_collectives *groups = dl_cpu_training_collectives(cpu, &count);
    for (size_t i = 0; i < count; i++) {
        const dl_cpu_collectives *g = &groups[i];
        dl_json_begin(to, NULL, '{');
        dl_json_members(to, "name=%s bytes=%g ranks=%u per_step=%g", g->name, (double)g->bytes,
                        g->ranks, g->per_step);
        if (g->ready_frac >= 0) dl_json_number_item(to, "ready_frac", g->ready_frac);
        dl_distribution_write_json(to, "duration_ns", &g->duration_ns);
        dl_json_end(to, '}');
    }
    dl_json_end(to, ']');
    dl_json_end(to, '}');
    free(groups);
}

static void write_host_list(dl_json *to, const char *key, const dl_host_list *list)
{
    DL_JSON_LIST (to, key, i, list->count) {
        dl_json_object(to, NULL, "name=%s count=%g total_ns=%g p50_ns=%g longest_ns=%g",
                       list->items[i].name, (double)list->items[i].count, list->items[i].total_ns,
                       list->items[i].p50_ns, list->items[i].longest_ns);
    }
}

/* Of a process without devices only. */
static void write_host_steps(const dl_host_steps *steps, dl_json *to)
{
    if (steps->method == DL_STEPS_NONE) return;
    dl_json_begin(to, "host_steps", '{');
    dl_json_members(to, "method=%s warmup=%g other=%g", dl_step_method_name(steps->method),
                    (double)steps->warmup_steps, (double)steps->other_steps);
    dl_distribution_write_json(to, "duration_ns", &steps->step_ns);
    dl_json_end(to, '}');
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
    dl_json_members(to,
                    "early_works=%g early_worst_ns=%g late_ends=%g late_worst_ns=%g "
                    "launched_works=%g works=%g",
                    (double)q->early_count, (double)q->early_worst_ns, (double)q->late_count,
                    (double)q->late_worst_ns, (double)q->launched_count, (double)q->work_count);
    dl_json_end(to, '}');
}

void dl_activity_summary_write_json(const dl_activity_summary *summary, FILE *out)
{
    dl_json json = {out, false}, *to = &json;
    write_head(summary, to);
    write_devices(summary, to);
    if (summary->cpu.step_count > 0) write_cpu(summary, to);
    write_host_steps(&summary->host_steps, to);
    write_host(&summary->host_time, to);
    write_quality(&summary->quality, to);
    write_capture(&summary->capture, to);
    dl_notes_write_json(to, "warnings", &summary->warnings);
    dl_json_end(to, '}');
    fputc('\n', out);
}
