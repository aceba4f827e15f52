#include "sim/platform/gpu_events.h"

#include <stdlib.h>

#include "common/alloc.h"

#define LINE_BYTES 64
#define ARITY 4

void dl_gpu_events_init(dl_gpu_events *e, int workers, const int64_t delay_ns[DL_GPU_EVENT_LINES])
{
    const size_t bytes = (size_t)workers * sizeof *e->heap;
    char *block = dl_calloc(bytes + 2 * LINE_BYTES, 1, "events");
    const size_t off = LINE_BYTES - (uintptr_t)block % LINE_BYTES;
    dl_ask_for_huge_pages(block, bytes);
    *e = (dl_gpu_events){
        .heap_block = block,
        .heap = (dl_gpu_event *)(void *)(block + off + LINE_BYTES - sizeof *e->heap),
        .first[DL_GPU_EVENT_KINDS] = {INT64_MAX, 0},
        .due = {DL_GPU_EVENT_KINDS},
        .due_count = 1,
        .soon = -1,
    };
    for (int i = 0; i < DL_GPU_EVENT_LINES; i++)
        e->delay_ns[i] = delay_ns[i];
}

void dl_gpu_events_free(dl_gpu_events *e)
{
    for (int i = 0; i < DL_GPU_EVENT_LINES; i++)
        free(e->lines[i].events);
    free(e->heap_block);
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

static void sift_up(dl_gpu_event *heap, int i, dl_gpu_event event)
{
    for (; i > 0 && dl_gpu_event_is_before(event, heap[(i - 1) / ARITY]); i = (i - 1) / ARITY)
        heap[i] = heap[(i - 1) / ARITY];
    heap[i] = event;
}

void dl_gpu_events_push_heap(dl_gpu_events *e, dl_gpu_event event)
{
    sift_up(e->heap, e->heap_count++, event);
}

static inline int lesser(const dl_gpu_event *heap, int a, int b)
{
    return dl_gpu_event_is_before(heap[b], heap[a]) ? b : a;
}

/* Fills the hole at the root down to a leaf, and puts the last event there: it mostly belongs near it.
 * The next level's lines are asked for before it is known which of them is needed. */
void dl_gpu_events_pop_heap(dl_gpu_events *e)
{
    dl_gpu_event *heap = e->heap;
    const int count = --e->heap_count;
    int i = 0;
    for (int child; (child = ARITY * i + 1) < count;) {
        const int below = ARITY * child + 1;
        int least = child;
        for (int c = 0; c < ARITY && below + c * ARITY < count; c++)
            __builtin_prefetch(&heap[below + c * ARITY]);
        if (child + ARITY <= count) {
            least =
                lesser(heap, lesser(heap, child, child + 1), lesser(heap, child + 2, child + 3));
        } else {
            for (int c = child + 1; c < count; c++)
                least = lesser(heap, least, c);
        }
        heap[i] = heap[least];
        i = least;
    }
    if (i < count) sift_up(heap, i, heap[count]);
}
