/* The clock of a simulation: takes events in order and calls their handlers. */
#ifndef DL_SIM_ENGINE_H
#define DL_SIM_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "sim/event_queue.h"

/* Asks whether to go on, after every DL_ENGINE_WATCH_EVENTS events or a few more. */
#define DL_ENGINE_WATCH_EVENTS 1024
typedef struct dl_engine_watch {
    bool (*goes_on)(void *user);
    void *user;
} dl_engine_watch;

/* Events with a delay of 0. They follow all other events of their instant, in the order of
 * scheduling, so a ring buffer holds them. */
typedef struct dl_engine_ring {
    dl_event *events; /* [room], a power of two, or 0 */
    uint32_t room, added, taken;
    int cancelled; /* cancelled events in the ring */
} dl_engine_ring;

/* An array of states that the engine prefetches before their events: the first `bytes` of each
 * element. Elements are numbered from `from`; several arrays may share numbers. */
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
    int64_t handled;       /* events so far */
    bool too_long;         /* an event was due at DL_NS_MAX or later: it and later ones never
                              happen */
    bool stopped;          /* set by a handler: no further one is called */
    dl_engine_watch watch; /* may be set after dl_engine_init; goes_on NULL: none */
    int64_t watched;       /* events when it was last asked */
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

/* As dl_engine_after; `about` is the number of the states to prefetch, which may not exist. */
int dl_engine_after_about(dl_engine *engine, int64_t delay_ns, dl_event_fn handler, void *user,
                          int index, int about);

/* Prefetches the states of number `about`, for an event that may be the next one. */
void dl_engine_prefetch(const dl_engine *engine, int about);

/* Adds an array of states, unless it is small enough to stay in the processor's cache. */
void dl_engine_add_state(dl_engine *engine, dl_engine_state state);

void dl_engine_cancel(dl_engine *engine, int id);

/* Number of pending events. */
int dl_engine_pending(const dl_engine *engine);

/* Whether no other event of the current instant is pending. If so, the handler may do the work of
 * an event that it would schedule last and without delay itself, as that event would come next; the
 * engine counts it as handled. Returning false is always correct. */
bool dl_engine_goes_on(dl_engine *engine);

/* Takes the next event out, for a caller that handles events itself; false if none is left. */
bool dl_engine_take(dl_engine *engine, dl_event *event);

/* Handles events until none is left, or until too_long or stopped. A time that goes back is a
 * broken invariant. */
void dl_engine_run(dl_engine *engine);

#endif
