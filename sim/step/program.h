/* A step as tasks on lanes, built once and run many times.
 *
 * A lane does one task at a time, in order: a stream of a GPU, a copy engine, a host thread. A task
 * starts when
 *
 *   its lane has begun, and the previous task on the lane ended at least spacing_ns ago;
 *   every edge to it is satisfied: lag_ns after the end, or the start, of the edge's task;
 *   issue_ns have passed since its lane began, when a host thread launches the task.
 *
 * It ends when its work is done at its lane's speed, and issued_ns have passed since its lane began
 * (its launch has ended). The owner of the run carries out owned tasks (a flow, a collective, a
 * message) and reports their ends.
 *
 * Tasks of a *group* start independently and end together, the group's time after the last start.
 *
 *   lane 0   [task 0      ][task 1]          edge 0 -> 2, from the end
 *   lane 1                 [task 2     ]     edge 2 -> 3, from the start, with a lag
 *   lane 2                     [task 3 ]
 *
 * Times are ns of the engine's clock. Runs of one program share it; each run has separate state. */
#ifndef DL_SIM_PROGRAM_H
#define DL_SIM_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/engine.h"

#define DL_TASK_NONE UINT32_MAX

typedef struct dl_task {
    double work_ns;              /* work at speed 1 and factor 1, >= 0 */
    int64_t spacing_ns;          /* least time since the previous task on the lane ended, >= 0 */
    int64_t issue_ns, issued_ns; /* launch's start and end after the lane's beginning, >= 0 */
    uint32_t lane;
    uint32_t group; /* group number, or DL_TASK_NONE */
    int32_t slot;   /* free for the owner's use, like kind */
    uint8_t kind;
    bool is_owned;
    bool is_steady; /* its work does not depend on its lane's factor and speed, nor its end on
                     * issued_ns */
} dl_task;

typedef struct dl_task_edge {
    uint32_t from, to; /* task numbers */
    int64_t lag_ns;    /* lag after the end or the start of `from`, >= 0 */
    bool from_start;   /* the lag counts from the start of `from` instead of its end */
} dl_task_edge;

typedef struct dl_task_lane {
    uint32_t first, last; /* first and last task; DL_TASK_NONE: no tasks */
} dl_task_lane;

typedef struct dl_task_group {
    uint32_t size;
    int64_t duration_ns;
} dl_task_group;

/* Owns its arrays; release with dl_program_free. A zeroed program is empty. */
typedef struct dl_program {
    dl_task *tasks;
    uint32_t *next; /* [task_count] successor on the lane, or DL_TASK_NONE */
    dl_task_edge *edges;
    dl_task_lane *lanes;
    dl_task_group *groups;
    size_t task_count, edge_count, lane_count, group_count;
    /* Set by dl_program_close: */
    uint32_t *first_edge; /* [task_count + 1] by task: first entry in edge_order of the edges from
                           * it */
    uint32_t *edge_order; /* [edge_count] edges by `from` */
    uint32_t *awaited;    /* [task_count] number of edges to the task, + 1 for its predecessor or
                           * the start of its lane */
} dl_program;

/* Each adds an item at the end; dl_program_add_lane and dl_program_add return its number. A task
 * follows the last one on its lane, and belongs to no group. */
uint32_t dl_program_add_lane(dl_program *program);
uint32_t dl_program_add(dl_program *program, const dl_task *task);
void dl_program_add_edge(dl_program *program, const dl_task_edge *edge);

/* Makes `to` start after the end of `from`; no effect if `from` is DL_TASK_NONE. */
void dl_program_add_after(dl_program *program, uint32_t to, uint32_t from);

/* Completes the program: from then on it can be run but not changed. */
void dl_program_close(dl_program *program);
void dl_program_free(dl_program *program);

/* State of a task in a run. Before its start, ready_ns is the latest time at which one of its
 * dependencies was satisfied. */
typedef struct dl_task_state {
    int64_t ready_ns, start_ns, end_ns;
    uint32_t awaited;      /* number of edges and predecessors not yet satisfied */
    uint32_t edge;         /* last edge that was satisfied; DL_TASK_NONE: the lane */
    uint32_t last_arrival; /* task of its group that started last; without a group, the task */
} dl_task_state;

typedef struct dl_lane_state {
    double factor;     /* factor on the work of the lane's tasks */
    double speed;      /* >= 0 */
    double left_ns;    /* remaining work at speed 1 of the current task, at since_ns */
    int64_t since_ns;  /* time for which left_ns is valid */
    int64_t begun_ns;  /* argument of dl_program_begin_lane */
    int64_t worked_ns; /* when the work of the current or last task is done */
    uint32_t at;       /* current task, or DL_TASK_NONE */
    int event;         /* event of the current task's end; only at a speed above 0 */
} dl_lane_state;

/* Callbacks to the user of a run; any of them may be NULL, `start` only without owned tasks. */
typedef struct dl_program_owner {
    /* An owned task starts: dl_program_end must follow, and may be called from within this
     * callback. */
    void (*start)(void *user, int index, uint32_t task);
    void (*ended)(void *user, int index, uint32_t task); /* a task of any kind has ended; not called
                                                          * after dl_program_cut */
    /* All tasks have ended; or, after dl_program_cut, nothing of the run is pending. */
    void (*done)(void *user, int index);
} dl_program_owner;

typedef struct dl_program_run {
    const dl_program *program; /* borrowed, like the next three */
    dl_engine *engine;
    const dl_program_owner *owner; /* NULL: no callbacks */
    void *user;
    int index;
    dl_task_state *tasks; /* [task_count] */
    dl_lane_state *lanes; /* [lane_count]; the owner may set factor and speed between steps */
    uint32_t *group_awaited;
    uint32_t *group_first, *group_next; /* linked lists of each group's started tasks */
    size_t ended;                       /* number of ended tasks */
    size_t pending;                     /* number of pending events and owned tasks */
    bool is_cut;
} dl_program_run;

/* Initialises a run, which does one step of the program at a time. The engine needs room for
 * lane_count events and those of owned tasks. dl_program_run_free accepts a zeroed object. */
void dl_program_run_init(dl_program_run *run, const dl_program *program, dl_engine *engine,
                         const dl_program_owner *owner, void *user, int index);
void dl_program_run_free(dl_program_run *run);

/* Starts a step; the previous one must be idle. Each lane starts with dl_program_begin_lane. */
void dl_program_start(dl_program_run *run);

/* Begins the lane at `ns`. A time in the past counts for the launch times; no task of the lane
 * starts before the current time. */
void dl_program_begin_lane(dl_program_run *run, uint32_t lane, int64_t ns);

/* Ends an owned task that has started. */
void dl_program_end(dl_program_run *run, uint32_t task);

/* Sets the speed of the lane's current and later work; 0 stops it. */
void dl_program_set_speed(dl_program_run *run, uint32_t lane, double speed);

/* Aborts the step: no more tasks start and current work is dropped; owned tasks still end as
 * usual. */
void dl_program_cut(dl_program_run *run);

/* Whether nothing of a step is pending. */
bool dl_program_is_idle(const dl_program_run *run);

#endif
