#include "sim/step/program.h"

#include <math.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/status.h"
#include "common/units.h"

/* --- making --------------------------------------------------------------------------------- */

uint32_t dl_program_add_lane(dl_program *program)
{
    DL_APPEND(program->lanes, program->lane_count, "lanes") =
        (dl_task_lane){DL_TASK_NONE, DL_TASK_NONE};
    return (uint32_t)program->lane_count - 1;
}

uint32_t dl_program_add(dl_program *program, const dl_task *task)
{
    DL_ASSERT(task->lane < program->lane_count && task->work_ns >= 0 && task->spacing_ns >= 0,
              "task on lane %u of %zu", task->lane, program->lane_count);
    const uint32_t id = (uint32_t)program->task_count;
    dl_task_lane *lane = &program->lanes[task->lane];
    program->next = dl_grow(program->next, id, sizeof *program->next, "tasks");
    DL_APPEND(program->tasks, program->task_count, "tasks") = *task;
    program->tasks[id].group = DL_TASK_NONE;
    program->next[id] = DL_TASK_NONE;
    *(lane->last == DL_TASK_NONE ? &lane->first : &program->next[lane->last]) = id;
    lane->last = id;
    return id;
}

void dl_program_add_edge(dl_program *program, const dl_task_edge *edge)
{
    DL_ASSERT(edge->from < program->task_count && edge->to < program->task_count &&
                  edge->lag_ns >= 0,
              "edge from %u to %u of %zu tasks", edge->from, edge->to, program->task_count);
    DL_APPEND(program->edges, program->edge_count, "edges of tasks") = *edge;
}

void dl_program_add_after(dl_program *program, uint32_t to, uint32_t from)
{
    if (from == DL_TASK_NONE) return;
    dl_program_add_edge(program, &(dl_task_edge){.from = from, .to = to});
}

void dl_program_close(dl_program *p)
{
    p->first_edge = dl_calloc(p->task_count + 2, sizeof *p->first_edge, "tasks");
    p->edge_order = dl_calloc(p->edge_count, sizeof *p->edge_order, "edges of tasks");
    p->awaited = dl_calloc(p->task_count, sizeof *p->awaited, "tasks");
    for (size_t e = 0; e < p->edge_count; e++)
        p->first_edge[p->edges[e].from + 2]++;
    for (size_t t = 0; t < p->task_count; t++) {
        p->first_edge[t + 2] += p->first_edge[t + 1];
        p->awaited[t] = 1;
    }
    for (size_t e = 0; e < p->edge_count; e++) {
        p->edge_order[p->first_edge[p->edges[e].from + 1]++] = (uint32_t)e;
        p->awaited[p->edges[e].to]++;
    }
}

void dl_program_free(dl_program *program)
{
    free(program->tasks);
    free(program->next);
    free(program->edges);
    free(program->lanes);
    free(program->groups);
    free(program->first_edge);
    free(program->edge_order);
    free(program->awaited);
    *program = (dl_program){0};
}

/* --- running -------------------------------------------------------------------------------- */

static void on_start(void *user, int task);
static void on_end(void *user, int task);

/* Counts an event or an owned task as no longer pending, after its consequences have been handled;
 * reports the end of the step if it was the last one. */
static void settle(dl_program_run *run)
{
    run->pending--;
    const bool all = run->ended == run->program->task_count;
    if (run->pending > 0 || !(all || run->is_cut)) return;
    if (run->owner != NULL && run->owner->done != NULL) run->owner->done(run->user, run->index);
}

/* Satisfies one of the task's dependencies, and allows it to start at ready_ns. */
static void satisfy(dl_program_run *run, uint32_t number, int64_t ready_ns, uint32_t edge)
{
    const dl_task *task = &run->program->tasks[number];
    dl_task_state *state = &run->tasks[number];
    const int64_t issue_ns = run->lanes[task->lane].begun_ns + task->issue_ns;
    if (ready_ns >= state->ready_ns) {
        state->ready_ns = ready_ns;
        state->edge = edge;
    }
    if (--state->awaited > 0 || run->is_cut) return;
    state->start_ns = issue_ns > state->ready_ns ? issue_ns : state->ready_ns;
    run->pending++;
    dl_engine_after(run->engine, state->start_ns - run->engine->now_ns, on_start, run, (int)number);
}

static void follow_edges(dl_program_run *run, uint32_t task, bool from_start)
{
    const dl_program *p = run->program;
    for (uint32_t i = p->first_edge[task]; i < p->first_edge[task + 1]; i++) {
        const dl_task_edge *edge = &p->edges[p->edge_order[i]];
        if (edge->from_start != from_start) continue;
        satisfy(run, edge->to, run->engine->now_ns + edge->lag_ns, p->edge_order[i]);
    }
}

static void end_task(dl_program_run *run, uint32_t task)
{
    const dl_program *p = run->program;
    run->tasks[task].end_ns = run->engine->now_ns;
    run->ended++;
    if (run->owner != NULL && run->owner->ended != NULL)
        run->owner->ended(run->user, run->index, task);
    const uint32_t next = p->next[task];
    if (next != DL_TASK_NONE)
        satisfy(run, next, run->engine->now_ns + p->tasks[next].spacing_ns, DL_TASK_NONE);
    follow_edges(run, task, false);
}

/* Schedules the end of the lane's current work at the current speed. */
static void schedule_end(dl_program_run *run, dl_lane_state *lane)
{
    const dl_task *task = &run->program->tasks[lane->at];
    const int64_t now_ns = run->engine->now_ns;
    lane->since_ns = now_ns;
    if (lane->speed <= 0) return;
    lane->worked_ns = now_ns + dl_ns_ceil(lane->left_ns / lane->speed);
    const int64_t issued_ns = lane->begun_ns + task->issued_ns;
    const int64_t end_ns = issued_ns > lane->worked_ns ? issued_ns : lane->worked_ns;
    lane->event = dl_engine_after(run->engine, end_ns - now_ns, on_end, run, (int)lane->at);
}

void dl_program_set_speed(dl_program_run *run, uint32_t number, double speed)
{
    dl_lane_state *lane = &run->lanes[number];
    if (lane->at != DL_TASK_NONE && !run->program->tasks[lane->at].is_steady) {
        const double done_ns = (double)(run->engine->now_ns - lane->since_ns) * lane->speed;
        lane->left_ns = fmax(0, lane->left_ns - done_ns);
        if (lane->speed > 0) dl_engine_cancel(run->engine, lane->event);
        lane->speed = speed;
        schedule_end(run, lane);
    }
    lane->speed = speed;
}

/* Records that a task of a group has started; the last one sets the end of all. */
static void join_group(dl_program_run *run, uint32_t task)
{
    const uint32_t group = run->program->tasks[task].group;
    run->group_next[task] = run->group_first[group];
    run->group_first[group] = task;
    if (--run->group_awaited[group] > 0) return;
    for (uint32_t t = task; t != DL_TASK_NONE; t = run->group_next[t]) {
        run->tasks[t].last_arrival = task;
        dl_engine_after(run->engine, run->program->groups[group].duration_ns, on_end, run, (int)t);
    }
}

static void on_start(void *user, int number)
{
    dl_program_run *run = user;
    const uint32_t id = (uint32_t)number;
    const dl_task *task = &run->program->tasks[id];
    dl_lane_state *lane = &run->lanes[task->lane];
    if (run->is_cut) {
        settle(run);
        return;
    }
    run->tasks[id].last_arrival = id;
    if (task->is_owned) {
        follow_edges(run, id, true);
        run->owner->start(run->user, run->index, id);
        return;
    }
    if (task->group != DL_TASK_NONE) {
        join_group(run, id);
    } else if (task->is_steady) {
        dl_engine_after(run->engine, dl_ns_ceil(task->work_ns), on_end, run, number);
    } else {
        lane->at = id;
        lane->left_ns = task->work_ns * lane->factor;
        schedule_end(run, lane);
    }
    follow_edges(run, id, true);
}

static void on_end(void *user, int number)
{
    dl_program_run *run = user;
    dl_lane_state *lane = &run->lanes[run->program->tasks[number].lane];
    if (lane->at == (uint32_t)number) lane->at = DL_TASK_NONE;
    if (!run->is_cut) end_task(run, (uint32_t)number);
    settle(run);
}

void dl_program_end(dl_program_run *run, uint32_t task)
{
    on_end(run, (int)task);
}

void dl_program_begin_lane(dl_program_run *run, uint32_t number, int64_t ns)
{
    const uint32_t first = run->program->lanes[number].first;
    const int64_t now_ns = run->engine->now_ns;
    run->lanes[number].begun_ns = ns;
    if (first != DL_TASK_NONE && !run->is_cut)
        satisfy(run, first, ns > now_ns ? ns : now_ns, DL_TASK_NONE);
}

void dl_program_cut(dl_program_run *run)
{
    run->is_cut = true;
    for (size_t l = 0; l < run->program->lane_count; l++) {
        dl_lane_state *lane = &run->lanes[l];
        if (lane->at == DL_TASK_NONE) continue;
        if (lane->speed > 0) dl_engine_cancel(run->engine, lane->event);
        lane->at = DL_TASK_NONE;
        run->pending--;
    }
    for (size_t g = 0; g < run->program->group_count; g++) {
        if (run->group_awaited[g] == 0) continue;
        for (uint32_t t = run->group_first[g]; t != DL_TASK_NONE; t = run->group_next[t])
            run->pending--;
    }
}

bool dl_program_is_idle(const dl_program_run *run)
{
    return run->pending == 0;
}

void dl_program_start(dl_program_run *run)
{
    const dl_program *p = run->program;
    DL_ASSERT(run->pending == 0, "a step starts before %zu events of the last one", run->pending);
    run->ended = 0;
    run->is_cut = false;
    for (size_t t = 0; t < p->task_count; t++)
        run->tasks[t] = (dl_task_state){.awaited = p->awaited[t], .edge = DL_TASK_NONE};
    for (size_t g = 0; g < p->group_count; g++) {
        run->group_awaited[g] = p->groups[g].size;
        run->group_first[g] = DL_TASK_NONE;
    }
    for (size_t l = 0; l < p->lane_count; l++)
        run->lanes[l].at = DL_TASK_NONE;
}

void dl_program_run_init(dl_program_run *run, const dl_program *program, dl_engine *engine,
                         const dl_program_owner *owner, void *user, int index)
{
    const size_t groups = program->group_count;
    *run = (dl_program_run){
        .program = program,
        .engine = engine,
        .owner = owner,
        .user = user,
        .index = index,
        .tasks = dl_calloc(program->task_count, sizeof *run->tasks, "tasks"),
        .lanes = dl_calloc(program->lane_count, sizeof *run->lanes, "lanes"),
        .group_awaited = dl_calloc(groups, sizeof *run->group_awaited, "groups of tasks"),
        .group_first = dl_calloc(groups, sizeof *run->group_first, "groups of tasks"),
        .group_next =
            dl_calloc(groups > 0 ? program->task_count : 0, sizeof(uint32_t), "groups of tasks"),
    };
    for (size_t l = 0; l < program->lane_count; l++)
        run->lanes[l].factor = run->lanes[l].speed = 1;
}

void dl_program_run_free(dl_program_run *run)
{
    free(run->tasks);
    free(run->lanes);
    free(run->group_awaited);
    free(run->group_first);
    free(run->group_next);
    *run = (dl_program_run){0};
}
