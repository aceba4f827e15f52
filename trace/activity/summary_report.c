#include "trace/activity/summary.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "common/alloc.h"
#include "common/json.h"
#include "common/rows.h"
#include "common/units.h"
#include "trace/activity/demangle.h"
#include "trace/print.h"

enum { LABEL_BYTES = 128 };

/* Returns a copy of the text, with its middle removed if it is too long. */
static char *label_of(const char *text, size_t chars)
{
    char *label = dl_strdup(text[0] != '\0' ? text : "-");
    dl_cut_middle(label, chars);
    return label;
}

/* Returns a kernel's name for `room` columns: a longer name loses its namespaces, then the middle
 * of the part before '<', since the functor after it is more specific. */
static char *kernel_label(const char *name, size_t room)
{
    char label[2 * DL_SHORT_NAME_CHARS];
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
    return label_of(frame, room);
}

static double share(int64_t part, double whole)
{
    return whole > 0 ? (double)part / whole : 0;
}

/* Value for display; NaN (not shown) for 0, which means unknown. */
static double known(double value)
{
    return value > 0 ? value : (double)NAN;
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
        const size_t passes = summary->cpu.step_count > 0 ? summary->cpu.phases.passes : 1;
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

static void print_times(const dl_activity_summary *summary, FILE *out)
{
    dl_rows to = {.out = out};
    bool whole = false;
    dl_rows_begin(&to, NULL,
                  "% of the span; exposed: not hidden by compute; launch: idle for lack of it");
    for (size_t i = 0; i < summary->device_count; i++) {
        const dl_device_summary *d = &summary->devices[i];
        const dl_device_timeline *t = &d->time;
        const double span_ns = (double)(t->end_ns - t->start_ns);
        whole |= !d->in_steps;
        dl_rows_add(&to,
                    "|device=%u |span=%gns |busy=%.1f%% |compute=%.1f%% |comm=%.1f%% "
                    "|exposed=%.1f%% |copies=%.1f%% |exposed=%.1f%% |idle=%.1f%% |launch=%.1f%% "
                    "|=%-s",
                    t->device, span_ns, share(t->busy_ns, span_ns), share(t->compute_ns, span_ns),
                    share(t->communication_ns, span_ns),
                    share(t->exposed_communication_ns, span_ns), share(t->copy_ns, span_ns),
                    share(t->exposed_copy_ns, span_ns), share(t->idle_ns, span_ns),
                    share(t->launch_bound_ns, span_ns), d->in_steps ? "" : "*");
    }
    dl_rows_end(&to, 0);
    if (whole)
        fprintf(out, "* the whole trace, start-up too; the others from first to last step\n");
}

static void add_steps(dl_rows *to, const char *device, const dl_steps_summary *steps)
{
    const dl_distribution *step_ns = &steps->step_ns;
    if (steps->method == DL_STEPS_NONE) return;
    dl_rows_add(to,
                "|device=%-s |steps=%zu |warm-up=%zu |other=%zu |p50=%gns |p90=%gns |sd=%gns "
                "|order=%.3f |alike=%.3f |found=%-s",
                device, step_ns->count, steps->warmup_steps, steps->other_steps, step_ns->p50,
                step_ns->p90, step_ns->sd, steps->order_match, steps->similarity,
                dl_step_method_name(steps->method));
}

static void print_steps(const dl_activity_summary *summary, FILE *out)
{
    dl_rows to = {.out = out};
    dl_rows_begin(&to, NULL, "");
    if (summary->cpu.step_count == 0) add_steps(&to, "host", &summary->host_steps);
    for (size_t i = 0; i < summary->device_count; i++) {
        char device[16];
        snprintf(device, sizeof device, "%" PRIu32, summary->devices[i].time.device);
        add_steps(&to, device, &summary->devices[i].steps);
    }
    dl_rows_end(&to, 0);
}

static void add_class(dl_rows *to, const char *name, const dl_class_summary *class)
{
    if (class->count == 0) return;
    dl_rows_add(to, "|class=%-s |count=%" PRIu64 " |total=%gns |mean=%gns |%%=%.2f%%", name,
                class->count, class->total_ns, class->total_ns / (double)class->count,
                class->share_frac);
}

static void print_classes(const dl_device_summary *device, FILE *out)
{
    dl_rows to = {.out = out};
    dl_rows_begin(&to, NULL, "");
    for (int c = DL_KERNEL_OTHER + 1; c < DL_KERNEL_CLASS_END; c++)
        add_class(&to, dl_kernel_class_name((dl_kernel_class)c), &device->classes[c]);
    add_class(&to, dl_kernel_class_name(DL_KERNEL_OTHER), &device->classes[DL_KERNEL_OTHER]);
    add_class(&to, "whole graphs", &device->graphs);
    dl_rows_end(&to, 0);
}

/* Adds the rows of kernels; `top` as in dl_rows_end. */
static void put_kernels(dl_rows *to, const dl_device_summary *device, size_t top)
{
    dl_rows_begin(to, "kernels", "");
    for (size_t i = 0; i < device->kernel_count; i++) {
        const dl_kernel_summary *k = &device->kernels[i];
        DL_AUTOFREE char *label = kernel_label(k->name, 33);
        dl_rows_add(to,
                    "name|=%s |kernel=%-s class=%-s phase|=%s count=%" PRIu64
                    " total_ns|total=%gns |mean=%gns share_frac|%%=%.1f%%",
                    k->name, label, dl_kernel_class_name(k->class), dl_phase_name(k->phase),
                    k->count, k->total_ns, k->total_ns / (double)k->count, k->share_frac);
    }
    dl_rows_end(to, top);
}

static void put_transfers(dl_rows *to, const dl_device_summary *device)
{
    dl_rows_begin(to, "copies", "");
    for (size_t i = 0; i < device->transfer_count; i++) {
        const dl_transfer_summary *t = &device->transfers[i];
        const char *direction = dl_copy_direction_name(t->direction);
        const char *memory = dl_host_memory_name(t->memory);
        const double count = (double)t->count;
        dl_rows_add(to,
                    "kind|=%s direction|=%s memory|=%s |copies=%-s |memory=%-s count=%" PRIu64
                    " bytes|=%g total_ns|=%g bytes_per_s|=%g |bytes=%gB |bytes each=%gB "
                    "|mean=%gns |rate=%gB/s",
                    dl_activity_kind_name(t->kind), direction, memory,
                    t->kind == DL_ACTIVITY_MEMSET ? "memset" : direction,
                    t->memory == DL_MEMORY_UNKNOWN ? "-" : memory, t->count, t->bytes, t->total_ns,
                    t->bytes_per_s, known(t->bytes), known(t->bytes / count), t->total_ns / count,
                    known(t->bytes_per_s));
    }
    dl_rows_end(to, 0);
}

static void print_collectives(const dl_device_summary *device, size_t top, FILE *out)
{
    dl_rows to = {.out = out};
    dl_rows_begin(&to, NULL, "");
    for (size_t i = 0; i < device->collective_count; i++) {
        const dl_collective_summary *c = &device->collectives[i];
        char name[LABEL_BYTES];
        snprintf(name, sizeof name, "%s", c->name[0] != '\0' ? c->name : "unknown");
        if (c->calls > 1) snprintf(name, sizeof name, "%s x%" PRIu32, c->name, c->calls);
        dl_cut_middle(name, 16);
        dl_rows_add(&to,
                    "|collective=%-s |bytes=%gB |ranks=%.0f |count=%zu |p50=%gns |least=%gns "
                    "|bus rate=%gB/s |best=%gB/s",
                    name, known((double)c->bytes), known(c->ranks), c->duration_ns.count,
                    c->duration_ns.p50, c->duration_ns.low, known(c->bus_bytes_per_s),
                    known(c->best_bus_bytes_per_s));
    }
    dl_rows_end(&to, top);
}

/* Returns whether the device's collectives are of several process groups. */
static bool has_groups(const dl_activity_summary *summary, uint32_t device)
{
    const dl_group_summary *first = NULL;
    for (size_t i = 0; i < summary->groups.count; i++) {
        const dl_group_summary *g = &summary->groups.items[i];
        if (g->device != device || g->object == 0) continue;
        if (first == NULL) first = g;
        if (g->object != first->object) return true;
    }
    return false;
}

/* Adds the collectives of each process group: means per step or, without steps, of the whole
 * trace. */
static void put_groups(dl_rows *to, const dl_activity_summary *summary, uint32_t device)
{
    dl_rows_begin(to, "groups", "collectives of a step by process group; bytes of one rank");
    for (size_t i = 0; i < summary->groups.count; i++) {
        const dl_group_summary *g = &summary->groups.items[i];
        if (g->device != device) continue;
        const double steps = g->per_step > 0 ? (double)g->count / g->per_step : 1;
        DL_AUTOFREE char *members = dl_group_members(g->members, g->ranks);
        DL_AUTOFREE char *shown = label_of(members, 14), *group = label_of(g->group, 18);
        dl_rows_add(to,
                    "collective=%-s group|=%s |group=%-s ranks=%.0f members|=%s |of ranks=%-s "
                    "per_step|a step=%.3g bytes=%gB time_ns|time=%gns "
                    "exposed_ns|exposed=%gns",
                    g->name[0] != '\0' ? g->name : "unknown", g->group, group, known(g->ranks),
                    members, shown, g->per_step > 0 ? g->per_step : (double)g->count,
                    known(g->bytes / steps), g->total_ns / steps, g->exposed_ns / steps);
    }
    dl_rows_end(to, 0);
}

static void put_host_list(dl_rows *to, const dl_host_list *list, const char *key, const char *title,
                          size_t top)
{
    dl_rows_begin(to, key, title);
    for (size_t i = 0; i < list->count; i++) {
        const dl_host_summary *h = &list->items[i];
        DL_AUTOFREE char *label = label_of(h->name, 33);
        dl_rows_add(to,
                    "name|=%s |name=%-s count=%" PRIu64
                    " total_ns|total=%gns p50_ns|p50=%gns |mean=%gns longest_ns|longest=%gns",
                    h->name, label, h->count, h->total_ns, h->p50_ns,
                    h->total_ns / (double)h->count, h->longest_ns);
    }
    dl_rows_end(to, top);
}

static void print_host(const dl_activity_host *host, size_t top, FILE *out)
{
    dl_rows to = {.out = out};
    put_host_list(&to, &host->calls, NULL, "calls", top);
    if (host->calls.count > 0) {
        fprintf(out, "threads in calls %s, of it waiting %s\n", DL_NS_TEXT(host->call_ns),
                DL_NS_TEXT(host->sync_call_ns));
    }
    put_host_list(&to, &host->syncs, NULL, "waited for", top);
    put_host_list(&to, &host->overheads, NULL, "profiler's own time", top);
}

/* Prints steps on cores, split by the activity of the training thread, and their collectives. */
static void print_cpu(const dl_activity_summary *summary, size_t top, FILE *out)
{
    static const char row[] = "|part of the step=%-s |mean=%gns |sd=%gns |%%=%.1f%%";
    const dl_cpu_training *cpu = &summary->cpu;
    if (cpu->step_count == 0) return;
    const dl_distribution *steps = &cpu->step_ns;
    dl_rows to = {.out = out};
    char title[LABEL_BYTES], all[LABEL_BYTES];
    snprintf(title, sizeof title, "training on cores, thread %" PRIu32, cpu->thread);
    dl_rows_begin(&to, NULL, title);
    for (int p = 0; p < DL_CPU_PARTS; p++) {
        const dl_distribution *part = &cpu->part_ns[p];
        if (part->high <= 0) continue;
        const bool waits = p == DL_CPU_PART_INPUT && cpu->waits_for_loaders;
        dl_rows_add(&to, row, waits ? "waiting for input from loaders" : dl_cpu_part_names[p],
                    part->mean, part->sd, part->mean / steps->mean);
    }
    snprintf(all, sizeof all, "%zu steps of %zu, by %s", steps->count, cpu->step_count,
             dl_step_method_name(summary->host_steps.method));
    dl_rows_add(&to, row, all, steps->mean, steps->sd, 1.0);
    dl_rows_end(&to, 0);
    dl_rows_begin(&to, NULL,
                  "collectives; after: the part of the backward pass that is over at the call");
    for (size_t i = 0; i < cpu->groups.count; i++) {
        const dl_collective_summary *g = &cpu->groups.collectives[i];
        DL_AUTOFREE char *label = label_of(g->name, 16);
        dl_rows_add(&to,
                    "|collective=%-s |bytes=%gB |ranks=%.0f |a step=%.2f |p50=%gns |least=%gns "
                    "|after %%=%.1f%%",
                    label, known((double)g->bytes), known(g->ranks),
                    (double)g->duration_ns.count / (double)steps->count, g->duration_ns.p50,
                    g->duration_ns.low, g->ready_frac >= 0 ? g->ready_frac : (double)NAN);
    }
    dl_rows_end(&to, top);
}

/* Prints a line for one device: the launches in its steps, and their cost. */
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

/* Prints the recording cost, for recordings of dlprof only. */
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
            put_kernels(&(dl_rows){.out = out}, device, top);
        }
        put_transfers(&(dl_rows){.out = out}, device);
        print_collectives(device, top, out);
        if (has_groups(summary, device->time.device))
            put_groups(&(dl_rows){.out = out}, summary, device->time.device);
    }
    print_cpu(summary, top, out);
    print_host(&summary->host_time, top, out);
    print_capture(summary, out);
    dl_notes_print(&summary->warnings, "\n", "warning          ", out);
}

void dl_activity_summaries_compare(const dl_activity_summary *summaries, size_t count, FILE *out)
{
    size_t with_devices = 0;
    dl_rows to = {.out = out};
    for (size_t i = 0; i < count; i++)
        with_devices += summaries[i].device_count > 0;
    if (with_devices < 2) return;
    dl_rows_begin(&to, NULL,
                  "% of the span; comm and copies where exposed; p: process without a rank");
    for (size_t i = 0; i < count; i++) {
        const dl_activity_summary *s = &summaries[i];
        for (size_t k = 0; k < s->device_count; k++) {
            const dl_device_timeline *t = &s->devices[k].time;
            const dl_distribution *step_ns = &s->devices[k].steps.step_ns;
            const double span_ns = (double)(t->end_ns - t->start_ns);
            const bool ranked = s->rank[0] != '\0';
            DL_AUTOFREE char *who = dl_format("%s%s", ranked ? "" : "p", ranked ? s->rank : s->pid);
            dl_rows_add(&to,
                        "|rank=%-s |dev=%u |step p50=%gns |span=%gns |busy=%.1f%% "
                        "|compute=%.1f%% |comm=%.1f%% |copies=%.1f%% |idle=%.1f%% |launch=%.1f%%",
                        who, t->device, step_ns->count > 0 ? step_ns->p50 : (double)NAN, span_ns,
                        share(t->busy_ns, span_ns), share(t->compute_ns, span_ns),
                        share(t->exposed_communication_ns, span_ns),
                        share(t->exposed_copy_ns, span_ns), share(t->idle_ns, span_ns),
                        share(t->launch_bound_ns, span_ns));
        }
    }
    dl_rows_end(&to, 0);
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

static void write_steps(dl_json *to, const char *name, const dl_steps_summary *steps)
{
    dl_json_begin(to, name, '{');
    dl_json_members(to, "method=%s warmup=%g other=%g", dl_step_method_name(steps->method),
                    (double)steps->warmup_steps, (double)steps->other_steps);
    dl_distribution_write_json(to, "duration_ns", &steps->step_ns);
    if (!isnan(steps->order_match))
        dl_json_members(to, "order_match_frac=%g similarity_frac=%g", steps->order_match,
                        steps->similarity);
    dl_json_end(to, '}');
}

/* Writes the object "capture_cost", without members if the cost is unknown. */
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

/* Writes an object as an item of a list, or as the member `name`. */
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
    put_kernels(&(dl_rows){.json = to}, device, 0);
}

/* Writes all[count], the collectives of a device or, with `steps`, of that many steps on cores. */
static void write_collectives(dl_json *to, const dl_collective_summary *all, size_t count,
                              size_t steps)
{
    DL_JSON_LIST (to, "collectives", i, count) {
        const dl_collective_summary *c = &all[i];
        dl_json_begin(to, NULL, '{');
        dl_json_members(to, "name=%s bytes=%g ranks=%u", c->name, (double)c->bytes, c->ranks);
        if (steps > 0) {
            dl_json_number_item(to, "per_step", (double)c->duration_ns.count / (double)steps);
            if (c->ready_frac >= 0) dl_json_number_item(to, "ready_frac", c->ready_frac);
        } else {
            dl_json_members(to, "calls=%u", c->calls);
        }
        dl_distribution_write_json(to, "duration_ns", &c->duration_ns);
        if (steps == 0)
            dl_json_members(to,
                            "algorithm_bytes_per_s=%g bus_bytes_per_s=%g best_bus_bytes_per_s=%g",
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
        write_steps(to, "steps", &device->steps);
        write_estimate(to, &device->capture);
        write_kernels(to, device);
        put_transfers(&(dl_rows){.json = to}, device);
        write_collectives(to, device->collectives, device->collective_count, 0);
        put_groups(&(dl_rows){.json = to}, summary, device->time.device);
        dl_json_end(to, '}');
    }
}

static void write_cpu(const dl_activity_summary *summary, dl_json *to)
{
    static const char *const keys[DL_CPU_PARTS] = {"input_ns", "forward_ns", "backward_ns",
                                                   "update_ns", "wait_ns"};
    const dl_cpu_training *cpu = &summary->cpu;
    dl_json_begin(to, "cores", '{');
    dl_json_members(to, "thread=%u method=%s steps=%g passes=%g gradient_bytes=%g", cpu->thread,
                    dl_step_method_name(summary->host_steps.method), (double)cpu->step_ns.count,
                    (double)cpu->phases.passes, cpu->added.bytes);
    dl_distribution_write_json(to, "duration_ns", &cpu->step_ns);
    for (int p = 0; p < DL_CPU_PARTS; p++)
        dl_distribution_write_json(to, keys[p], &cpu->part_ns[p]);
    write_collectives(to, cpu->groups.collectives, cpu->groups.count, cpu->step_ns.count);
    dl_json_end(to, '}');
}

static void write_host(const dl_activity_host *host, dl_json *to)
{
    dl_rows rows = {.json = to};
    dl_json_begin(to, "host_time", '{');
    dl_json_members(to, "call_ns=%g sync_call_ns=%g", host->call_ns, host->sync_call_ns);
    put_host_list(&rows, &host->calls, "calls", NULL, 0);
    put_host_list(&rows, &host->syncs, "syncs", NULL, 0);
    put_host_list(&rows, &host->overheads, "overheads", NULL, 0);
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
    if (summary->cpu.step_count == 0 && summary->host_steps.method != DL_STEPS_NONE)
        write_steps(to, "host_steps", &summary->host_steps);
    write_host(&summary->host_time, to);
    write_quality(&summary->quality, to);
    write_capture(&summary->capture, to);
    dl_notes_write_json(to, "warnings", &summary->warnings);
    dl_json_end(to, '}');
    fputc('\n', out);
}
