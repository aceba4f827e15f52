/* Priority queue of pending events, earliest first; events of equal time leave in order of
 * scheduling.
 *
 * A radix heap (Ahuja, Mehlhorn, Orlin & Tarjan, Journal of the ACM 37, 1990), which requires that
 * no event is scheduled before now, the time of the last event removed. The earliest ("near")
 * events are in a sorted array; if there are only a few events, all of them are. The other ("far")
 * events are in buckets: a time is a number with digits of 6 bits; the highest digit in which it
 * differs from now (the level) and the value of that digit select the bucket. So an event's bucket
 * stays correct as now advances, the lowest bucket of the lowest level has the earliest far events,
 * and events of equal time are always in one bucket, in order of arrival. When all near events have
 * left, a small bucket becomes near; a larger one is spread over the buckets of a lower level. Thus
 * an event moves at most once per level, 11 times, whatever the distribution of times.
 *
 * Handlers and arguments of events are in a pool, which is accessed when an event enters and
 * leaves, not when its key moves. A cancelled event stays until its time comes, or until more than
 * 128 events are cancelled and they outnumber the pending ones; if all events are near, it is
 * removed immediately. After init, memory is allocated only for buckets (on first use), cancelled
 * events, and the events of dl_event_queue_make_room.
 *
 * Invariant: times are int64 ns, 0 <= now <= each time; all near events come before all far
 * ones. */
#ifndef DL_SIM_EVENT_QUEUE_H
#define DL_SIM_EVENT_QUEUE_H

#include <stdbool.h>
#include <stdint.h>

/* Event handler; `index` is the number of the object concerned. */
typedef void (*dl_event_fn)(void *user, int index);

typedef struct dl_event {
    int64_t time_ns;
    dl_event_fn handler;
    void *user;
    int index;
    int ahead; /* `about` of an event expected soon after this one; -1: unknown */
} dl_event;

/* Key of a pending event. */
typedef struct dl_event_key {
    int64_t time_ns;
    int place; /* index in the pool */
} dl_event_key;

typedef struct dl_event_call {
    dl_event_fn handler; /* NULL: free entry; index is then the next free entry, -1 = none */
    void *user;
    int index;
    int about; /* number of the object that the event concerns, chosen by the caller; -1: none */
    bool is_pending; /* false: cancelled */
} dl_event_call;

typedef struct dl_event_queue {
    int capacity, count; /* count: keys, including those of cancelled events */
    int near_first, near_end;
    dl_event_key *near;       /* near keys are [near_first] to [near_end - 1] */
    int64_t near_until_ns;    /* keys up to this time are near */
    struct dl_event_far *far; /* NULL: all events so far were near */
    int64_t now_ns;
    dl_event_call *pool; /* [room] entries, of which the first `used` have been used */
    int room, used, free;
    int stale; /* number of keys whose events are cancelled */
} dl_event_queue;

/* Creates an empty queue for up to `capacity` pending events, 1 to 2^28. */
void dl_event_queue_init(dl_event_queue *queue, int capacity);

/* Makes room for `more` additional pending events; the total is at most 2^28. */
void dl_event_queue_make_room(dl_event_queue *queue, int more);
void dl_event_queue_free(dl_event_queue *queue); /* accepts a zeroed queue */

/* Schedules an event at time_ns, which must not be before the last removed event. Returns an id
 * that is valid until the event leaves the queue. Pushing to a full queue fails an assertion. O(1)
 * amortised. */
int dl_event_queue_push(dl_event_queue *queue, int64_t time_ns, dl_event_fn handler, void *user,
                        int index, int about);

/* Removes the earliest event into *event; false if there is none. O(1) amortised. */
bool dl_event_queue_pop(dl_event_queue *queue, dl_event *event);

/* dl_event_queue_pop_due: as dl_event_queue_pop, but only for an event at the time of the last one
 * removed. dl_event_queue_is_due: whether there may be such an event; it may be cancelled. O(1)
 * amortised. */
bool dl_event_queue_pop_due(dl_event_queue *queue, dl_event *event);
bool dl_event_queue_is_due(const dl_event_queue *queue);

/* Cancels the pending event `id`; an id that is not pending fails an assertion. O(1) amortised. */
void dl_event_queue_cancel(dl_event_queue *queue, int id);

#endif
