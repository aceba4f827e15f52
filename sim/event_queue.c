#include "sim/event_queue.h"

#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/status.h"

#define ARITY 4
#define LINE_BYTES 64
#define STALE_LEAST 64 /* cancelled events that are not worth clearing out */
#define LARGE 4096     /* keys that the first-level cache does not hold */
#define ROOM_MOST (1 << DL_EVENT_ID_BITS)
#define NUMBERS ((uint64_t)1 << (64 - DL_EVENT_ID_BITS))

/* Room for the keys, of which the second one starts a line of the cache. Pages that no key has come to
 * take no memory. */
static void make_heap(dl_event_queue *queue, int room)
{
    const size_t line = LINE_BYTES / sizeof(dl_event_key);
    char *block = dl_calloc((size_t)room + 2 * line, sizeof(dl_event_key), "event heap");
    const size_t off = (uintptr_t)block % LINE_BYTES;
    dl_ask_for_huge_pages(block, (size_t)room * sizeof(dl_event_key));
    queue->heap_block = block;
    queue->heap = (dl_event_key *)(void *)(block + (LINE_BYTES - off)) + line - 1;
    queue->room = room;
}

void dl_event_queue_init(dl_event_queue *queue, int capacity)
{
    DL_ASSERT(capacity >= 1 && capacity <= ROOM_MOST, "capacity %d", capacity);
    *queue = (dl_event_queue){
        .capacity = capacity,
        .pool = dl_calloc((size_t)capacity, sizeof *queue->pool, "events"),
        .free = -1,
    };
    dl_ask_for_huge_pages(queue->pool, (size_t)capacity * sizeof *queue->pool);
    make_heap(queue, capacity);
}

void dl_event_queue_free(dl_event_queue *queue)
{
    free(queue->pool);
    free(queue->heap_block);
    *queue = (dl_event_queue){0};
}

static int id_of(dl_event_key key)
{
    return (int)(key.order & (ROOM_MOST - 1));
}

/* As one number of twice as many bits, and without a branch: which key of four is the least cannot be
 * foreseen. */
static inline bool before(const dl_event_key *a, const dl_event_key *b)
{
    __extension__ typedef __int128 both;
    return ((both)a->time_ns << 64 | (both)a->order) < ((both)b->time_ns << 64 | (both)b->order);
}

/* Puts the key at `place`, or as far towards the root as it belongs. */
static void sift_up(dl_event_queue *queue, int place, dl_event_key key)
{
    dl_event_key *heap = queue->heap;
    while (place > 0) {
        const int parent = (int)((unsigned)(place - 1) / ARITY);
        if (!before(&key, &heap[parent])) break;
        heap[place] = heap[parent];
        place = parent;
    }
    heap[place] = key;
}

static inline unsigned lesser(const dl_event_key *heap, unsigned a, unsigned b)
{
    return before(&heap[b], &heap[a]) ? b : a;
}

/* The least of the children from `first` on; there is one at least. */
static inline unsigned least_child(const dl_event_key *heap, unsigned first, unsigned count)
{
    if (first + ARITY <= count)
        return lesser(heap, lesser(heap, first, first + 1), lesser(heap, first + 2, first + 3));
    unsigned least = first;
    for (unsigned child = first + 1; child < count; child++)
        least = lesser(heap, least, child);
    return least;
}

/* Fills the hole at `place` with what follows below it, down to a leaf, and puts the key there: it
 * comes from the end, so mostly belongs near it. In a large heap the next level's lines are asked for
 * before it is known which of them is needed. */
static void fill_hole(dl_event_queue *queue, unsigned place, dl_event_key key)
{
    dl_event_key *heap = queue->heap;
    const unsigned count = (unsigned)queue->count;
    for (unsigned first; (first = place * ARITY + 1) < count;) {
        const unsigned below = first * ARITY + 1;
        if (count > LARGE && below < count) {
            for (unsigned i = 0; i < ARITY; i++)
                __builtin_prefetch(&heap[below + i * ARITY]);
        }
        const unsigned least = least_child(heap, first, count);
        heap[place] = heap[least];
        place = least;
    }
    sift_up(queue, (int)place, key);
}

static void sift_down(dl_event_queue *queue, int place, dl_event_key key)
{
    for (int first; (first = place * ARITY + 1) < queue->count;) {
        const int least = (int)least_child(queue->heap, (unsigned)first, (unsigned)queue->count);
        if (!before(&queue->heap[least], &key)) break;
        queue->heap[place] = queue->heap[least];
        place = least;
    }
    queue->heap[place] = key;
}

static void grow(dl_event_queue *queue)
{
    void *block = queue->heap_block;
    const dl_event_key *heap = queue->heap;
    const int room = queue->room < ROOM_MOST / 2 ? 2 * queue->room : ROOM_MOST;
    DL_ASSERT(queue->room < ROOM_MOST, "%d events", queue->room);
    queue->pool = dl_realloc(queue->pool, (size_t)room, sizeof *queue->pool, "events");
    make_heap(queue, room);
    memcpy(queue->heap, heap, (size_t)queue->count * sizeof *heap);
    free(block);
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

static int by_key(const void *a, const void *b)
{
    return before(a, b) ? -1 : before(b, a);
}

/* From 0 on, in the order that they have. What is in order is a heap. */
static void number_anew(dl_event_queue *queue)
{
    qsort(queue->heap, (size_t)queue->count, sizeof *queue->heap, by_key);
    for (int i = 0; i < queue->count; i++)
        queue->heap[i].order = (uint64_t)i << DL_EVENT_ID_BITS | (uint64_t)id_of(queue->heap[i]);
    queue->next_number = (uint64_t)queue->count;
}

int dl_event_queue_push(dl_event_queue *queue, int64_t time_ns, dl_event_fn handler, void *user,
                        int index)
{
    DL_ASSERT(queue->count - queue->stale < queue->capacity, "%d events pending",
              queue->count - queue->stale);
    const int id = take_id(queue);
    queue->pool[id] = (dl_event_call){handler, user, index, true};
    if (queue->next_number == NUMBERS) number_anew(queue);
    const uint64_t order = queue->next_number++ << DL_EVENT_ID_BITS | (uint64_t)id;
    sift_up(queue, queue->count++, (dl_event_key){time_ns, order});
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
        const int id = id_of(key);
        const dl_event_call call = queue->pool[id];
        drop_first(queue);
        if (queue->count > 0) __builtin_prefetch(&queue->pool[id_of(queue->heap[0])]);
        free_id(queue, id);
        if (call.is_pending) {
            *event = (dl_event){key.time_ns, call.handler, call.user, call.index};
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
        if (queue->pool[id_of(key)].is_pending) {
            queue->heap[kept++] = key;
        } else {
            free_id(queue, id_of(key));
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
