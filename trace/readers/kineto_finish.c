#include <ctype.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/alloc.h"
#include "trace/activity/activity_launches.h"
#include "trace/kernel_class.h"
#include "trace/readers/kineto_state.h"

#define COMPARE(a, b) (((a) > (b)) - ((a) < (b)))
/* Launches without a kernel, of all launches, from which on a trace looks thinned out: at the
 * borders of whole traces some hundred are cut off. */
#define MISSING_FRAC 0.1

static int by_correlation(const void *left, const void *right)
{
    const dl_kineto_copy *a = left, *b = right;
    return COMPARE(a->correlation, b->correlation);
}

static int by_object(const void *left, const void *right)
{
    const dl_kineto_wait *a = left, *b = right;
    return COMPARE(a->object, b->object);
}

static int by_number(const void *left, const void *right)
{
    const uint32_t *a = left, *b = right;
    return COMPARE(*a, *b);
}

/* Times count from the base. */
static void shift(dl_kineto *kineto)
{
    dl_trace *trace = &kineto->builder.trace;
    size_t kept = 0;
    for (size_t i = 0; i < trace->activity_count; i++) {
        dl_activity *a = &trace->activities[i];
        if (__builtin_add_overflow(a->start_ns, kineto->base_ns, &a->start_ns) ||
            !dl_activity_valid(a)) {
            kineto->builder.invalid++;
            continue;
        }
        trace->activities[kept++] = *a;
    }
    trace->activity_count = kept;
    for (size_t i = 0; i < kineto->call_count; i++) {
        dl_kineto_call *call = &kineto->calls[i];
        if (__builtin_add_overflow(call->start_ns, kineto->base_ns, &call->start_ns))
            call->start_ns = -1; /* refused when it is appended */
    }
}

/* Bytes of copies from their calls, where the copies themselves do not tell. */
static void size_copies(dl_kineto *kineto)
{
    dl_trace *trace = &kineto->builder.trace;
    size_t unknown = 0, copies = 0;
    if (kineto->copy_count > 0)
        qsort(kineto->copies, kineto->copy_count, sizeof *kineto->copies, by_correlation);
    for (size_t i = 0; i < trace->activity_count; i++) {
        dl_activity *a = &trace->activities[i];
        if (a->kind != DL_ACTIVITY_MEMCPY) continue;
        copies++;
        if (a->bytes > 0) continue;
        const dl_kineto_copy key = {.correlation = a->correlation}, *found = NULL;
        if (kineto->copy_count > 0)
            found = bsearch(&key, kineto->copies, kineto->copy_count, sizeof key, by_correlation);
        if (found != NULL) a->bytes = found->bytes;
        unknown += found == NULL;
    }
    if (unknown > 0) {
        dl_read_note(kineto->item, "%zu of %zu copies do not tell their bytes", unknown, copies);
    }
}

/* An EVENT for each record that was waited for, at the call that made it. */
static void add_events(dl_kineto *kineto)
{
    dl_launches launches = {0};
    size_t count = 0, lost = 0;
    if (kineto->wait_count == 0) return;
    qsort(kineto->waits, kineto->wait_count, sizeof *kineto->waits, by_object);
    dl_activity *events = dl_calloc(kineto->wait_count, sizeof *events, "events");
    dl_launches_init(&launches, kineto->builder.trace.activities,
                     kineto->builder.trace.activity_count);
    for (size_t i = 0; i < kineto->wait_count; i++) {
        const dl_kineto_wait *w = &kineto->waits[i];
        if (i > 0 && w->object == kineto->waits[i - 1].object) continue;
        const dl_activity *call = dl_launches_find(&launches, w->record);
        if (call == NULL) {
            lost++;
            continue;
        }
        events[count++] = (dl_activity){.kind = DL_ACTIVITY_EVENT,
                                        .device = w->device,
                                        .stream = w->stream,
                                        .correlation = w->record,
                                        .object = w->object,
                                        .start_ns = call->start_ns};
    }
    dl_launches_free(&launches);
    for (size_t i = 0; i < count; i++)
        dl_trace_builder_append(&kineto->builder, &events[i]);
    free(events);
    if (lost > 0) {
        dl_read_note(kineto->item, "%zu events that were waited for were recorded before the trace",
                     lost);
    }
}

static bool is_kernel_launch(const char *name)
{
    return strstr(name, "LaunchKernel") != NULL || strstr(name, "LaunchCooperativeKernel") != NULL;
}

/* Nothing marks a thinned-out trace but launches without kernels. */
static void note_missing_kernels(dl_kineto *kineto)
{
    const dl_trace *trace = &kineto->builder.trace;
    size_t kernels = 0, launches = 0, missing = 0;
    uint32_t *seen = dl_calloc(trace->activity_count, sizeof *seen, "kernels");
    bool *launching = dl_calloc(trace->string_count, sizeof *launching, "calls");
    for (size_t i = 0; i < trace->string_count; i++)
        launching[i] = is_kernel_launch(trace->strings[i]);
    for (size_t i = 0; i < trace->activity_count; i++) {
        if (trace->activities[i].kind == DL_ACTIVITY_KERNEL)
            seen[kernels++] = trace->activities[i].correlation;
    }
    if (kernels > 0) qsort(seen, kernels, sizeof *seen, by_number);
    for (size_t i = 0; i < trace->activity_count; i++) {
        const dl_activity *a = &trace->activities[i];
        if (a->kind != DL_ACTIVITY_CALL || !launching[a->name]) continue;
        launches++;
        missing += kernels == 0 ||
                   bsearch(&a->correlation, seen, kernels, sizeof *seen, by_number) == NULL;
    }
    if (missing > 0 && (double)missing > MISSING_FRAC * (double)launches) {
        dl_read_note(kineto->item,
                     "%zu of %zu launches of kernels have no kernel: the trace may be thinned out",
                     missing, launches);
    }
    free(launching);
    free(seen);
}

/* cudaStreamWaitEvent tells neither event nor stream; only cuda_sync does. */
static void note_lost_edges(dl_kineto *kineto)
{
    const dl_trace *trace = &kineto->builder.trace;
    size_t waits = 0, syncs = 0;
    for (size_t i = 0; i < trace->activity_count; i++) {
        const dl_activity *a = &trace->activities[i];
        syncs += a->kind == DL_ACTIVITY_SYNC;
        waits += a->kind == DL_ACTIVITY_CALL &&
                 strstr(trace->strings[a->name], "StreamWaitEvent") != NULL;
    }
    if (waits > 0 && syncs == 0) {
        dl_read_note(kineto->item,
                     "%zu waits of streams for one another are recorded without saying for what "
                     "(the profiler's cuda_sync events were off)",
                     waits);
    }
}

/* A number behind "rank" or "worker" in the file's name, or -1. */
static int64_t rank_of_name(const char *path)
{
    static const char *const words[] = {"rank", "worker"};
    const char *slash = strrchr(path, '/'), *name = slash != NULL ? slash + 1 : path;
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const char *at = strcasestr(name, words[i]);
        if (at == NULL) continue;
        at += strlen(words[i]);
        at += *at == '-' || *at == '_';
        if (isdigit((unsigned char)*at)) return strtoll(at, NULL, 10);
    }
    return -1;
}

static void tell_rank(dl_kineto *kineto)
{
    dl_trace_builder *builder = &kineto->builder;
    if (kineto->rank < 0) {
        kineto->rank = rank_of_name(builder->trace.path);
        if (kineto->rank >= 0) {
            dl_read_note(kineto->item, "the rank is taken from the file's name");
        } else if (kineto->ranks > 1 || kineto->call_count > 0) {
            dl_read_note(kineto->item, "the trace does not tell its rank");
        }
    }
    if (kineto->ranks <= 0 && kineto->call_count > 0)
        dl_read_note(kineto->item, "the trace does not tell the number of ranks");
    if (kineto->rank >= 0) dl_trace_builder_meta(builder, "rank", "%" PRId64, kineto->rank);
    if (kineto->ranks > 0) dl_trace_builder_meta(builder, "world_size", "%" PRId64, kineto->ranks);
}

static void tell_process(dl_kineto *kineto)
{
    char key[40];
    if (kineto->pid < 0) return;
    dl_trace_builder_meta(&kineto->builder, "pid", "%" PRId64, kineto->pid);
    snprintf(key, sizeof key, "process.%" PRId64, kineto->pid);
    const char *name = dl_trace_meta(&kineto->builder.trace, key);
    if (name != NULL) dl_trace_builder_meta(&kineto->builder, "command", "%s", name);
    if (kineto->several_pids) {
        dl_read_note(kineto->item, "the host's calls are of several processes, taken as one");
    }
}

static void note_rest(dl_kineto *kineto)
{
    if (!kineto->has_fraction && kineto->builder.trace.activity_count > 0) {
        dl_read_note(kineto->item,
                     "times are whole microseconds: short kernels and gaps are inexact");
    }
    if (kineto->python_functions > 0) {
        dl_read_note(kineto->item, "%" PRIu64 " Python functions are left out",
                     kineto->python_functions);
    }
    if (kineto->other_events > 0) {
        dl_read_note(kineto->item,
                     "%" PRIu64 " events of unknown categories are left out, the first of '%s'",
                     kineto->other_events, kineto->other_category);
    }
}

void dl_kineto_finish(dl_kineto *kineto)
{
    tell_rank(kineto);
    tell_process(kineto);
    shift(kineto);
    size_copies(kineto);
    add_events(kineto);
    note_lost_edges(kineto);
    note_missing_kernels(kineto);
    dl_kineto_add_collectives(kineto);
    note_rest(kineto);
    dl_trace_builder_meta(&kineto->builder, "clock", "realtime");
    dl_trace_builder_meta(&kineto->builder, "framework", "PyTorch");
}
