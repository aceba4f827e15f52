#include "trace/activity/summary.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/sort.h"
#include "common/units.h"
#include "trace/activity/demangle.h"
#include "trace/activity/operators.h"

/* Minimum share of a device's work without its launch call that causes a warning. */
#define UNLAUNCHED_FRAC 0.01
/* Minimum order match of steps without a warning: twelve complete traces have 0.85 to 1, a
 * sub-sampled one 0.53. */
#define ORDER_MATCH_MIN 0.7

static const struct {
    const char *name, *text;
} loss_texts[DL_LOSS_END] = {
    [DL_LOSS_DROPPED_RECORDS] = {"dropped_records", "records were dropped by CUPTI"},
    [DL_LOSS_LOST_TIMESTAMPS] = {"lost_timestamps", "activities had no times and are missing"},
    [DL_LOSS_LOST_ACTIVITIES] = {"lost_activities", "activities were lost by the recorder"},
    [DL_LOSS_LOST_RECORDS] = {"lost_records", "activities were not written to the file"},
    [DL_LOSS_INVALID_RECORDS] = {"invalid_records", "activities were invalid and are missing"},
};

const char *dl_loss_name(dl_loss loss)
{
    return (unsigned)loss < DL_LOSS_END ? loss_texts[loss].name : "unknown";
}

void dl_trace_find_rank(const dl_trace *trace, int64_t *rank, int64_t *ranks)
{
    const dl_activity *largest = NULL;
    bool several = false;
    for (size_t i = 0; i < trace->activity_count; i++) {
        const dl_activity *a = &trace->activities[i];
        if (a->kind != DL_ACTIVITY_COMM) continue;
        if (largest == NULL || a->count > largest->count) {
            largest = a;
            several = false;
        } else if (a->count == largest->count && a->peer != largest->peer) {
            several = true;
        }
    }
    const bool told = largest != NULL && !several && largest->peer != DL_RANK_UNKNOWN;
    *rank = dl_trace_meta_int(trace, "rank", 0, INT32_MAX, told ? (int64_t)largest->peer : -1);
    *ranks =
        dl_trace_meta_int(trace, "world_size", 1, INT32_MAX, told ? (int64_t)largest->count : 0);
}

DL_ORDER(by_kernel_total, dl_kernel_summary, DL_BY_DESCENDING(total_ns), DL_BY_TEXT(name));

/* Returns the index in device->kernels of the entry for the kernel `name`; adds an entry if
 * needed. */
static size_t find_kernel(dl_device_summary *device, const char *name)
{
    dl_kernel_summary new = {.name = dl_demangle_short(name)};
    new.class = dl_kernel_classify(name, &new.phase);
    for (size_t i = 0; i < device->kernel_count; i++) {
        const dl_kernel_summary *k = &device->kernels[i];
        if (k->class != new.class || k->phase != new.phase) continue;
        if (strcmp(k->name, new.name) != 0) continue;
        free(new.name);
        return i;
    }
    DL_APPEND(device->kernels, device->kernel_count, "kernels") = new;
    return device->kernel_count - 1;
}

static void add_kernel(dl_device_summary *device, uint32_t *places, const dl_activity *activity,
                       char *const *strings)
{
    uint32_t *place = &places[activity->name];
    if (*place == 0) *place = (uint32_t)find_kernel(device, strings[activity->name]) + 1;
    dl_kernel_summary *kernel = &device->kernels[*place - 1];
    kernel->count++;
    kernel->total_ns += (double)activity->duration_ns;
    device->classes[kernel->class].count++;
    device->classes[kernel->class].total_ns += (double)activity->duration_ns;
    device->kernel_total_ns += (double)activity->duration_ns;
}

static void add_transfer(dl_device_summary *device, const dl_activity *activity)
{
    dl_transfer_summary *t = NULL;
    for (size_t i = 0; i < device->transfer_count && t == NULL; i++) {
        dl_transfer_summary *other = &device->transfers[i];
        if (other->kind == activity->kind && other->direction == activity->copy &&
            other->memory == activity->memory)
            t = other;
    }
    if (t == NULL) {
        t = &DL_APPEND(device->transfers, device->transfer_count, "copies");
        *t = (dl_transfer_summary){
            .kind = activity->kind, .direction = activity->copy, .memory = activity->memory};
    }
    t->count++;
    t->bytes += (double)activity->bytes;
    t->total_ns += (double)activity->duration_ns;
}

DL_ORDER(by_transfer, dl_transfer_summary, DL_BY(kind), DL_BY(direction), DL_BY(memory));

static void add_work(dl_device_summary *device, uint32_t *places, const dl_activity *activity,
                     char *const *strings)
{
    if (activity->kind == DL_ACTIVITY_KERNEL) {
        add_kernel(device, places, activity, strings);
    } else if (activity->kind == DL_ACTIVITY_GRAPH) {
        device->graphs.count++;
        device->graphs.total_ns += (double)activity->duration_ns;
        device->kernel_total_ns += (double)activity->duration_ns;
    } else {
        add_transfer(device, activity);
    }
}

static void finish_device(dl_device_summary *device)
{
    double total_ns = device->kernel_total_ns > 0 ? device->kernel_total_ns : 1;
    for (size_t i = 0; i < device->kernel_count; i++)
        device->kernels[i].share_frac = device->kernels[i].total_ns / total_ns;
    for (int c = 0; c < DL_KERNEL_CLASS_END; c++)
        device->classes[c].share_frac = device->classes[c].total_ns / total_ns;
    device->graphs.share_frac = device->graphs.total_ns / total_ns;
    for (size_t i = 0; i < device->transfer_count; i++) {
        dl_transfer_summary *t = &device->transfers[i];
        if (t->total_ns > 0) t->bytes_per_s = t->bytes / dl_ns_to_s(t->total_ns);
    }
    dl_sort(device->kernels, device->kernel_count, sizeof *device->kernels, by_kernel_total);
    dl_sort(device->transfers, device->transfer_count, sizeof *device->transfers, by_transfer);
}

static const dl_step_line *find_line(const dl_activity_steps *steps, uint32_t device)
{
    for (size_t i = 0; steps != NULL && i < steps->count; i++) {
        if (steps->lines[i].device == device) return &steps->lines[i];
    }
    return NULL;
}

/* Summarizes the line's steps; *window becomes the time of the regular ones. */
static void sum_steps(dl_steps_summary *steps, const dl_step_line *line, dl_interval *window)
{
    DL_AUTOFREE double *durations_ns = dl_calloc(line->count, sizeof *durations_ns, "steps");
    size_t regular = 0;
    for (size_t i = 0; i < line->count; i++) {
        const dl_activity_step *step = &line->steps[i];
        steps->warmup_steps += step->label == DL_STEP_WARMUP;
        steps->other_steps += step->label == DL_STEP_OTHER;
        if (step->label != DL_STEP_REGULAR) continue;
        if (regular == 0) window->start_ns = step->start_ns;
        window->end_ns = step->start_ns + step->duration_ns;
        durations_ns[regular++] = (double)step->duration_ns;
    }
    steps->method = line->method;
    steps->step_ns = dl_distribution_of(durations_ns, regular);
    const bool on_device = line->device != DL_NO_DEVICE;
    steps->order_match = on_device ? line->order_match : (double)NAN;
    steps->similarity = on_device ? line->similarity : (double)NAN;
}

/* Sets the device's slice of the collectives, which are in one array sorted by device. */
static void give_collectives(dl_activity_summary *summary, dl_device_summary *device)
{
    for (size_t i = 0; i < summary->collectives.count; i++) {
        const dl_collective_summary *c = &summary->collectives.collectives[i];
        if (c->device != device->time.device) continue;
        if (device->collective_count++ == 0) device->collectives = c;
    }
}

static void sum_device(dl_activity_summary *summary, dl_device_summary *device,
                       const uint8_t *classes, const dl_launches *launches,
                       const dl_activity_steps *steps)
{
    const dl_trace *trace = summary->trace;
    uint32_t number = device->time.device;
    DL_AUTOFREE uint32_t *places = dl_calloc(trace->string_count, sizeof *places, "kernels");
    for (size_t i = 0; i < trace->activity_count; i++) {
        const dl_activity *a = &trace->activities[i];
        if (a->device != number || !dl_activity_is_device_work(a)) continue;
        add_work(device, places, a, trace->strings);
    }
    finish_device(device);
    give_collectives(summary, device);
    char key[40];
    snprintf(key, sizeof key, "device.%" PRIu32 ".name", number);
    device->name = dl_trace_meta_text(trace, key);

    dl_interval window = {0};
    const dl_step_line *line = find_line(steps, number);
    if (line != NULL) sum_steps(&device->steps, line, &window);
    if (line != NULL && summary->capture.known)
        device->capture = dl_capture_estimate_of(&summary->capture.figures, trace, line);
    if (device->steps.step_ns.count == 0) return;
    DL_SCOPED(dl_activity_timeline) inside = {0};
    dl_activity_timeline_init(&inside, trace->activities, trace->activity_count, classes, launches,
                              &window);
    const dl_device_timeline *time = dl_activity_timeline_device(&inside, number);
    if (time != NULL) {
        device->time = *time;
        device->in_steps = true;
    }
}

static void sum_devices(dl_activity_summary *summary, const uint8_t *classes,
                        const dl_launches *launches, const dl_activity_steps *steps)
{
    const dl_trace *trace = summary->trace;
    DL_SCOPED(dl_activity_timeline) whole = {0};
    dl_activity_timeline_init(&whole, trace->activities, trace->activity_count, classes, launches,
                              NULL);
    dl_collectives_init(&summary->collectives, trace->activities, trace->activity_count,
                        trace->strings, classes, launches);
    summary->groups = dl_groups_find(trace, classes, launches, steps);
    summary->devices = dl_calloc(whole.device_count, sizeof *summary->devices, "devices");
    for (size_t d = 0; d < whole.device_count; d++) {
        dl_device_summary *device = &summary->devices[summary->device_count++];
        device->time = whole.devices[d];
        sum_device(summary, device, classes, launches, steps);
    }
}

static void sum_quality(dl_activity_summary *summary, const dl_launches *launches)
{
    const dl_trace *trace = summary->trace;
    dl_trace_quality *q = &summary->quality;
    for (int loss = 0; loss < DL_LOSS_END; loss++)
        q->losses[loss] =
            (uint64_t)dl_trace_meta_int(trace, dl_loss_name((dl_loss)loss), 0, INT64_MAX, 0);
    q->stopped = dl_trace_meta_text(trace, "stopped");
    q->takeover = dl_trace_meta_text(trace, "takeover");
    q->late_count = trace->late_ends;
    q->late_worst_ns = trace->late_worst_ns;
    for (size_t i = 0; i < trace->activity_count; i++) {
        const dl_activity *a = &trace->activities[i];
        if (!dl_activity_is_device_work(a)) continue;
        const dl_activity *call = dl_launches_find(launches, a->correlation);
        q->work_count++;
        if (call == NULL) continue;
        q->launched_count++;
        int64_t early_ns = call->start_ns - a->start_ns;
        if (early_ns <= 0) continue;
        q->early_count++;
        if (early_ns > q->early_worst_ns) q->early_worst_ns = early_ns;
    }
}

static void read_capture(dl_activity_summary *summary)
{
    dl_capture_knowledge *capture = &summary->capture;
    dl_error err = {0};
    capture->preset = dl_trace_meta_text(summary->trace, "preset");
    capture->text = dl_trace_meta_text(summary->trace, DL_CAPTURE_COST_KEY);
    capture->known = dl_capture_figures_parse(capture->text, &capture->figures, &err) == DL_OK;
}

/* Warns if the order match of the steps is low (the trace may be sub-sampled) or their similarity
 * is low (they may not be training steps). */
static void warn_about_steps(dl_activity_summary *summary)
{
    dl_notes *warnings = &summary->warnings;
    for (size_t d = 0; d < summary->device_count; d++) {
        const dl_device_summary *device = &summary->devices[d];
        if (device->steps.step_ns.count < 2) continue;
        if (device->steps.order_match < ORDER_MATCH_MIN) {
            dl_notes_add(warnings,
                         "device %" PRIu32 ": only %.0f %% of a step's work comes in the "
                         "order of the step before: the trace may be sub-sampled",
                         device->time.device, 100 * device->steps.order_match);
        }
        if (device->steps.similarity >= DL_STEP_SIMILARITY) continue;
        dl_notes_add(warnings,
                     "device %" PRIu32 ": the %zu steps by %s differ too much (likeness %.2f, "
                     "expected %.1f): they may not be training steps",
                     device->time.device, device->steps.step_ns.count,
                     dl_step_method_name(device->steps.method), device->steps.similarity,
                     DL_STEP_SIMILARITY);
    }
}

static void warn_about_quality(dl_activity_summary *summary)
{
    dl_notes *warnings = &summary->warnings;
    const dl_trace_quality *q = &summary->quality;
    if (!summary->trace->complete) {
        dl_notes_add(warnings,
                     "the trace is incomplete (killed run, full disk or damage); %" PRIu64
                     " bytes after its last whole chunk are ignored",
                     summary->trace->bytes_ignored);
    }
    DL_AUTOFREE char *lost = dl_cpu_lost_device(summary->trace);
    if (lost != NULL) {
        dl_notes_add(warnings, "%s", lost);
    } else if (q->work_count == 0 && summary->cpu.step_count == 0) {
        dl_notes_add(warnings,
                     "the trace holds no work of a device, and no steps of operators on cores");
    }
    if (q->takeover[0] != '\0') {
        dl_notes_add(warnings,
                     "another profiler took over the recording (%s): later records are missing",
                     q->takeover);
    }
    if (q->stopped[0] != '\0') {
        dl_notes_add(warnings, "the recording ended before the program: %s", q->stopped);
    }
    for (int loss = 0; loss < DL_LOSS_END; loss++) {
        if (q->losses[loss] == 0) continue;
        dl_notes_add(warnings, "%" PRIu64 " %s", q->losses[loss], loss_texts[loss].text);
    }
    if (q->early_count > 0) {
        dl_notes_add(warnings,
                     "%" PRIu64 " of %" PRIu64 " GPU operations start before their launch call, "
                     "by %s at most: the clocks of host and device differ",
                     q->early_count, q->launched_count, DL_NS_TEXT(q->early_worst_ns));
    }
    if (q->late_count > 0) {
        dl_notes_add(warnings,
                     "%" PRIu64 " copies were recorded to end after the next operation of their "
                     "stream had started, by %s at most: they are taken to end there",
                     q->late_count, DL_NS_TEXT(q->late_worst_ns));
    }
    double unlaunched = (double)(q->work_count - q->launched_count);
    if (unlaunched > UNLAUNCHED_FRAC * (double)q->work_count) {
        dl_notes_add(warnings,
                     "%.0f of %" PRIu64 " GPU operations have no recorded launch call: "
                     "launch-bound time and sizes of collectives are incomplete",
                     unlaunched, q->work_count);
    }
}

void dl_activity_summary_init(dl_activity_summary *summary, const dl_trace *trace,
                              const dl_activity_steps *steps)
{
    DL_SCOPED(dl_launches) launches = {0};
    DL_AUTOFREE uint8_t *classes = dl_kernel_classes(trace);
    dl_launches_init(&launches, trace->activities, trace->activity_count);
    summary->trace = trace;
    summary->host = dl_trace_meta_text(trace, "host");
    summary->pid = dl_trace_meta_text(trace, "pid");
    summary->command = dl_trace_meta_text(trace, "command");
    int64_t rank, ranks;
    dl_trace_find_rank(trace, &rank, &ranks);
    summary->rank = rank >= 0 ? dl_format("%" PRId64, rank) : dl_strdup("");
    summary->world_size = ranks > 0 ? dl_format("%" PRId64, ranks) : dl_strdup("");
    read_capture(summary);
    sum_devices(summary, classes, &launches, steps);
    const dl_step_line *on_cores = find_line(steps, DL_NO_DEVICE);
    if (on_cores != NULL) {
        dl_interval window;
        dl_cpu_training_find(&summary->cpu, trace, on_cores);
        sum_steps(&summary->host_steps, on_cores, &window);
    }
    dl_activity_host_init(&summary->host_time, trace->activities, trace->activity_count,
                          trace->strings, trace->string_count);
    sum_quality(summary, &launches);
    warn_about_quality(summary);
    warn_about_steps(summary);
}

void dl_activity_summary_free(dl_activity_summary *summary)
{
    for (size_t d = 0; d < summary->device_count; d++) {
        for (size_t i = 0; i < summary->devices[d].kernel_count; i++)
            free(summary->devices[d].kernels[i].name);
        free(summary->devices[d].kernels);
        free(summary->devices[d].transfers);
    }
    free(summary->devices);
    free(summary->rank);
    free(summary->world_size);
    dl_collectives_free(&summary->collectives);
    free(summary->groups.items);
    dl_activity_host_free(&summary->host_time);
    dl_cpu_training_free(&summary->cpu);
    dl_notes_free(&summary->warnings);
    *summary = (dl_activity_summary){0};
}

#define TOP_ROWS 15

dl_info_settings dl_info_settings_default(void)
{
    return (dl_info_settings){.top = TOP_ROWS};
}

void dl_info_options(dl_info_settings *settings, const char *json, dl_option *table)
{
    const dl_option own[DL_INFO_OPTION_COUNT - DL_STEP_OPTION_COUNT] = {
        DL_OPT_FLAG("json", 0, &settings->json, json, .group = "Output"),
        DL_OPT_INT("top", 0, &settings->top, 1, 1000000, "ROWS",
                   "Kernels, collectives and calls to print; JSON holds all."),
    };
    memcpy(table, own, sizeof own);
    dl_step_options(&settings->hints, table + DL_LENGTH(own));
}

dl_status dl_info_summarise(dl_activity_summary *summary, const dl_trace *trace,
                            const dl_info_settings *settings, dl_error *err)
{
    DL_SCOPED(dl_activity_steps) steps = {0};
    const dl_status status = dl_activity_steps_init(&steps, trace, &settings->hints, err);
    if (status != DL_OK) return status;
    dl_activity_summary_init(summary, trace, &steps);
    return DL_OK;
}

void dl_info_let_go(dl_trace *trace)
{
    free(trace->activities);
    trace->activities = NULL;
    trace->activity_count = 0;
}
