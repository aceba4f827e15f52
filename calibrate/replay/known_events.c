/* Events whose identity the trace tells. */
#include <stdlib.h>

#include "calibrate/replay/build_state.h"
#include "common/alloc.h"

static int by_object_and_time(const void *a, const void *b)
{
    const dl_activity *x = *(const dl_activity *const *)a, *y = *(const dl_activity *const *)b;
    if (x->object != y->object) return x->object < y->object ? -1 : 1;
    return x->start_ns < y->start_ns ? -1 : x->start_ns > y->start_ns;
}

void replay_events_init(replay_events *events, const dl_trace *trace)
{
    size_t count = 0;
    for (size_t i = 0; i < trace->activity_count; i++)
        count += trace->activities[i].kind == DL_ACTIVITY_EVENT;
    events->items = dl_calloc(count, sizeof *events->items, "replay events");
    events->count = 0;
    for (size_t i = 0; i < trace->activity_count; i++) {
        if (trace->activities[i].kind != DL_ACTIVITY_EVENT) continue;
        events->items[events->count++] = &trace->activities[i];
    }
    qsort(events->items, count, sizeof *events->items, by_object_and_time);
}

void replay_events_free(replay_events *events)
{
    free(events->items);
    *events = (replay_events){0};
}

const dl_activity *replay_events_find(const replay_events *events, uint64_t object, int64_t time_ns)
{
    size_t low = 0, high = events->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const dl_activity *event = events->items[middle];
        if (event->object < object || (event->object == object && event->start_ns <= time_ns)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    if (low == 0 || events->items[low - 1]->object != object) return NULL;
    return events->items[low - 1];
}
