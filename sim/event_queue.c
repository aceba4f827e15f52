#include "sim/event_queue.h"

#include <stdlib.h>

#include "common/alloc.h"
#include "common/status.h"

#define ARITY 4
#define STALE_LEAST 64 /* cancelled events that are not worth clearing out */

void dl_event_queue_init(dl_event_queue *queue, int capacity)
{
    DL_ASSERT(capacity >= 1, "capacity %d", capacity);
    const size_t n = (size_t)capacity;
    *queue = (dl_event_queue){
        .capacity = capacity,
        .pool = dl_calloc(n, sizeof *queue->pool, "events"),
        .heap = dl_calloc(n, sizeof *queue->heap, "event heap"),
        .room = capacity,
        .free = -1,
    };
}

void dl_event_queue_free(dl_event_queue *queue)
{
    free(queue->pool);
    free(queue->heap);
    *queue = (dl_event_queue){0};
}

static bool before(const dl_event_key *a, const dl_event_key *b)
{
    if (a->time_ns != b->time_ns) return a->time_ns < b->time_ns;
    return a->sequence < b->sequence;
}

/* Puts the key at `place`, or as far towards the root as it belongs. */
static void sift_up(dl_event_queue *queue, int place, dl_event_key key)
{
    dl_event_key *heap = queue->heap;
    while (place > 0) {
        const int parent = (place - 1) / ARITY;
        if (!before(&key, &heap[parent])) break;
        heap[place] = heap[parent];
        place = parent;
    }
    heap[place] = key;
}

/* The least of the children from `first` on; there is one at least. */
static int least_child(const dl_event_queue *queue, int first)
{
    const int end = first + ARITY < queue->count ? first + ARITY : queue->count;
    int least = first;
    for (int child = first + 1; child < end; child++)
        if (before(&queue->heap[child], &queue->heap[least])) least = child;
    return least;
}

/* Fills the hole at `place` with what follows below it, down to a leaf, and puts the key there: it
 * comes from the end, so mostly belongs near it. */
static void fill_hole(dl_event_queue *queue, int place, dl_event_key key)
{
    for (int first; (first = place * ARITY + 1) < queue->count;) {
        const int least = least_child(queue, first);
        queue->heap[place] = queue->heap[least];
        place = least;
    }
    sift_up(queue, place, key);
}

static void sift_down(dl_event_queue *queue, int place, dl_event_key key)
{
    for (int first; (first = place * ARITY + 1) < queue->count;) {
        const int least = least_child(queue, first);
        if (!before(&queue->heap[least], &key)) break;
        queue->heap[place] = queue->heap[least];
        place = least;
    }
    queue->heap[place] = key;
}

static void grow(dl_event_queue *queue)
{
    const int room = 2 * queue->room;
    queue->pool = dl_realloc(queue->pool, (size_t)room, sizeof *queue->pool, "events");
    queue->heap = dl_realloc(queue->heap, (size_t)room, sizeof *queue->heap, "event heap");
    queue->room = room;
}

/* A place in the pool for one event more. */
static int take_id(dl_event_queue *queue)
{
    const int id = queue->free;
    if (id >= 0) {
        queue->free = queue->pool[id].index;
        return id;
    }
    if (queue->used == queue->room) grow(queue);
    return queue->used++;
}

static void free_id(dl_event_queue *queue, int id)
{
    queue->pool[id].handler = NULL;
    queue->pool[id].index = queue->free;
    queue->free = id;
}

int dl_event_queue_push(dl_event_queue *queue, int64_t time_ns, dl_event_fn handler, void *user,
                        int index)
{
    DL_ASSERT(queue->count - queue->stale < queue->capacity, "%d events pending",
              queue->count - queue->stale);
    const int id = take_id(queue);
    queue->pool[id] = (dl_event_call){handler, user, index, true};
    sift_up(queue, queue->count++, (dl_event_key){time_ns, queue->next_sequence++, id});
    return id;
}

/* Removes the first key. */
static void drop_first(dl_event_queue *queue)
{
    const dl_event_key last = queue->heap[--queue->count];
    if (queue->count > 0) fill_hole(queue, 0, last);
}

bool dl_event_queue_pop(dl_event_queue *queue, dl_event *event)
{
    while (queue->count > 0) {
        const dl_event_key key = queue->heap[0];
        const dl_event_call call = queue->pool[key.id];
        drop_first(queue);
        free_id(queue, key.id);
        if (call.is_pending) {
            *event = (dl_event){key.time_ns, key.sequence, call.handler, call.user, call.index};
            return true;
        }
        queue->stale--;
    }
    return false;
}

/* Takes the keys of cancelled events out, and orders the others anew. */
static void clear_stale(dl_event_queue *queue)
{
    int kept = 0;
    for (int i = 0; i < queue->count; i++) {
        const dl_event_key key = queue->heap[i];
        if (queue->pool[key.id].is_pending) {
            queue->heap[kept++] = key;
        } else {
            free_id(queue, key.id);
        }
    }
    queue->count = kept;
    queue->stale = 0;
    for (int i = (kept - 2) / ARITY; i >= 0 && kept > 1; i--)
        sift_down(queue, i, queue->heap[i]);
}

void dl_event_queue_cancel(dl_event_queue *queue, int id)
{
    DL_ASSERT(id >= 0 && id < queue->used && queue->pool[id].handler != NULL &&
                  queue->pool[id].is_pending,
              "event %d is not pending", id);
    queue->pool[id].is_pending = false;
    queue->stale++;
    if (queue->stale > STALE_LEAST && queue->stale > queue->count / 2) clear_stale(queue);
}
