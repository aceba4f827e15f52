/* Discrete-event engine: takes events in order of time and calls their handlers. */
#ifndef DL_SIM_ENGINE_H
#define DL_SIM_ENGINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/event_queue.h"

/* Callback that decides whether the run continues; called about every DL_ENGINE_WATCH_EVENTS
 * events. */
#define DL_ENGINE_WATCH_EVENTS 1024
typedef struct dl_engine_watch {
    bool (*goes_on)(void *user);
    void *user;
} dl_engine_watch;

/* Events with a delay of 0. They run after all other events of the same time, in order of
 * scheduling, so a ring buffer holds them. */
typedef struct dl_engine_ring {
    dl_event *events; /* [room] ring buffer; room: a power of two, or 0 */
    uint32_t room, added, taken;
    int cancelled; /* number of cancelled events in the ring */
} dl_engine_ring;

/* Array of `count` elements of `stride` bytes, numbered from `from`. Before an event that concerns
 * element n, the engine prefetches its first `bytes` bytes. Several arrays may use the same
 * numbers. */
#define DL_ENGINE_STATES 6
typedef struct dl_engine_state {
    const char *first; /* borrowed */
    size_t stride, bytes;
    int from, count;
} dl_engine_state;

typedef struct dl_engine {
    dl_event_queue queue;
    dl_engine_ring at_once;
    dl_engine_state states[DL_ENGINE_STATES];
    int state_count;
    int64_t now_ns;        /* time of the current event */
    int64_t handled;       /* number of events handled so far */
    bool too_long;         /* an event was due at DL_NS_MAX or later; it and later events are not
                            * run */
    bool stopped;          /* set by a handler to end the run: no further handler is called */
    dl_engine_watch watch; /* may be set after dl_engine_init; goes_on NULL: no watch */
    int64_t watched;       /* value of `handled` at the last call of the watch */
    bool was_ended;        /* the watch ended the run; `stopped` is set too */
} dl_engine;

/* Starts at time 0 with room for `capacity` pending events. */
void dl_engine_init(dl_engine *engine, int capacity);
void dl_engine_free(dl_engine *engine);

/* Makes room for `more` additional pending events. */
void dl_engine_make_room(dl_engine *engine, int more);

/* Calls handler(user, index) `delay_ns` >= 0 from now; returns the id for dl_engine_cancel. */
int dl_engine_after(dl_engine *engine, int64_t delay_ns, dl_event_fn handler, void *user,
                    int index);

/* As dl_engine_after. `about`: number of the element that is prefetched, in each array of
 * dl_engine_add_state that has it, before the event; -1: none. */
int dl_engine_after_about(dl_engine *engine, int64_t delay_ns, dl_event_fn handler, void *user,
                          int index, int about);

/* Prefetches the states numbered `about`, for an event that is likely to be next. */
void dl_engine_prefetch(const dl_engine *engine, int about);

/* Registers an array of states for prefetching, unless it is small enough to stay in cache. */
void dl_engine_add_state(dl_engine *engine, dl_engine_state state);

void dl_engine_cancel(dl_engine *engine, int id);

/* Number of pending events. */
int dl_engine_pending(const dl_engine *engine);

/* Whether no other event is pending at the current time. If so, the handler may directly do the
 * work of an event that it would schedule last with delay 0, since that event would run next; the
 * engine counts it as handled. Returning false is always correct. */
bool dl_engine_goes_on(dl_engine *engine);

/* Removes the next event into *event, for a caller that handles events itself; false if none is
 * left. */
bool dl_engine_take(dl_engine *engine, dl_event *event);

/* Handles events until none is left, or until too_long or stopped is set. An event earlier than the
 * current time fails an assertion. */
void dl_engine_run(dl_engine *engine);

#endif
