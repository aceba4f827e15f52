/* The pending events of a simulation, earliest first; equal times leave in the order of scheduling.
 *
 * A radix heap (Ahuja, Mehlhorn, Orlin & Tarjan, Journal of the ACM 37, 1990), which requires that
 * no event is scheduled before now, the time of the last one that left. The earliest events are
 * near: in a sorted array. While there are few events, all of them are. The others are far, in
 * buckets: a time is a number with digits of 6 bits, and the highest digit in which it differs from
 * now (the level) and the value of that digit give the bucket. So an event's bucket stays correct
 * as now advances, the lowest bucket of the lowest level has the earliest far events, and events of
 * equal time are always in one bucket, in order of arrival. When all near events have left, a
 * bucket of few events becomes near; a larger one is spread over the buckets of a lower level. Thus
 * an event moves at most once per level, 11 times, however times are spread.
 *
 * Handlers and arguments of events are in a pool, which is accessed when an event enters and
 * leaves, not when its key moves. A cancelled event stays until its turn comes, or until there are
 * as many of them as of others; with all events near it leaves at once. After init only buckets,
 * when first needed, and room for cancelled events are allocated.
 *
 * Invariant: times are int64 ns, 0 <= now <= each time; all near events come before all far ones.
 */
#ifndef DL_SIM_EVENT_QUEUE_H
#define DL_SIM_EVENT_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* An event's handler; `index` is the number of the object concerned. */
typedef void (*dl_event_fn)(void *user, int index);

typedef struct dl_event {
    int64_t time_ns;
    dl_event_fn handler;
    void *user;
    int index;
    int ahead; /* `about` of an event soon after this one; -1: none known */
} dl_event;

/* Key of a pending event. */
typedef struct dl_event_key {
    int64_t time_ns;
    int place; /* in the pool */
} dl_event_key;

typedef struct dl_event_call {
    dl_event_fn handler; /* NULL: free, and index is the next free one, -1 = none */
    void *user;
    int index;
    int about;       /* number of the object it concerns, for the caller; -1: none */
    bool is_pending; /* not cancelled */
} dl_event_call;

typedef struct dl_event_queue {
    int capacity, count; /* keys */
    int near_first, near_end;
    dl_event_key *near;       /* in use: [near_first] to before [near_end] */
    int64_t near_until_ns;    /* keys up to this time are near */
    struct dl_event_far *far; /* NULL: all events have fitted near so far */
    int64_t now_ns;
    dl_event_call *pool; /* [room], the first `used` of them used so far */
    int room, used, free;
    int stale; /* keys whose events are cancelled */
} dl_event_queue;

/* Makes an empty queue for at most `capacity` >= 1 pending events, 2^28 or fewer. */
void dl_event_queue_init(dl_event_queue *queue, int capacity);

/* Makes room for `more` additional pending events; the total is at most 2^28. */
void dl_event_queue_make_room(dl_event_queue *queue, int more);
void dl_event_queue_free(dl_event_queue *queue); /* a zeroed queue is fine */

/* Schedules an event, not before the time of the last one that left. Returns an id that is valid
 * until the event leaves the queue. A full queue is a broken invariant. O(1) amortised. */
int dl_event_queue_push(dl_event_queue *queue, int64_t time_ns, dl_event_fn handler, void *user,
                        int index, int about);

/* Removes the earliest event into *event; false if there is none. O(1) amortised. */
bool dl_event_queue_pop(dl_event_queue *queue, dl_event *event);

/* As dl_event_queue_pop, but only for an event at the time of the last one that left. is_due:
 * whether there may be one; it can turn out to be cancelled. O(1) amortised. */
bool dl_event_queue_pop_due(dl_event_queue *queue, dl_event *event);
bool dl_event_queue_is_due(const dl_event_queue *queue);

/* Removes the pending event `id`; an id that is not pending is a broken invariant. O(1)
 * amortised. */
void dl_event_queue_cancel(dl_event_queue *queue, int id);

#endif
