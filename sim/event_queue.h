/* The pending events of a simulation, earliest first; equal times leave in the order of scheduling.
 *
 * A radix heap (Ahuja, Mehlhorn, Orlin & Tarjan, Journal of the ACM 37, 1990), which needs that no
 * event is scheduled before now, the time of the last one that left. The earliest events are near:
 * in an array, sorted. As long as there are few, that is all of them. The others are far, in
 * buckets: a time is a number with digits of 6 bits, and the highest digit in which it differs from
 * now (the level) and the value of that digit give the bucket. So a bucket stays the right one
 * while now comes nearer, the lowest bucket of the lowest level has the earliest of the far events,
 * and events of one time are always in one bucket, in the order in which they came. When all that
 * are near have left, a bucket of few events comes near; a larger one is spread over the buckets of
 * a lower level. Thus an event moves at most once per level, 11 times, however times are spread.
 *
 * What an event calls lies in a pool that is touched when it comes and when it leaves, not while
 * its key moves. A cancelled event stays until its turn comes, or until there are as many of them
 * as of others; with all events near it leaves at once. Nothing is allocated after init but buckets
 * when they are first needed and room for cancelled events.
 *
 * Invariant: times are int64 ns, 0 <= now <= each time; all that are near come before all that are
 * far.
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
    int ahead; /* what an event that comes soon after this one is about; -1: none is known */
} dl_event;

/* Of an event that waits. */
typedef struct dl_event_key {
    int64_t time_ns;
    int place; /* in the pool */
} dl_event_key;

typedef struct dl_event_call {
    dl_event_fn handler; /* NULL: free, and index is the next free one, -1 = none */
    void *user;
    int index;
    int about;       /* what it is about, a number for the caller; -1: nothing */
    bool is_pending; /* not cancelled */
} dl_event_call;

typedef struct dl_event_queue {
    int capacity, count; /* keys */
    int near_first, near_end;
    dl_event_key *near;       /* those in use are [near_first] up to [near_end] */
    int64_t near_until_ns;    /* a key of this time or before is near */
    struct dl_event_far *far; /* NULL: there were never more than fit near */
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

/* Schedules, at the time of the last event that left or later. Returns an id that is valid until
 * the event leaves the queue. A full queue is a broken invariant. O(1) amortised. */
int dl_event_queue_push(dl_event_queue *queue, int64_t time_ns, dl_event_fn handler, void *user,
                        int index, int about);

/* Removes the earliest event into *event; false if there is none. O(1) amortised. */
bool dl_event_queue_pop(dl_event_queue *queue, dl_event *event);

/* As dl_event_queue_pop, but only an event at the time of the last one that left. is_due: whether
 * there may be one; it can turn out to be cancelled. O(1) amortised. */
bool dl_event_queue_pop_due(dl_event_queue *queue, dl_event *event);
bool dl_event_queue_is_due(const dl_event_queue *queue);

/* Removes the pending event `id`; an id that is not pending is a broken invariant. O(1)
 * amortised. */
void dl_event_queue_cancel(dl_event_queue *queue, int id);

#endif
