/* The events of a run that needs no engine (gpu_direct_server.c), in the engine's order: by their times,
 * equal ones in the order of scheduling.
 *
 * Most happen a fixed time after what caused them, so that a line of each such kind is in order as it is.
 * Only times that vary need a heap. What takes no time is done after all else of its instant, in the order
 * of its causes. */
#ifndef DL_SIM_GPU_EVENTS_H
#define DL_SIM_GPU_EVENTS_H

#include <stdbool.h>
#include <stdint.h>

/* Kinds: those below DL_GPU_EVENT_LINES come a fixed time after their cause, one the times of which vary,
 * and those of which one is scheduled at most. Any may also be due at once. */
#define DL_GPU_EVENT_LINES 7
#define DL_GPU_EVENT_VARIES DL_GPU_EVENT_LINES
#define DL_GPU_EVENT_SINGLE (DL_GPU_EVENT_LINES + 1)
#define DL_GPU_EVENT_KINDS (DL_GPU_EVENT_SINGLE + 4)

#define DL_GPU_EVENT_WORKER_BITS 24 /* of a worker's number */

/* Ordered by both. */
typedef struct dl_gpu_event {
    int64_t time_ns;
    uint64_t order; /* its number, then the worker */
} dl_gpu_event;

/* A ring, as long as a power of two. */
typedef struct dl_gpu_event_line {
    dl_gpu_event *events;
    uint32_t first, count, room;
} dl_gpu_event_line;

typedef struct dl_gpu_events {
    int64_t now_ns, handled;
    int soon;        /* a worker whose event is not far, -1: none is known */
    bool is_too_far; /* the next event is at DL_NS_MAX or later, or events have no numbers left */
    uint64_t number; /* of the next one */
    int64_t delay_ns[DL_GPU_EVENT_LINES];
    dl_gpu_event_line lines[DL_GPU_EVENT_LINES];
    dl_gpu_event heads[DL_GPU_EVENT_KINDS];         /* the first of each kind */
    int used[DL_GPU_EVENT_KINDS], used_count, next; /* kinds that are used; of the earliest head */
    dl_gpu_event *heap; /* 4-ary; the second event starts a line of the cache */
    void *heap_block;   /* that it lies in */
    int heap_count;
    uint32_t *at_once; /* a ring: kind, then worker */
    uint32_t at_once_first, at_once_count, at_once_room;
} dl_gpu_events;

/* At time 0, for workers of which each has one event of a kind at most; delays of the lines in ns.
 * dl_gpu_events_free accepts a zeroed object. */
void dl_gpu_events_init(dl_gpu_events *events, int workers,
                        const int64_t delay_ns[DL_GPU_EVENT_LINES]);
void dl_gpu_events_free(dl_gpu_events *events);

/* Schedules: the fixed time after now; in delay_ns; now. */
void dl_gpu_events_after(dl_gpu_events *events, int kind, int worker);
void dl_gpu_events_in(dl_gpu_events *events, int64_t delay_ns, int worker);
void dl_gpu_events_at_once(dl_gpu_events *events, int kind, int worker);

/* Schedules the one event of this kind, in place of what it was, in delay_ns >= 1; -1: there is none. */
void dl_gpu_events_set(dl_gpu_events *events, int kind, int64_t delay_ns);

/* Takes the next event out; false if there is none, or is_too_far. */
bool dl_gpu_events_take(dl_gpu_events *events, int *kind, int *worker);

#endif
