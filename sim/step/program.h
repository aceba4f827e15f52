/* A step as tasks on lanes, made once and run many times.
 *
 * A lane does one task at a time, in order: a stream of a GPU, a copy engine, a host thread. A task
 * starts when
 *
 *   its lane has begun, and the one before it on the lane ended at least spacing_ns ago;
 *   every edge to it is satisfied: lag_ns after the end, or the start, of the edge's task;
 *   issue_ns have passed since its lane began: a host thread launches it then.
 *
 * It ends when its work is done at its lane's speed, and issued_ns have passed since its lane began
 * (its launch has ended). The owner of the run carries out owned tasks (a flow, a collective, a
 * message) and reports their ends.
 *
 * Tasks of a *group* start by themselves and end together, the group's time after the last start.
 *
 *   lane 0   [task 0      ][task 1]          edge 0 -> 2, from the end
 *   lane 1                 [task 2     ]     edge 2 -> 3, from the start, with a lag
 *   lane 2                     [task 3 ]
 *
 * Times are ns of the engine's clock. Runs of one program share it; each has states of its own. */
#ifndef DL_SIM_PROGRAM_H
#define DL_SIM_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sim/engine.h"

#define DL_TASK_NONE UINT32_MAX

typedef struct dl_task {
    double work_ns;              /* >= 0, at speed 1 and factor 1 */
    int64_t spacing_ns;          /* >= 0 */
    int64_t issue_ns, issued_ns; /* >= 0 */
    uint32_t lane;
    uint32_t group; /* or DL_TASK_NONE */
    int32_t slot;   /* for the owner's use, like the next */
    uint8_t kind;
    bool is_owned;
    bool is_steady; /* its work does not depend on its lane's factor and speed */
} dl_task;

typedef struct dl_task_edge {
    uint32_t from, to; /* tasks */
    int64_t lag_ns;    /* >= 0 */
    bool from_start;   /* counts from the start of `from`, not from its end */
} dl_task_edge;

typedef struct dl_task_lane {
    uint32_t first, last; /* DL_TASK_NONE if it has none */
} dl_task_lane;

typedef struct dl_task_group {
    uint32_t size;
    int64_t duration_ns;
} dl_task_group;

/* Owns its arrays; release with dl_program_free. A zeroed one is empty. */
typedef struct dl_program {
    dl_task *tasks;
    uint32_t *next; /* [task_count] successor on the lane, or DL_TASK_NONE */
    dl_task_edge *edges;
    dl_task_lane *lanes;
    dl_task_group *groups;
    size_t task_count, edge_count, lane_count, group_count;
    /* Set by dl_program_close. */
    uint32_t *first_edge; /* [task_count + 1] in edge_order, by the edges' `from` */
    uint32_t *edge_order; /* [edge_count] */
    uint32_t *awaited;    /* [task_count] edges to it, and the task before it, or its lane */
} dl_program;

/* Each returns the number of the added item; a task follows the last one added to its lane. */
uint32_t dl_program_add_lane(dl_program *program);
uint32_t dl_program_add(dl_program *program, const dl_task *task);
void dl_program_add_edge(dl_program *program, const dl_task_edge *edge);

/* `to` starts after the end of `from`; no effect where `from` is DL_TASK_NONE. */
void dl_program_add_after(dl_program *program, uint32_t to, uint32_t from);

/* Completes the program: it can be run, and nothing can be added. */
void dl_program_close(dl_program *program);
void dl_program_free(dl_program *program);

/* State of a task in a run. Before its start, ready_ns is the latest of its satisfied
 * dependencies. */
typedef struct dl_task_state {
    int64_t ready_ns, start_ns, end_ns;
    uint32_t awaited;      /* edges and predecessors still outstanding */
    uint32_t edge;         /* the edge satisfied last; DL_TASK_NONE: its lane */
    uint32_t last_arrival; /* task of its group that started last; itself without a group */
} dl_task_state;

typedef struct dl_lane_state {
    double factor;     /* multiplies the work of its tasks */
    double speed;      /* >= 0 */
    double left_ns;    /* remaining current work at speed 1, */
    int64_t since_ns;  /* as of this time */
    int64_t begun_ns;  /* as given to dl_program_begin_lane */
    int64_t worked_ns; /* when the work of its last task was done */
    uint32_t at;       /* the current task, or DL_TASK_NONE */
    int event;         /* its end; only at a speed above 0 */
} dl_lane_state;

/* The user of a run; any function may be NULL. */
typedef struct dl_program_owner {
    /* An owned task starts: dl_program_end must follow, possibly from within this call. */
    void (*start)(void *user, int index, uint32_t task);
    void (*ended)(void *user, int index, uint32_t task); /* a task, of any kind */
    /* All tasks have ended; or, after dl_program_cut, nothing of the run is pending. */
    void (*done)(void *user, int index);
} dl_program_owner;

typedef struct dl_program_run {
    const dl_program *program; /* borrowed, as the next three */
    dl_engine *engine;
    const dl_program_owner *owner; /* NULL: none */
    void *user;
    int index;
    dl_task_state *tasks; /* [task_count] */
    dl_lane_state *lanes; /* [lane_count]; factor and speed are the owner's to set between steps */
    uint32_t *group_awaited;
    uint32_t *group_first, *group_next; /* lists of a group's started tasks */
    size_t ended;                       /* tasks */
    size_t pending;                     /* events and owned tasks */
    bool is_cut;
} dl_program_run;

/* Room for one step of the program at a time; engine->... needs room for lane_count + owned tasks
 * events. dl_program_run_free accepts a zeroed object. */
void dl_program_run_init(dl_program_run *run, const dl_program *program, dl_engine *engine,
                         const dl_program_owner *owner, void *user, int index);
void dl_program_run_free(dl_program_run *run);

/* Starts a step; the previous one must be idle. Lanes begin one by one. */
void dl_program_start(dl_program_run *run);

/* Begins the lane at `ns`, which may lie in the past for the launch times; otherwise no task of the
 * lane starts earlier. */
void dl_program_begin_lane(dl_program_run *run, uint32_t lane, int64_t ns);

/* Ends an owned task that has started. */
void dl_program_end(dl_program_run *run, uint32_t task);

/* Sets the speed of the lane's current and later work; at 0 it stands still. */
void dl_program_set_speed(dl_program_run *run, uint32_t lane, double speed);

/* Starts nothing more of the step and drops current work; owned tasks still end as usual. */
void dl_program_cut(dl_program_run *run);

/* Whether nothing of a step is pending. */
bool dl_program_is_idle(const dl_program_run *run);

#endif
