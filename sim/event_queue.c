#include "sim/event_queue.h"

#include <stdlib.h>

#include "common/alloc.h"
#include "common/status.h"

#define ARITY 4

void dl_event_queue_init(dl_event_queue *queue, int capacity)
{
    DL_ASSERT(capacity >= 1, "capacity %d", capacity);
    size_t n = (size_t)capacity;
    *queue = (dl_event_queue){
        .pool = dl_calloc(n, sizeof(dl_event), "events"),
        .heap = dl_calloc(n, sizeof(int), "event heap"),
        .place = dl_calloc(n, sizeof(int), "event places"),
        .free = dl_calloc(n, sizeof(int), "free events"),
        .capacity = capacity,
    };
    for (int i = 0; i < capacity; i++) {
        queue->free[i] = i;
        queue->place[i] = -1;
    }
}

void dl_event_queue_free(dl_event_queue *queue)
{
    free(queue->pool);
    free(queue->heap);
    free(queue->place);
    free(queue->free);
    *queue = (dl_event_queue){0};
}

static bool before(const dl_event *a, const dl_event *b)
{
    if (a->time_ns != b->time_ns) return a->time_ns < b->time_ns;
    return a->sequence < b->sequence;
}

static void put(dl_event_queue *queue, int place, int id)
{
    queue->heap[place] = id;
    queue->place[id] = place;
}

/* Moves `id` from `place` towards the root to where it belongs. */
static void sift_up(dl_event_queue *queue, int place, int id)
{
    while (place > 0) {
        int parent = (place - 1) / ARITY;
        if (!before(&queue->pool[id], &queue->pool[queue->heap[parent]])) break;
        put(queue, place, queue->heap[parent]);
        place = parent;
    }
    put(queue, place, id);
}

/* Moves `id` from `place` away from the root to where it belongs. */
static void sift_down(dl_event_queue *queue, int place, int id)
{
    for (;;) {
        int first = place * ARITY + 1;
        if (first >= queue->count) break;
        int last = first + ARITY < queue->count ? first + ARITY : queue->count;
        int least = first;
        for (int child = first + 1; child < last; child++) {
            if (before(&queue->pool[queue->heap[child]], &queue->pool[queue->heap[least]])) {
                least = child;
            }
        }
        if (!before(&queue->pool[queue->heap[least]], &queue->pool[id])) break;
        put(queue, place, queue->heap[least]);
        place = least;
    }
    put(queue, place, id);
}

int dl_event_queue_push(dl_event_queue *queue, int64_t time_ns, dl_event_fn handler, void *user,
                        int index)
{
    DL_ASSERT(queue->count < queue->capacity, "%d events pending", queue->count);
    int id = queue->free[queue->capacity - queue->count - 1];
    queue->pool[id] = (dl_event){time_ns, queue->next_sequence++, handler, user, index};
    sift_up(queue, queue->count++, id);
    return id;
}

static void take_out(dl_event_queue *queue, int place)
{
    int id = queue->heap[place];
    queue->place[id] = -1;
    queue->count--;
    queue->free[queue->capacity - queue->count - 1] = id;
    if (place == queue->count) return;
    int moved = queue->heap[queue->count];
    if (place > 0 && before(&queue->pool[moved], &queue->pool[queue->heap[(place - 1) / ARITY]])) {
        sift_up(queue, place, moved);
    } else {
        sift_down(queue, place, moved);
    }
}

bool dl_event_queue_pop(dl_event_queue *queue, dl_event *event)
{
    if (queue->count == 0) return false;
    *event = queue->pool[queue->heap[0]];
    take_out(queue, 0);
    return true;
}

void dl_event_queue_cancel(dl_event_queue *queue, int id)
{
    DL_ASSERT(id >= 0 && id < queue->capacity && queue->place[id] >= 0, "event %d is not pending",
              id);
    take_out(queue, queue->place[id]);
}
