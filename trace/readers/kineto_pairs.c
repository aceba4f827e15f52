#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "trace/activity/cpu_steps.h"
#include "trace/readers/json_events.h"
#include "trace/readers/kineto_internal.h"

/* What MXNet's engine calls what a kvstore does, and the collective it is taken as. */
static const struct {
    const char *end, *collective;
} stores[] = {{"PushPull", "PushPull"}, {"Push", "Push"}, {"Pull", "Pull"}};

static const char *collective_of_store(const char *name)
{
    if (strncmp(name, "KVStoreDist", strlen("KVStoreDist")) != 0) return NULL;
    for (size_t i = 0; i < sizeof stores / sizeof *stores; i++) {
        const size_t bytes = strlen(name), end = strlen(stores[i].end);
        if (bytes >= end && strcmp(name + bytes - end, stores[i].end) == 0)
            return stores[i].collective;
    }
    return NULL;
}

/* The thread of an event. MXNet's threads have hashes of 64 bits, which get numbers in the order in
 * which they appear. */
static dl_kineto_thread *find_thread(dl_kineto *kineto, dl_json_text tid)
{
    for (size_t i = kineto->thread_count; i-- > 0;) {
        dl_kineto_thread *thread = &kineto->threads[i];
        if (thread->id_bytes == tid.bytes &&
            (tid.bytes == 0 || memcmp(thread->id, tid.at, tid.bytes) == 0))
            return thread;
    }
    int64_t number = 0;
    if (!dl_json_int(tid, &number) || number <= 0 || number > UINT32_MAX)
        number = (int64_t)kineto->thread_count + 1;
    char *id = dl_calloc(tid.bytes + 1, 1, "threads");
    if (tid.bytes > 0) memcpy(id, tid.at, tid.bytes);
    DL_APPEND(kineto->threads, kineto->thread_count, "threads") =
        (dl_kineto_thread){.id = id, .id_bytes = tid.bytes, .number = (uint32_t)number};
    return &kineto->threads[kineto->thread_count - 1];
}

/* What the pair becomes: a range, an exchange of a kvstore, or nothing. */
static void take(dl_kineto *kineto, const dl_json_text *values, bool async, dl_kineto_pair *pair)
{
    static const char *const ranges[] = {"cpu_op", "Operator", "user_annotation"};
    const char *name = kineto->builder.trace.strings[pair->activity.name];
    const dl_json_text category = values[KEY_CAT];
    const bool of_engine = dl_json_is(category, DL_MXNET_OPERATOR);
    pair->activity.kind = DL_ACTIVITY_RANGE;
    pair->activity.detail = dl_kineto_text(kineto, category);
    pair->kept = of_engine && !async; /* each of its operators is there a second time */
    for (size_t i = 0; i < sizeof ranges / sizeof *ranges; i++)
        pair->kept = pair->kept || dl_json_is(category, ranges[i]);
    if (pair->kept) {
        kineto->engine_operators += of_engine;
        kineto->bulks += of_engine && strcmp(name, DL_MXNET_BULK) == 0;
        const char *collective = of_engine ? collective_of_store(name) : NULL;
        if (collective == NULL) return;
        pair->activity.kind = DL_ACTIVITY_COLLECTIVE;
        pair->activity.detail = 0;
        pair->activity.name = dl_trace_builder_name(&kineto->builder, collective);
        return;
    }
    if (of_engine) return;
    if (dl_json_is(category, "MXNET_C_API")) {
        kineto->interface_calls++;
        return;
    }
    if (kineto->other_events++ == 0)
        kineto->other_category = dl_strdup(kineto->builder.trace.strings[pair->activity.detail]);
}

void dl_kineto_open_pair(dl_kineto *kineto, const dl_json_text *values, bool async)
{
    dl_kineto_pair pair = {.name = dl_kineto_text(kineto, values[KEY_NAME])};
    pair.activity.name = pair.name;
    take(kineto, values, async, &pair);
    if (!dl_json_us_to_ns(values[KEY_TS], &pair.activity.start_ns)) {
        kineto->builder.invalid++;
        pair.kept = false;
    }
    dl_kineto_thread *thread = find_thread(kineto, values[KEY_TID]);
    pair.activity.thread = thread->number;
    DL_APPEND(thread->open[async], thread->open_count[async], "open events") = pair;
}

void dl_kineto_close_pair(dl_kineto *kineto, const dl_json_text *values, bool async)
{
    dl_kineto_thread *thread = find_thread(kineto, values[KEY_TID]);
    const uint32_t name = dl_kineto_text(kineto, values[KEY_NAME]);
    const size_t open = thread->open_count[async];
    if (open == 0 || (name != 0 && thread->open[async][open - 1].name != name)) {
        kineto->unpaired++;
        return;
    }
    dl_kineto_pair *pair = &thread->open[async][--thread->open_count[async]];
    int64_t end_ns = 0;
    if (!pair->kept) return;
    if (!dl_json_us_to_ns(values[KEY_TS], &end_ns) ||
        __builtin_sub_overflow(end_ns, pair->activity.start_ns, &pair->activity.duration_ns)) {
        kineto->builder.invalid++;
        return;
    }
    dl_trace_builder_append(&kineto->builder, &pair->activity);
}

void dl_kineto_end_pairs(dl_kineto *kineto)
{
    for (size_t i = 0; i < kineto->thread_count; i++)
        kineto->unpaired += kineto->threads[i].open_count[0] + kineto->threads[i].open_count[1];
}

void dl_kineto_free_pairs(dl_kineto *kineto)
{
    for (size_t i = 0; i < kineto->thread_count; i++) {
        free(kineto->threads[i].id);
        free(kineto->threads[i].open[0]);
        free(kineto->threads[i].open[1]);
    }
    free(kineto->threads);
}
