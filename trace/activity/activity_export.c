#include "trace/activity/activity_export.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/chrome_trace.h"
#include "trace/activity/activity_label.h"
#include "trace/activity/activity_tracks.h"
#include "trace/demangle.h"
#include "trace/meta.h"

/* Numbers of threads are below 2^22 in Linux (PID_MAX_LIMIT of include/linux/threads.h). */
enum { THREAD_LIMIT = 1 << 22, STREAM_BITS = 24, OTHER_TIDS = 1 << 30, NAME_BYTES = 160 };

typedef struct exporter {
    dl_chrome_trace out;
    int64_t origin_ns;
    uint64_t flows; /* ids given so far */
} exporter;

/* One trace while it is written. */
typedef struct process {
    const dl_trace *trace;
    int pid;
    dl_launches launches;
    dl_activity_tracks tracks;
    int *tids;      /* of the tracks */
    int other_tids; /* given so far */
    char **titles;  /* by name id: readable names of kernels; NULL until used */
} process;

static int64_t earliest(const dl_export_process *processes, size_t count)
{
    int64_t origin_ns = INT64_MAX;
    for (size_t p = 0; p < count; p++) {
        const dl_trace *trace = processes[p].trace;
        for (size_t i = 0; i < trace->activity_count; i++) {
            const dl_activity *activity = &trace->activities[i];
            bool drawn = activity->kind != DL_ACTIVITY_EVENT &&
                         activity->kind != DL_ACTIVITY_COMM && activity->kind != DL_ACTIVITY_CLOCK;
            if (drawn && activity->start_ns < origin_ns) origin_ns = activity->start_ns;
        }
    }
    return origin_ns < INT64_MAX ? origin_ns : 0;
}

/* The trace's rank, or -1. */
static int rank_of(const dl_trace *trace)
{
    return (int)dl_trace_meta_int(trace, "rank", 0, INT32_MAX, -1);
}

static int by_value(const void *a, const void *b)
{
    int x = *(const int *)a, y = *(const int *)b;
    return (x > y) - (x < y);
}

static bool ranks_are_unique(const dl_export_process *processes, size_t count)
{
    int *ranks = dl_calloc(count, sizeof *ranks, "ranks");
    for (size_t p = 0; p < count; p++)
        ranks[p] = rank_of(processes[p].trace);
    qsort(ranks, count, sizeof *ranks, by_value);
    bool unique = count > 0 && ranks[0] >= 0;
    for (size_t p = 1; p < count; p++)
        unique &= ranks[p] != ranks[p - 1];
    free(ranks);
    return unique;
}

static dl_status check_clocks(const dl_export_process *processes, size_t count, dl_error *err)
{
    for (size_t p = 1; p < count; p++) {
        const char *first = dl_trace_meta(processes[0].trace, "clock");
        const char *clock = dl_trace_meta(processes[p].trace, "clock");
        if (first == NULL) first = "";
        if (clock == NULL) clock = "";
        if (strcmp(first, clock) != 0) {
            return dl_error_set_at(err, DL_ERR_DATA, processes[p].trace->path, 0,
                                   "times of clock \"%s\" cannot be laid beside those of \"%s\" in "
                                   "%s",
                                   clock, first, processes[0].trace->path);
        }
    }
    return DL_OK;
}

/* "rank 0: host pid 1234", of what is known. */
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

/* From the call's begin to the work's; clocks of host and device differ by microseconds, so a work
 * may seem to begin before its call: the arrow then ends within the work, not before it begins. */
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

/* Threads come before streams, so that an arrow's slices are there before it. */
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

/* Steps that overlap are laid on several tracks as ranges are. */
static void write_line(exporter *to, process *from, const dl_export_line *line)
{
    dl_activity *ranges = dl_calloc(line->count, sizeof *ranges, "steps");
    for (size_t i = 0; i < line->count; i++) {
        ranges[i] = (dl_activity){.kind = DL_ACTIVITY_RANGE,
                                  .start_ns = line->steps[i].start_ns,
                                  .duration_ns = line->steps[i].duration_ns};
    }
    dl_launches none = {0};
    dl_activity_tracks tracks = {0};
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
    dl_activity_tracks_free(&tracks);
    free(ranges);
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
