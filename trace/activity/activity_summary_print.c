#include <inttypes.h>
#include <string.h>

#include "common/units.h"
#include "trace/activity/activity_summary.h"
#include "trace/demangle.h"
#include "trace/print.h"

enum { CELL_BYTES = 32, LABEL_BYTES = 128 };

/* What is 0 is not known: "-". */
static void print_bytes(FILE *out, int columns, double bytes, const char *per)
{
    char cell[CELL_BYTES] = "-", all[CELL_BYTES + 8] = "-";
    if (bytes > 0) {
        snprintf(all, sizeof all, "%s%s", dl_format_bytes(cell, sizeof cell, bytes), per);
    }
    fprintf(out, "%*s", columns, all);
}

/* Left-aligned; the middle of what is longer is cut out, as dl_cut_middle does. */
static void print_label(FILE *out, int columns, const char *text)
{
    size_t room = (size_t)columns - 1, length = strlen(text);
    if (length <= room) {
        fprintf(out, "%-*s", columns, text);
        return;
    }
    size_t tail = (room - 2) / 2, head = room - 2 - tail;
    fprintf(out, "%.*s..%s ", (int)head, text, text + length - tail);
}

/* A kernel's name: what is too long loses its namespaces, then the middle of the frame before '<',
 * since what the frame runs tells more. */
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

static void print_percent(FILE *out, int columns, double part, double whole)
{
    fprintf(out, "%*.1f", columns, whole > 0 ? 100 * part / whole : 0);
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
    for (size_t i = 0; i < summary->device_count; i++) {
        const dl_device_summary *d = &summary->devices[i];
        snprintf(text, sizeof text, "device %" PRIu32, d->time.device);
        if (d->name[0] != '\0') dl_print_pair(out, text, d->name);
    }
}

static void print_time(const dl_device_timeline *time, FILE *out)
{
    double span_ns = (double)(time->end_ns - time->start_ns);
    dl_print_ns(out, 10, span_ns);
    print_percent(out, 7, (double)time->busy_ns, span_ns);
    print_percent(out, 8, (double)time->compute_ns, span_ns);
    print_percent(out, 7, (double)time->communication_ns, span_ns);
    print_percent(out, 8, (double)time->exposed_communication_ns, span_ns);
    print_percent(out, 7, (double)time->copy_ns, span_ns);
    print_percent(out, 8, (double)time->exposed_copy_ns, span_ns);
    print_percent(out, 7, (double)time->idle_ns, span_ns);
    print_percent(out, 8, (double)time->launch_bound_ns, span_ns);
    fputc('\n', out);
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

static void print_steps(const dl_activity_summary *summary, FILE *out)
{
    bool head = false;
    for (size_t i = 0; i < summary->device_count; i++) {
        const dl_device_summary *d = &summary->devices[i];
        if (d->step_method == DL_STEPS_NONE) continue;
        if (!head) {
            fprintf(out, "\n%-7s%7s%8s%7s%10s%10s%10s%7s%7s %s\n", "device", "steps", "warm-up",
                    "other", "p50", "p90", "sd", "order", "alike", "found");
            head = true;
        }
        fprintf(out, "%-7" PRIu32 "%7zu%8zu%7zu", d->time.device, d->step_ns.count, d->warmup_steps,
                d->other_steps);
        dl_print_ns(out, 10, d->step_ns.p50);
        dl_print_ns(out, 10, d->step_ns.p90);
        dl_print_ns(out, 10, d->step_ns.sd);
        fprintf(out, "%7.3f%7.3f %s\n", d->step_order_match, d->step_similarity,
                dl_step_method_name(d->step_method));
    }
}

static void print_class(FILE *out, const char *name, const dl_class_summary *class)
{
    if (class->count == 0) return;
    fprintf(out, "%-16s%10" PRIu64, name, class->count);
    dl_print_ns(out, 12, class->total_ns);
    dl_print_ns(out, 12, class->total_ns / (double)class->count);
    fprintf(out, "%8.2f\n", 100 * class->share_frac);
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
        fprintf(out, "%-14s%8" PRIu64, dl_kernel_class_name(k->class), k->count);
        dl_print_ns(out, 9, k->total_ns);
        dl_print_ns(out, 9, k->total_ns / (double)k->count);
        fprintf(out, "%6.1f\n", 100 * k->share_frac);
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
        print_bytes(out, 11, t->bytes, "");
        print_bytes(out, 12, t->bytes / (double)t->count, "");
        dl_print_ns(out, 10, t->total_ns / (double)t->count);
        print_bytes(out, 13, t->bytes_per_s, "/s");
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
        print_bytes(out, 9, (double)c->bytes, "");
        snprintf(label, sizeof label, "%" PRIu32, c->ranks);
        fprintf(out, "%6s%8zu", c->ranks > 0 ? label : "-", c->duration_ns.count);
        dl_print_ns(out, 9, c->duration_ns.p50);
        dl_print_ns(out, 9, c->duration_ns.low);
        print_bytes(out, 11, c->bus_bytes_per_s, "/s");
        print_bytes(out, 11, c->best_bus_bytes_per_s, "/s");
        fputc('\n', out);
    }
    print_left_out(out, device->collective_count, top);
}

static void print_host_list(const dl_host_list *list, const char *title, size_t top, FILE *out)
{
    if (list->count == 0) return;
    fprintf(out, "\n%-38s%10s%11s%10s%10s\n", title, "count", "total", "mean", "longest");
    for (size_t i = 0; i < list->count && i < top; i++) {
        const dl_host_summary *h = &list->items[i];
        print_label(out, 38, h->name[0] != '\0' ? h->name : "-");
        fprintf(out, "%10" PRIu64, h->count);
        dl_print_ns(out, 11, h->total_ns);
        dl_print_ns(out, 10, h->total_ns / (double)h->count);
        dl_print_ns(out, 10, h->longest_ns);
        fputc('\n', out);
    }
    print_left_out(out, list->count, top);
}

static void print_host(const dl_activity_host *host, size_t top, FILE *out)
{
    char all[CELL_BYTES], waiting[CELL_BYTES];
    print_host_list(&host->calls, "call", top, out);
    if (host->calls.count > 0) {
        fprintf(out, "threads in calls %s, of it waiting %s\n",
                dl_format_ns(all, sizeof all, host->call_ns),
                dl_format_ns(waiting, sizeof waiting, host->sync_call_ns));
    }
    print_host_list(&host->syncs, "waited for", top, out);
    print_host_list(&host->overheads, "profiler's own time", top, out);
}

/* One device's line: what its steps hold, and what that comes to. */
static void print_capture_estimate(const dl_device_summary *device, FILE *out)
{
    const dl_capture_estimate *e = &device->capture;
    char cost[CELL_BYTES], low[CELL_BYTES], high[CELL_BYTES], text[4 * LABEL_BYTES];
    if (e->steps == 0) return;
    snprintf(text, sizeof text,
             "device %" PRIu32 ": %.4g kernels, %.4g copies, %.4g events and %.4g waits a step: %s "
             "(95 %% interval %s to %s), %.2f %% of it if the host bounds it",
             device->time.device, e->per_step[DL_CAPTURE_PER_KERNEL],
             e->per_step[DL_CAPTURE_PER_COPY], e->per_step[DL_CAPTURE_PER_EVENT],
             e->per_step[DL_CAPTURE_PER_SYNC], dl_format_ns(cost, sizeof cost, e->step_ns),
             dl_format_ns(low, sizeof low, e->step_low_ns),
             dl_format_ns(high, sizeof high, e->step_high_ns), 100 * e->share_frac);
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
                 "a wait; elsewhere %.0f ns a record",
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
    print_host(&summary->host_time, top, out);
    print_capture(summary, out);
    if (summary->warning_count > 0) fputc('\n', out);
    for (size_t i = 0; i < summary->warning_count; i++)
        dl_print_pair(out, "warning", summary->warnings[i]);
}

static void print_compared(const dl_device_summary *device, FILE *out)
{
    const dl_device_timeline *time = &device->time;
    double span_ns = (double)(time->end_ns - time->start_ns);
    fprintf(out, "%-4" PRIu32, time->device);
    if (device->step_ns.count > 0) {
        dl_print_ns(out, 10, device->step_ns.p50);
    } else {
        fprintf(out, "%10s", "-");
    }
    dl_print_ns(out, 10, span_ns);
    print_percent(out, 7, (double)time->busy_ns, span_ns);
    print_percent(out, 8, (double)time->compute_ns, span_ns);
    print_percent(out, 8, (double)time->exposed_communication_ns, span_ns);
    print_percent(out, 8, (double)time->exposed_copy_ns, span_ns);
    print_percent(out, 7, (double)time->idle_ns, span_ns);
    print_percent(out, 8, (double)time->launch_bound_ns, span_ns);
    fputc('\n', out);
}

void dl_activity_summaries_compare(const dl_activity_summary *summaries, size_t count, FILE *out)
{
    fprintf(out, "%% of the span; comm and copies where exposed; p: process without a rank\n");
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
