/* The pending events of a simulation, earliest first; equal times leave in the order of scheduling.
 *
 * A 4-ary heap of keys (0's children are 1..4, 1's are 5..8, ...): half the depth of a binary heap,
 * and the four keys that one step looks at are one line of the cache. What an event calls lies in a
 * pool that is touched when it comes and when it leaves, not while keys move. A cancelled event stays until it
 * comes to the front, or until there are as many of them as of others. Nothing is allocated after init
 * but room for cancelled ones.
 *
 * Times are int64 ns. Invariant: key (time_ns, order) of a parent < that of its children. The upper
 * bits of order are the number of the event in the order of scheduling, so the order is total; when
 * they are used up, the events at hand are numbered anew.
 */
#ifndef DL_SIM_EVENT_QUEUE_H
#define DL_SIM_EVENT_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What happens: a handler and the number of the thing that it happens to. */
typedef void (*dl_event_fn)(void *user, int index);

typedef struct dl_event {
    int64_t time_ns;
    dl_event_fn handler;
    void *user;
    int index;
} dl_event;

#define DL_EVENT_ID_BITS 28 /* of order: the place in the pool */

/* Of an event in the heap. */
typedef struct dl_event_key {
    int64_t time_ns;
    uint64_t order; /* number in the order of scheduling, then the place in the pool */
} dl_event_key;

typedef struct dl_event_call {
    dl_event_fn handler; /* NULL: free, and index is the next free one, -1 = none */
    void *user;
    int index;
    bool is_pending; /* not cancelled */
} dl_event_call;

typedef struct dl_event_queue {
    dl_event_call *pool; /* [room], the first `used` of them used so far */
    dl_event_key *heap;  /* [room], the first `count` in use; all but the first in lines of four */
    void *heap_block;    /* that the heap lies in */
    int capacity, room, used, free, count;
    int stale; /* of the heap: cancelled */
    uint64_t next_number;
} dl_event_queue;

/* Makes an empty queue for at most `capacity` >= 1 pending events, 100 million or fewer. */
void dl_event_queue_init(dl_event_queue *queue, int capacity);
void dl_event_queue_free(dl_event_queue *queue); /* a zeroed queue is fine */

/* Schedules. Returns an id that is valid until the event leaves
 * the queue. A full queue is a broken invariant. O(log n). */
int dl_event_queue_push(dl_event_queue *queue, int64_t time_ns, dl_event_fn handler, void *user,
                        int index);

/* Removes the earliest event into *event; false if there is none. O(log n) amortised. */
bool dl_event_queue_pop(dl_event_queue *queue, dl_event *event);

/* Removes the pending event `id`; an id that is not pending is a broken invariant. O(1) amortised. */
void dl_event_queue_cancel(dl_event_queue *queue, int id);

#endif
