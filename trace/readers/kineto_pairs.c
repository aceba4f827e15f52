#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/bytes.h"
#include "trace/activity/cpu_steps.h"
#include "trace/readers/json_events.h"
#include "trace/readers/kineto_internal.h"

/* Largest number of open asynchronous events searched for the one that ends. */
#define ASYNC_DEPTH_MAX 256

/* MXNet's engine names of kvstore operations, and the collectives they become. */
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

/* The slot of a thread, or the empty one where it belongs: less than half of them are in use. */
static uint32_t *slot_of(const dl_kineto *kineto, int64_t pid, const void *tid, size_t bytes)
{
    const size_t mask = kineto->thread_slot_count - 1;
    const uint64_t hash = dl_hash_bytes(dl_hash_bytes(DL_HASH_START, &pid, sizeof pid), tid, bytes);
    for (size_t i = (size_t)hash & mask;; i = (i + 1) & mask) {
        uint32_t *slot = &kineto->thread_slots[i];
        if (*slot == 0) return slot;
        const dl_kineto_thread *thread = &kineto->threads[*slot - 1];
        if (thread->pid == pid && thread->id_bytes == bytes &&
            (bytes == 0 || memcmp(thread->id, tid, bytes) == 0))
            return slot;
    }
}

static void grow_slots(dl_kineto *kineto)
{
    if (2 * (kineto->thread_count + 1) < kineto->thread_slot_count) return;
    const size_t count = kineto->thread_slot_count > 0 ? 2 * kineto->thread_slot_count : 64;
    free(kineto->thread_slots);
    kineto->thread_slots = dl_calloc(count, sizeof *kineto->thread_slots, "threads");
    kineto->thread_slot_count = count;
    for (size_t i = 0; i < kineto->thread_count; i++) {
        const dl_kineto_thread *thread = &kineto->threads[i];
        *slot_of(kineto, thread->pid, thread->id, thread->id_bytes) = (uint32_t)i + 1;
    }
}

/* The thread of an event. MXNet's threads have 64-bit hashes, which get numbers from the highest
 * one downwards, in order of appearance, as the system's numbers are small; so do threads of
 * processes other than the first, whose numbers may coincide. */
static dl_kineto_thread *find_thread(dl_kineto *kineto, const dl_json_text *values)
{
    const dl_json_text tid = values[KEY_TID];
    int64_t number = 0, pid = 0;
    if (!dl_json_int(values[KEY_PID], &pid)) pid = 0;
    grow_slots(kineto);
    uint32_t *slot = slot_of(kineto, pid, tid.at, tid.bytes);
    if (*slot > 0) return &kineto->threads[*slot - 1];
    const bool of_other = kineto->thread_count > 0 && kineto->threads[0].pid != pid;
    if (of_other || !dl_json_int(tid, &number) || number <= 0 || number > UINT32_MAX)
        number = UINT32_MAX - (int64_t)kineto->thread_count;
    char *id = dl_calloc(tid.bytes + 1, 1, "threads");
    if (tid.bytes > 0) memcpy(id, tid.at, tid.bytes);
    DL_APPEND(kineto->threads, kineto->thread_count, "threads") =
        (dl_kineto_thread){.pid = pid, .id = id, .id_bytes = tid.bytes, .number = (uint32_t)number};
    *slot = (uint32_t)kineto->thread_count;
    return &kineto->threads[kineto->thread_count - 1];
}

/* Sets the pair's activity: a range, an exchange of a kvstore, or none. */
static void take(dl_kineto *kineto, const dl_json_text *values, bool async, dl_kineto_pair *pair)
{
    static const char *const ranges[] = {"cpu_op", "Operator", "user_annotation"};
    const char *name = kineto->builder.trace.strings[pair->activity.name];
    const dl_json_text category = values[KEY_CAT];
    const bool of_engine = dl_json_is(category, DL_MXNET_OPERATOR);
    pair->activity.kind = DL_ACTIVITY_RANGE;
    pair->activity.detail = dl_kineto_text(kineto, category);
    pair->kept = of_engine && !async; /* each of its operators appears a second time */
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
    dl_kineto_thread *thread = find_thread(kineto, values);
    pair.activity.thread = thread->number;
    DL_APPEND(thread->open[async], thread->open_count[async], "open events") = pair;
}

/* Index of the open event that this one ends, or none. Events with "E" end in reverse order of
 * their starts; asynchronous ones may overlap, and the latest one of the name is ended. */
#define NO_EVENT SIZE_MAX
static size_t find_open(const dl_kineto_thread *thread, uint32_t name, bool async)
{
    const size_t open = thread->open_count[async];
    const size_t depth = async ? ASYNC_DEPTH_MAX : 1;
    for (size_t i = open; i-- > 0 && open - i <= depth;) {
        if (name == 0 || thread->open[async][i].name == name) return i;
    }
    return NO_EVENT;
}

void dl_kineto_close_pair(dl_kineto *kineto, const dl_json_text *values, bool async)
{
    dl_kineto_thread *thread = find_thread(kineto, values);
    const uint32_t name = dl_kineto_text(kineto, values[KEY_NAME]);
    const size_t place = find_open(thread, name, async);
    if (place == NO_EVENT) {
        kineto->unpaired++;
        return;
    }
    dl_kineto_pair pair = thread->open[async][place];
    const size_t after = --thread->open_count[async] - place;
    memmove(&thread->open[async][place], &thread->open[async][place + 1], after * sizeof pair);
    int64_t end_ns = 0;
    if (!pair.kept) return;
    if (!dl_json_us_to_ns(values[KEY_TS], &end_ns) ||
        __builtin_sub_overflow(end_ns, pair.activity.start_ns, &pair.activity.duration_ns)) {
        kineto->builder.invalid++;
        return;
    }
    dl_trace_builder_append(&kineto->builder, &pair.activity);
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
    free(kineto->thread_slots);
}
