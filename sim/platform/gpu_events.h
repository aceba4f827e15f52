/* The events of a run that needs no engine (gpu_direct_server.c), in the engine's order: by their
 * times, equal ones in the order of scheduling.
 *
 * Most happen a fixed time after what caused them, so that a line of each such kind is in order as
 * it is. Only times that vary need a queue. The first of each kind is in a list of a few, of which
 * the earliest is next. What takes no time is done after all else of its instant, in the order of
 * its causes.
 *
 * All that each event needs is in this header, to be compiled into the loop over them. */
#ifndef DL_SIM_GPU_EVENTS_H
#define DL_SIM_GPU_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/units.h"
#include "sim/event_queue.h"

/* Kinds: those below DL_GPU_EVENT_LINES come a fixed time after their cause, one the times of which
 * vary, and those of which one is scheduled at most. Any may also be due at once. */
#define DL_GPU_EVENT_LINES 7
#define DL_GPU_EVENT_VARIES DL_GPU_EVENT_LINES
#define DL_GPU_EVENT_SINGLE (DL_GPU_EVENT_LINES + 1)
#define DL_GPU_EVENT_KINDS (DL_GPU_EVENT_SINGLE + 4)

#define DL_GPU_EVENT_WORKER_BITS 24 /* of a worker's number */

/* Ordered by its time, then by its value: its number, then the worker. */
typedef dl_event_key dl_gpu_event;

/* A ring, as long as a power of two, of those after the first. */
typedef struct dl_gpu_event_line {
    dl_gpu_event *events;
    uint32_t start, count, room;
} dl_gpu_event_line;

typedef struct dl_gpu_events {
    int64_t now_ns, handled;
    int soon;        /* a worker whose event is not far, -1: none is known */
    bool is_too_far; /* the next event is at DL_NS_MAX or later, or events have no numbers left */
    uint64_t number; /* of the next one */
    /* The first of each kind, and after them one that never happens; kinds that have one, the
     * earliest last, and before them that other one. */
    dl_gpu_event first[DL_GPU_EVENT_KINDS + 1];
    uint8_t due[DL_GPU_EVENT_KINDS + 1];
    int due_count;
    bool is_due[DL_GPU_EVENT_KINDS];
    int64_t delay_ns[DL_GPU_EVENT_LINES];
    dl_gpu_event_line lines[DL_GPU_EVENT_LINES];
    dl_key_queue varying;
    uint32_t *at_once; /* a ring: kind, then worker */
    uint32_t at_once_first, at_once_count, at_once_room;
} dl_gpu_events;

/* At time 0, for workers of which each has one event of a kind at most; delays of the lines in ns.
 * dl_gpu_events_free accepts a zeroed object. */
void dl_gpu_events_init(dl_gpu_events *events, int workers,
                        const int64_t delay_ns[DL_GPU_EVENT_LINES]);
void dl_gpu_events_free(dl_gpu_events *events);

/* For those below. */
void dl_gpu_events_grow_line(dl_gpu_event_line *line);
void dl_gpu_events_grow_at_once(dl_gpu_events *events);

/* As one number of twice as many bits: which is earlier cannot be foreseen. */
static inline bool dl_gpu_event_is_before(dl_gpu_event a, dl_gpu_event b)
{
    __extension__ typedef __int128 both;
    return ((both)a.time_ns << 64 | (both)a.value) < ((both)b.time_ns << 64 | (both)b.value);
}

static inline int dl_gpu_event_worker(uint64_t value)
{
    return (int)(value & ((1u << DL_GPU_EVENT_WORKER_BITS) - 1));
}

static inline dl_gpu_event dl_gpu_events_new(dl_gpu_events *e, int64_t delay_ns, int worker)
{
    const int64_t left_ns = DL_NS_MAX - e->now_ns;
    return (dl_gpu_event){delay_ns < left_ns ? e->now_ns + delay_ns : DL_NS_MAX,
                          e->number++ << DL_GPU_EVENT_WORKER_BITS | (uint64_t)worker};
}

/* The kind, which had no event, has a first one. */
static inline void dl_gpu_events_enlist(dl_gpu_events *e, int kind, dl_gpu_event event)
{
    int i = e->due_count++;
    for (; dl_gpu_event_is_before(e->first[e->due[i - 1]], event); i--)
        e->due[i] = e->due[i - 1];
    e->due[i] = (uint8_t)kind;
    e->is_due[kind] = true;
    e->first[kind] = event;
}

/* The kind's first event is none any more, or another one. */
static inline void dl_gpu_events_delist(dl_gpu_events *e, int kind)
{
    int i = --e->due_count;
    e->is_due[kind] = false;
    for (int own = e->due[i]; own != kind;) {
        const int above = own;
        own = e->due[--i];
        e->due[i] = (uint8_t)above;
    }
}

/* Schedules now. */
static inline void dl_gpu_events_at_once(dl_gpu_events *e, int kind, int worker)
{
    if (e->at_once_count == e->at_once_room) dl_gpu_events_grow_at_once(e);
    e->at_once[(e->at_once_first + e->at_once_count++) & (e->at_once_room - 1)] =
        (uint32_t)kind << DL_GPU_EVENT_WORKER_BITS | (uint32_t)worker;
}

/* Schedules the kind's fixed time after now. */
static inline void dl_gpu_events_after(dl_gpu_events *e, int kind, int worker)
{
    if (e->delay_ns[kind] == 0) {
        dl_gpu_events_at_once(e, kind, worker);
        return;
    }
    const dl_gpu_event event = dl_gpu_events_new(e, e->delay_ns[kind], worker);
    dl_gpu_event_line *l = &e->lines[kind];
    if (!e->is_due[kind]) {
        dl_gpu_events_enlist(e, kind, event);
        return;
    }
    if (l->count == l->room) dl_gpu_events_grow_line(l);
    l->events[(l->start + l->count++) & (l->room - 1)] = event;
}

/* Schedules one whose time varies in delay_ns. */
static inline void dl_gpu_events_in(dl_gpu_events *e, int64_t delay_ns, int worker)
{
    if (delay_ns == 0) {
        dl_gpu_events_at_once(e, DL_GPU_EVENT_VARIES, worker);
        return;
    }
    const dl_gpu_event event = dl_gpu_events_new(e, delay_ns, worker);
    dl_key_queue_push(&e->varying, event);
    if (e->is_due[DL_GPU_EVENT_VARIES]) {
        if (!dl_gpu_event_is_before(event, e->first[DL_GPU_EVENT_VARIES])) return;
        dl_gpu_events_delist(e, DL_GPU_EVENT_VARIES);
    }
    dl_gpu_events_enlist(e, DL_GPU_EVENT_VARIES, event);
}

/* Schedules the one event of this kind, in place of what it was, in delay_ns >= 1; -1: there is
 * none. */
static inline void dl_gpu_events_set(dl_gpu_events *e, int kind, int64_t delay_ns)
{
    if (e->is_due[kind]) dl_gpu_events_delist(e, kind);
    if (delay_ns >= 0) dl_gpu_events_enlist(e, kind, dl_gpu_events_new(e, delay_ns, 0));
}

/* Whether an event that was scheduled now, in delay_ns, would be the next one; then it has been
 * taken. */
static inline bool dl_gpu_events_go_on(dl_gpu_events *e, int64_t delay_ns)
{
    const int64_t next_ns = e->first[e->due[e->due_count - 1]].time_ns;
    if (e->at_once_count > 0 || delay_ns >= next_ns - e->now_ns ||
        delay_ns >= DL_NS_MAX - e->now_ns)
        return false;
    e->now_ns += delay_ns;
    e->handled++;
    return true;
}

/* The next event that takes its turn by its time. */
static inline void dl_gpu_events_take_timed(dl_gpu_events *e, int kind)
{
    e->due_count--;
    e->is_due[kind] = false;
    e->soon = -1;
    if (kind < DL_GPU_EVENT_LINES) {
        dl_gpu_event_line *l = &e->lines[kind];
        if (l->count == 0) return;
        const uint32_t mask = l->room - 1;
        dl_gpu_events_enlist(e, kind, l->events[l->start]);
        l->start = (l->start + 1) & mask;
        if (--l->count > 1) e->soon = dl_gpu_event_worker(l->events[(l->start + 1) & mask].value);
    } else if (kind == DL_GPU_EVENT_VARIES) {
        dl_gpu_event event;
        if (!dl_key_queue_drop(&e->varying, &event)) return;
        e->soon = dl_gpu_event_worker(event.value);
        dl_gpu_events_enlist(e, kind, event);
    }
}

/* Takes the next event out; false if there is none, or is_too_far. */
static inline bool dl_gpu_events_take(dl_gpu_events *e, int *kind, int *worker)
{
    const int next = e->due[e->due_count - 1];
    const dl_gpu_event event = e->first[next];
    if (event.time_ns != e->now_ns && e->at_once_count > 0) {
        const uint32_t one = e->at_once[e->at_once_first];
        e->at_once_first = (e->at_once_first + 1) & (e->at_once_room - 1);
        e->at_once_count--;
        *kind = (int)(one >> DL_GPU_EVENT_WORKER_BITS);
        *worker = dl_gpu_event_worker(one);
        e->soon = -1;
    } else {
        if (next == DL_GPU_EVENT_KINDS) return false;
        e->is_too_far = event.time_ns >= DL_NS_MAX ||
                        e->number >= (uint64_t)1 << (64 - DL_GPU_EVENT_WORKER_BITS);
        if (e->is_too_far) return false;
        e->now_ns = event.time_ns;
        *kind = next;
        *worker = dl_gpu_event_worker(event.value);
        dl_gpu_events_take_timed(e, next);
    }
    e->handled++;
    return true;
}

#endif
