#include "trace/activity/export.h"

#include <ctype.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/sort.h"
#include "common/status.h"
#include "trace/activity/demangle.h"

static dl_chrome_arg *add(dl_activity_label *label, const char *key)
{
    DL_ASSERT(label->arg_count < DL_LABEL_ARGS_MAX, "no room for '%s'", key);
    dl_chrome_arg *arg = &label->args[label->arg_count++];
    *arg = (dl_chrome_arg){.key = key};
    return arg;
}

static void add_number(dl_activity_label *label, const char *key, double value)
{
    add(label, key)->number = value;
}

static void add_positive(dl_activity_label *label, const char *key, double value)
{
    if (value > 0) add_number(label, key, value);
}

static void add_text(dl_activity_label *label, const char *key, const char *text)
{
    if (text[0] != '\0') add(label, key)->text = text;
}

/* Adds an identity as text, since identities have 64 bits and a JSON number has 53. */
static void add_object(dl_activity_label *label, const char *key, uint64_t object)
{
    if (object == 0) return;
    snprintf(label->object_text, sizeof label->object_text, "0x%" PRIx64, object);
    add_text(label, key, label->object_text);
}

static void add_place(dl_activity_label *label, const dl_activity *activity)
{
    add_number(label, "device", activity->device);
    add_number(label, "stream", activity->stream);
    add_positive(label, "correlation", activity->correlation);
    add_positive(label, "graph id", (double)(activity->object >> 32));
    add_positive(label, "graph node id", (double)(activity->object & UINT32_MAX));
}

static void add_triple(dl_activity_label *label, const char *key, const uint32_t *numbers)
{
    dl_chrome_arg *arg = add(label, key);
    arg->numbers = numbers;
    arg->number_count = 3;
}

static void describe_kernel(dl_activity_label *label, const dl_activity *activity,
                            const dl_trace *trace, const char *short_name)
{
    const char *shape = trace->strings[activity->detail], *symbol = trace->strings[activity->name];
    uint32_t *g = label->grid, *b = label->block, shared, registers;
    label->category = "kernel";
    label->title = short_name;
    add_place(label, activity);
    int read = sscanf(shape,
                      "grid %" SCNu32 "x%" SCNu32 "x%" SCNu32 " block %" SCNu32 "x%" SCNu32
                      "x%" SCNu32 " shared %" SCNu32 " regs %" SCNu32,
                      &g[0], &g[1], &g[2], &b[0], &b[1], &b[2], &shared, &registers);
    if (read == 8) {
        add_triple(label, "grid", label->grid);
        add_triple(label, "block", label->block);
        add_number(label, "shared memory", shared);
        add_number(label, "registers per thread", registers);
    } else {
        add_text(label, "launch shape", shape);
    }
    if (strcmp(symbol, short_name) != 0) add_text(label, "symbol", symbol);
}

static void describe_copy(dl_activity_label *label, const dl_activity *activity)
{
    static const char *const directions[DL_COPY_DIRECTION_END] = {
        [DL_COPY_UNKNOWN] = "",  [DL_COPY_H2D] = " HtoD",  [DL_COPY_D2H] = " DtoH",
        [DL_COPY_D2D] = " DtoD", [DL_COPY_PEER] = " PtoP", [DL_COPY_H2H] = " HtoH"};
    static const char *const memories[DL_HOST_MEMORY_END] = {
        [DL_MEMORY_UNKNOWN] = "Host",
        [DL_MEMORY_PAGEABLE] = "Pageable",
        [DL_MEMORY_PINNED] = "Pinned",
        [DL_MEMORY_MANAGED] = "Managed",
    };
    const char *host = memories[activity->memory], *device = "Device";
    bool from_host = activity->copy == DL_COPY_H2D || activity->copy == DL_COPY_H2H;
    bool to_host = activity->copy == DL_COPY_D2H || activity->copy == DL_COPY_H2H;
    label->category = "gpu_memcpy";
    if (activity->copy == DL_COPY_UNKNOWN) {
        label->title = "Memcpy";
    } else {
        snprintf(label->title_text, sizeof label->title_text, "Memcpy%s (%s -> %s)",
                 directions[activity->copy], from_host ? host : device, to_host ? host : device);
    }
    add_place(label, activity);
    add_number(label, "bytes", (double)activity->bytes);
    if (activity->duration_ns > 0) {
        double gigabytes_a_second = (double)activity->bytes / (double)activity->duration_ns;
        add_number(label, "memory bandwidth (GB/s)", gigabytes_a_second);
    }
    if (activity->copy == DL_COPY_PEER) add_number(label, "peer device", activity->peer);
}

static void describe_call(dl_activity_label *label, const dl_activity *activity)
{
    bool is_driver = strncmp(label->title, "cu", 2) == 0 && isupper((unsigned char)label->title[2]);
    label->category = is_driver ? "cuda_driver" : "cuda_runtime";
    add_positive(label, "correlation", activity->correlation);
}

static void describe_sync(dl_activity_label *label, const dl_activity *activity)
{
    static const char *const names[][2] = {{"event", "Event Sync"},
                                           {"stream", "Stream Sync"},
                                           {"context", "Context Sync"},
                                           {"stream wait", "Stream Wait Event"}};
    label->category = "cuda_sync";
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (strcmp(label->title, names[i][0]) == 0) label->title = names[i][1];
    }
    add_positive(label, "stream", activity->stream);
    add_positive(label, "correlation", activity->correlation);
    add_object(label, "wait_on_cuda_event_id", activity->object);
}

static void describe_host(dl_activity_label *label, const dl_activity *activity, const char *detail)
{
    switch (activity->kind) {
    case DL_ACTIVITY_CALL: describe_call(label, activity); break;
    case DL_ACTIVITY_SYNC: describe_sync(label, activity); break;
    case DL_ACTIVITY_COLLECTIVE:
        label->category = "collective_comm";
        add_number(label, "bytes", (double)activity->bytes);
        add_object(label, "communicator", activity->object);
        if (activity->peer != DL_RANK_UNKNOWN) add_number(label, "peer", activity->peer);
        break;
    case DL_ACTIVITY_OVERHEAD: label->category = "overhead"; break;
    default:
        label->category = "user_annotation";
        add_text(label, "domain", detail);
        break;
    }
}

void dl_activity_label_init(dl_activity_label *label, const dl_activity *activity,
                            const dl_trace *trace, const char *short_name)
{
    label->arg_count = 0;
    label->title = trace->strings[activity->name];
    label->title_text[0] = '\0';
    switch (activity->kind) {
    case DL_ACTIVITY_KERNEL: describe_kernel(label, activity, trace, short_name); break;
    case DL_ACTIVITY_MEMCPY:
        label->title = label->title_text;
        describe_copy(label, activity);
        break;
    case DL_ACTIVITY_MEMSET:
        label->category = "gpu_memset";
        label->title = "Memset (Device)";
        add_place(label, activity);
        add_number(label, "bytes", (double)activity->bytes);
        break;
    case DL_ACTIVITY_GRAPH:
        label->category = "gpu_graph";
        label->title = label->title_text;
        snprintf(label->title_text, sizeof label->title_text, "graph %" PRIu64,
                 activity->object >> 32);
        add_place(label, activity);
        break;
    default: describe_host(label, activity, trace->strings[activity->detail]); break;
    }
    if (label->title[0] == '\0') {
        label->title = dl_activity_kind_name((dl_activity_kind)activity->kind);
    }
}

/* An activity with its sort key. `line` is its stream or thread; a firm slice stays on its lane if
 * one that is not firm crosses it; makes_way: the slice moves to an additional lane. */
typedef struct slot {
    uint64_t line;
    int64_t start_ns, end_ns;
    uint32_t activity;
    uint8_t is_stream, is_firm, is_instant, makes_way;
} slot;

typedef struct layout {
    dl_activity_tracks *tracks;
    slot *slots;
    size_t *stack; /* open slots, each nested in the previous one */
    size_t placed;
} layout;

static bool has_track(const dl_activity *activity)
{
    return activity->kind != DL_ACTIVITY_EVENT && activity->kind != DL_ACTIVITY_COMM &&
           activity->kind != DL_ACTIVITY_CLOCK;
}

static slot slot_of(const dl_activity *activity, uint32_t index, const dl_launches *launches)
{
    slot s = {.line = activity->thread,
              .start_ns = activity->start_ns,
              .end_ns = activity->start_ns + activity->duration_ns,
              .activity = index};
    s.is_stream = dl_activity_is_device_work(activity);
    s.is_firm = s.is_stream || activity->kind == DL_ACTIVITY_CALL;
    s.is_instant = activity->kind == DL_ACTIVITY_MARK;
    if (s.is_stream) s.line = (uint64_t)activity->device << 32 | activity->stream;
    if (activity->kind == DL_ACTIVITY_SYNC) {
        const dl_activity *call = dl_launches_find(launches, activity->correlation);
        if (call != NULL) s.line = call->thread;
    }
    return s;
}

/* A call and its details may have equal times; the call is the outer slice. */
DL_ORDER(by_track_and_time, slot, DL_BY(is_stream), DL_BY(line), DL_BY(start_ns),
         DL_BY_DESCENDING(end_ns), DL_BY_DESCENDING(is_firm), DL_BY(activity));

/* Pushes slots[i] onto the stack; if it crosses slots of the stack, marks either these or slots[i]
 * to move to an additional lane. Returns the new depth. */
static size_t open_slot(slot *slots, size_t i, size_t *stack, size_t depth)
{
    slot *opened = &slots[i];
    while (depth > 0 && slots[stack[depth - 1]].end_ns <= opened->start_ns)
        depth--;
    /* Ends decrease towards the top, so the crossed slots are at the top. */
    size_t held = depth;
    for (; held > 0 && slots[stack[held - 1]].end_ns < opened->end_ns; held--) {
        if (!opened->is_firm || slots[stack[held - 1]].is_firm) {
            opened->makes_way = 1;
            return depth;
        }
    }
    for (size_t d = held; d < depth; d++)
        slots[stack[d]].makes_way = 1;
    stack[held] = i;
    return held + 1;
}

static dl_track *add_track(layout *to, const slot *s, uint32_t lane)
{
    dl_activity_tracks *tracks = to->tracks;
    dl_track *track = &DL_APPEND(tracks->tracks, tracks->count, "tracks");
    *track = (dl_track){.is_stream = s->is_stream, .lane = lane, .first = to->placed};
    if (s->is_stream) {
        track->device = (uint32_t)(s->line >> 32);
        track->stream = (uint32_t)s->line;
    } else {
        track->thread = (uint32_t)s->line;
    }
    return track;
}

/* Places one lane of the sorted slots[count] of one line. Moves the remaining slots, still sorted,
 * to the front and returns their number. */
static size_t place_lane(layout *to, slot *slots, size_t count, uint32_t lane)
{
    size_t depth = 0, left = 0;
    for (size_t i = 0; i < count; i++) {
        slots[i].makes_way = 0;
        if (!slots[i].is_instant) depth = open_slot(slots, i, to->stack, depth);
    }
    dl_track *track = add_track(to, &slots[0], lane);
    for (size_t i = 0; i < count; i++) {
        if (slots[i].makes_way) {
            slots[left++] = slots[i];
            continue;
        }
        to->tracks->order[to->placed++] = slots[i].activity;
        to->tracks->track_of[slots[i].activity] = (uint32_t)(to->tracks->count - 1);
    }
    track->count = to->placed - track->first;
    return left;
}

void dl_activity_tracks_init(dl_activity_tracks *tracks, const dl_activity *activities,
                             size_t count, const dl_launches *launches)
{
    DL_ASSERT(count < UINT32_MAX, "%zu activities", count);
    layout to = {.tracks = tracks};
    tracks->track_of = dl_calloc(count, sizeof *tracks->track_of, "tracks");
    tracks->order = dl_calloc(count, sizeof *tracks->order, "tracks");
    to.slots = dl_calloc(count, sizeof *to.slots, "tracks");
    to.stack = dl_calloc(count, sizeof *to.stack, "tracks");
    size_t used = 0;
    for (size_t i = 0; i < count; i++) {
        tracks->track_of[i] = DL_NO_TRACK;
        if (!has_track(&activities[i])) continue;
        to.slots[used++] = slot_of(&activities[i], (uint32_t)i, launches);
    }
    qsort(to.slots, used, sizeof *to.slots, by_track_and_time);
    DL_GROUPS (first, end, used,
               to.slots[end].line == to.slots[first].line &&
                   to.slots[end].is_stream == to.slots[first].is_stream) {
        size_t left = end - first;
        for (uint32_t lane = 0; left > 0; lane++)
            left = place_lane(&to, to.slots + first, left, lane);
    }
    free(to.slots);
    free(to.stack);
}

void dl_activity_tracks_free(dl_activity_tracks *tracks)
{
    free(tracks->tracks);
    free(tracks->order);
    free(tracks->track_of);
    *tracks = (dl_activity_tracks){0};
}

/* Thread ids are below 2^22 in Linux (PID_MAX_LIMIT of include/linux/threads.h). */
enum { THREAD_LIMIT = 1 << 22, STREAM_BITS = 24, OTHER_TIDS = 1 << 30, NAME_BYTES = 160 };

typedef struct exporter {
    dl_chrome_trace out;
    int64_t origin_ns;
    uint64_t flows; /* number of assigned ids */
} exporter;

/* State of one trace during the export. */
typedef struct process {
    const dl_trace *trace;
    int pid;
    dl_launches launches;
    dl_activity_tracks tracks;
    int *tids;      /* tid of each track */
    int other_tids; /* number of assigned ids for other tracks */
    char **titles;  /* readable kernel names by name id; NULL until used */
} process;

static int64_t earliest(const dl_export_process *processes, size_t count)
{
    int64_t origin_ns = INT64_MAX;
    for (size_t p = 0; p < count; p++) {
        const dl_trace *trace = processes[p].trace;
        for (size_t i = 0; i < trace->activity_count; i++) {
            const dl_activity *activity = &trace->activities[i];
            if (has_track(activity) && activity->start_ns < origin_ns)
                origin_ns = activity->start_ns;
        }
    }
    return origin_ns < INT64_MAX ? origin_ns : 0;
}

/* Returns the trace's rank, or -1. */
static int rank_of(const dl_trace *trace)
{
    return (int)dl_trace_meta_int(trace, "rank", 0, INT32_MAX, -1);
}

static bool ranks_are_unique(const dl_export_process *processes, size_t count)
{
    DL_AUTOFREE int *ranks = dl_calloc(count, sizeof *ranks, "ranks");
    for (size_t p = 0; p < count; p++)
        ranks[p] = rank_of(processes[p].trace);
    qsort(ranks, count, sizeof *ranks, dl_compare_ints);
    bool unique = count > 0 && ranks[0] >= 0;
    for (size_t p = 1; p < count; p++)
        unique &= ranks[p] != ranks[p - 1];
    return unique;
}

static dl_status check_clocks(const dl_export_process *processes, size_t count, dl_error *err)
{
    for (size_t p = 1; p < count; p++) {
        const char *first = dl_trace_meta_text(processes[0].trace, "clock");
        const char *clock = dl_trace_meta_text(processes[p].trace, "clock");
        if (strcmp(first, clock) != 0) {
            return dl_error_set_at(
                err, DL_ERR_DATA, processes[p].trace->path, 0,
                "times of clock \"%s\" cannot be aligned with those of \"%s\" in %s", clock, first,
                processes[0].trace->path);
        }
    }
    return DL_OK;
}

/* Names the process from all known data: "rank 0: host pid 1234". */
static void name_process(exporter *to, const process *from)
{
    const char *host = dl_trace_meta(from->trace, "host"), *pid = dl_trace_meta(from->trace, "pid");
    int rank = rank_of(from->trace);
    char rank_text[32] = "", name[NAME_BYTES];
    if (rank >= 0) snprintf(rank_text, sizeof rank_text, "rank %d: ", rank);
    if (host == NULL && pid == NULL) {
        snprintf(name, sizeof name, "%s%s", rank_text, from->trace->path);
    } else {
        snprintf(name, sizeof name, "%s%s%spid %s", rank_text, host != NULL ? host : "",
                 host != NULL ? " " : "", pid != NULL ? pid : "?");
    }
    dl_chrome_trace_process(&to->out, from->pid, name);
}

static int other_tid(process *from)
{
    DL_ASSERT(from->other_tids < OTHER_TIDS, "%d tracks", from->other_tids);
    return OTHER_TIDS + from->other_tids++;
}

static int tid_of(process *from, const dl_track *track)
{
    const uint32_t devices = OTHER_TIDS >> STREAM_BITS;
    if (track->lane == 0) {
        if (!track->is_stream && track->thread < THREAD_LIMIT) return (int)track->thread;
        if (track->is_stream && track->device < devices - 1 && track->stream >> STREAM_BITS == 0) {
            return (int)((track->device + 1) << STREAM_BITS | track->stream);
        }
    }
    return other_tid(from);
}

static void name_track(exporter *to, const process *from, const dl_track *track, int tid)
{
    char name[NAME_BYTES], key[32], lane[24] = "";
    if (track->lane > 0) snprintf(lane, sizeof lane, " (%u)", track->lane + 1);
    if (track->is_stream) {
        snprintf(name, sizeof name, "GPU %u stream %u%s", track->device, track->stream, lane);
    } else {
        snprintf(key, sizeof key, "thread.%u", track->thread);
        const char *given = dl_trace_meta(from->trace, key);
        snprintf(name, sizeof name, "%.100s%sthread %u%s", given != NULL ? given : "",
                 given != NULL ? ", " : "", track->thread, lane);
    }
    dl_chrome_trace_thread(&to->out, from->pid, tid, name);
}

static const char *kernel_title(process *from, uint32_t name)
{
    if (from->titles[name] == NULL) {
        from->titles[name] = dl_demangle_short(from->trace->strings[name]);
    }
    return from->titles[name];
}

/* Writes an arrow from the call's start to the work's start. Clocks of host and device differ by
 * microseconds, so work may appear to start before its call: the arrow then ends within the work,
 * and is omitted if the work also ends before the call. */
static void write_arrow(exporter *to, const process *from, const dl_activity *work, int work_tid)
{
    const dl_activity *call = dl_launches_find(&from->launches, work->correlation);
    if (call == NULL) return;
    int64_t from_ns = call->start_ns;
    int64_t to_ns = work->start_ns > from_ns ? work->start_ns : from_ns;
    if (to_ns > work->start_ns && to_ns >= work->start_ns + work->duration_ns) return;
    int call_tid = from->tids[from->tracks.track_of[call - from->trace->activities]];
    uint64_t id = ++to->flows;
    dl_chrome_trace_flow(&to->out, from->pid, call_tid, id, 1, "launch", from_ns - to->origin_ns);
    dl_chrome_trace_flow(&to->out, from->pid, work_tid, id, 0, "launch", to_ns - to->origin_ns);
}

static void write_activity(exporter *to, process *from, const dl_activity *activity, int tid)
{
    dl_activity_label label;
    bool is_kernel = activity->kind == DL_ACTIVITY_KERNEL;
    dl_activity_label_init(&label, activity, from->trace,
                           is_kernel ? kernel_title(from, activity->name) : NULL);
    int64_t start_ns = activity->start_ns - to->origin_ns;
    if (activity->kind == DL_ACTIVITY_MARK) {
        dl_chrome_trace_instant(&to->out, from->pid, tid, label.category, label.title, start_ns,
                                label.args, label.arg_count);
    } else {
        dl_chrome_trace_slice(&to->out, from->pid, tid, label.category, label.title, start_ns,
                              activity->duration_ns, label.args, label.arg_count);
    }
}

/* Writes the tracks, threads before streams, so that both slices of an arrow exist before it. */
static void write_tracks(exporter *to, process *from)
{
    const dl_activity_tracks *tracks = &from->tracks;
    from->tids = dl_calloc(tracks->count, sizeof *from->tids, "tracks");
    for (size_t t = 0; t < tracks->count; t++) {
        from->tids[t] = tid_of(from, &tracks->tracks[t]);
        name_track(to, from, &tracks->tracks[t], from->tids[t]);
    }
    for (size_t t = 0; t < tracks->count; t++) {
        const dl_track *track = &tracks->tracks[t];
        for (size_t i = track->first; i < track->first + track->count; i++) {
            const dl_activity *activity = &from->trace->activities[tracks->order[i]];
            write_activity(to, from, activity, from->tids[t]);
            if (track->is_stream) write_arrow(to, from, activity, from->tids[t]);
        }
    }
}

/* Writes a line of steps; overlapping steps are laid out on several tracks, like ranges. */
static void write_line(exporter *to, process *from, const dl_export_line *line)
{
    DL_AUTOFREE dl_activity *ranges = dl_calloc(line->count, sizeof *ranges, "steps");
    for (size_t i = 0; i < line->count; i++) {
        ranges[i] = (dl_activity){.kind = DL_ACTIVITY_RANGE,
                                  .start_ns = line->steps[i].start_ns,
                                  .duration_ns = line->steps[i].duration_ns};
    }
    dl_launches none = {0};
    DL_SCOPED(dl_activity_tracks) tracks = {0};
    dl_activity_tracks_init(&tracks, ranges, line->count, &none);
    for (size_t t = 0; t < tracks.count; t++) {
        int tid = other_tid(from);
        char name[NAME_BYTES], lane[24] = "";
        if (t > 0) snprintf(lane, sizeof lane, " (%zu)", t + 1);
        snprintf(name, sizeof name, "%.100s%s", line->name, lane);
        dl_chrome_trace_thread(&to->out, from->pid, tid, name);
        const dl_track *track = &tracks.tracks[t];
        for (size_t i = track->first; i < track->first + track->count; i++) {
            const dl_export_step *step = &line->steps[tracks.order[i]];
            dl_chrome_trace_slice(&to->out, from->pid, tid, "user_annotation", step->label,
                                  step->start_ns - to->origin_ns, step->duration_ns, NULL, 0);
        }
    }
}

static void write_process(exporter *to, const dl_export_process *given, int pid)
{
    const dl_trace *trace = given->trace;
    process from = {.trace = trace, .pid = pid};
    dl_launches_init(&from.launches, trace->activities, trace->activity_count);
    dl_activity_tracks_init(&from.tracks, trace->activities, trace->activity_count, &from.launches);
    from.titles = dl_calloc(trace->string_count, sizeof *from.titles, "titles");
    name_process(to, &from);
    for (size_t i = 0; i < given->line_count; i++)
        write_line(to, &from, &given->lines[i]);
    write_tracks(to, &from);
    for (size_t i = 0; i < trace->string_count; i++)
        free(from.titles[i]);
    free(from.titles);
    free(from.tids);
    dl_activity_tracks_free(&from.tracks);
    dl_launches_free(&from.launches);
}

dl_status dl_activity_export(const dl_export_process *processes, size_t count, const char *path,
                             dl_error *err)
{
    dl_status status = check_clocks(processes, count, err);
    if (status != DL_OK) return status;
    exporter to = {.origin_ns = earliest(processes, count)};
    status = dl_chrome_trace_open(&to.out, path, err);
    if (status != DL_OK) return status;
    bool by_rank = ranks_are_unique(processes, count);
    for (size_t p = 0; p < count; p++) {
        write_process(&to, &processes[p], by_rank ? rank_of(processes[p].trace) : (int)p);
    }
    return dl_chrome_trace_close(&to.out, err);
}
