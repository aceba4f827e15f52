#include "sim/platform/gpu_events.h"

#include <stdlib.h>

#include "common/alloc.h"

void dl_gpu_events_init(dl_gpu_events *e, int workers, const int64_t delay_ns[DL_GPU_EVENT_LINES])
{
    *e = (dl_gpu_events){
        .first[DL_GPU_EVENT_KINDS] = {INT64_MAX, 0},
        .due = {DL_GPU_EVENT_KINDS},
        .due_count = 1,
        .soon = -1,
    };
    dl_key_queue_init(&e->varying, workers);
    for (int i = 0; i < DL_GPU_EVENT_LINES; i++)
        e->delay_ns[i] = delay_ns[i];
}

void dl_gpu_events_free(dl_gpu_events *e)
{
    for (int i = 0; i < DL_GPU_EVENT_LINES; i++)
        free(e->lines[i].events);
    dl_key_queue_free(&e->varying);
    free(e->at_once);
    *e = (dl_gpu_events){0};
}

static uint32_t twice(uint32_t old)
{
    return old > 0 ? 2 * old : 64;
}

void dl_gpu_events_grow_at_once(dl_gpu_events *e)
{
    const uint32_t old = e->at_once_room, room = twice(old);
    e->at_once = dl_realloc(e->at_once, room, sizeof *e->at_once, "events");
    for (uint32_t i = 0; old > 0 && i < e->at_once_first; i++) /* what wrapped round */
        e->at_once[old + i] = e->at_once[i];
    e->at_once_room = room;
}

void dl_gpu_events_grow_line(dl_gpu_event_line *l)
{
    const uint32_t old = l->room, room = twice(old);
    l->events = dl_realloc(l->events, room, sizeof *l->events, "events");
    for (uint32_t i = 0; old > 0 && i < l->start; i++)
        l->events[old + i] = l->events[i];
    l->room = room;
}
