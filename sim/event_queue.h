/* The pending events of a simulation, earliest first; equal times leave in the order of scheduling.
 *
 * A 4-ary heap over a fixed pool (0's children are 1..4, 1's are 5..8, ...): half the depth of a
 * binary heap, and the four children that one step looks at lie side by side. Each event knows its
 * place in the heap, so that a pending one can be taken out again. Nothing is allocated after init.
 *
 * Times are int64 ns. Invariant: key (time_ns, sequence) of a parent < that of its children;
 * sequence numbers are never reused, so the order is total.
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
    uint64_t sequence;
    dl_event_fn handler;
    void *user;
    int index;
} dl_event;

typedef struct dl_event_queue {
    dl_event *pool; /* [capacity] */
    int *heap;      /* [capacity] indices in pool, the first `count` in use */
    int *place;     /* [capacity] place in heap, or -1 */
    int *free;      /* [capacity] unused pool indices, capacity - count of them */
    int capacity, count;
    uint64_t next_sequence;
} dl_event_queue;

/* Makes an empty queue for at most `capacity` >= 1 pending events. */
void dl_event_queue_init(dl_event_queue *queue, int capacity);
void dl_event_queue_free(dl_event_queue *queue); /* a zeroed queue is fine */

/* Schedules; the event's sequence is set here. Returns an id that is valid until the event leaves
 * the queue. A full queue is a broken invariant. O(log n). */
int dl_event_queue_push(dl_event_queue *queue, int64_t time_ns, dl_event_fn handler, void *user,
                        int index);

/* Removes the earliest event into *event; false if there is none. O(log n). */
bool dl_event_queue_pop(dl_event_queue *queue, dl_event *event);

/* Removes the pending event `id`; an id that is not pending is a broken invariant. O(log n). */
void dl_event_queue_cancel(dl_event_queue *queue, int id);

#endif
