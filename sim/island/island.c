/* The platform of workers of several GPUs: runs their programs and the exchange of their ranks. */
#include "sim/island/island_internal.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/units.h"

/* Whether the rank has tasks, i.e. no other rank represents it. */
static bool has_tasks(const dl_islands *is, int rank)
{
    return dl_alike_is_first(&is->config.shape.shards, dl_split_shard(dl_islands_split(is), rank));
}

/* Number of simulated ranks that join a collective. */
static int joiners(const dl_islands *is, const dl_island_collective *of)
{
    const int simulated = dl_islands_split(is)->shards / is->config.shape.shards.each;
    return of->experts ? simulated / dl_islands_groups(is) : simulated;
}

/* Number of the group of simulated shards with the same experts that represents the shard's. */
static int group_of(const dl_islands *is, int shard)
{
    return dl_alike_group(&is->config.shape.experts, dl_split_expert(dl_islands_split(is), shard));
}

/* Rank `number` of those that the rank represents; 0: itself. */
static int alike(const dl_islands *is, int rank, int number)
{
    const dl_split *split = dl_islands_split(is);
    return dl_split_rank(
        split, dl_split_stage(split, rank),
        dl_alike_member(&is->config.shape.shards, dl_split_shard(split, rank), number));
}

static int thread_of(const dl_islands *is, int worker, int rank)
{
    return is->config.shape.single_thread ? 0 : worker * is->ranks + rank;
}

/* --- accounting ------------------------------------------------------------------------------- */

/* Adds time of a rank to an activity of the step. The team counts all of a step as computing, which
 * tell_team corrects at the end of the step. */
static void spend(dl_island *i, dl_spent spent, int64_t ns)
{
    i->spent_ns[spent] += ns * i->weight;
}

static void idle(dl_island *i, int64_t ns)
{
    spend(i, DL_SPENT_WAITING, ns);
    i->bubble_ns += ns * i->weight;
}

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

/* Counts a rank's wait for task `from`, from since_ns to until_ns, as input, as communication (for
 * a crossing, from the end of its pass), or otherwise as waiting for another rank. */
static void account_wait_for(dl_islands *is, int worker, uint32_t from, int64_t since_ns,
                             int64_t until_ns)
{
    dl_island *i = &is->islands[worker];
    const dl_island_program *program = dl_islands_program(is, worker);
    switch (program->program.tasks[from].kind) {
    case DL_ISLAND_INPUT: spend(i, DL_SPENT_INPUT, until_ns - since_ns); return;
    case DL_ISLAND_PARAMETERS:
    case DL_ISLAND_GATHER:
    case DL_ISLAND_SCATTER: spend(i, DL_SPENT_COPIES, until_ns - since_ns); return;
    case DL_ISLAND_CROSSING: {
        const int64_t sent_ns = later(since_ns, i->run.tasks[program->pass[from]].end_ns);
        idle(i, sent_ns - since_ns);
        spend(i, DL_SPENT_COPIES, until_ns - sent_ns);
        return;
    }
    default: idle(i, until_ns - since_ns);
    }
}

/* Counts the wait of the rank before `task`, starting at since_ns: for the task's dependencies,
 * then for its launch. The dependencies of a step's first task may have been satisfied before its
 * launch started. */
static void account_wait(dl_islands *is, int worker, uint32_t task, int64_t since_ns)
{
    dl_island *i = &is->islands[worker];
    const dl_island_program *program = dl_islands_program(is, worker);
    const dl_task_state *state = &i->run.tasks[task];
    int64_t ready_ns = later(since_ns, state->ready_ns);
    uint32_t from = state->edge;
    if (from != DL_TASK_NONE) {
        from = program->program.edges[from].from;
    } else if (program->program.lanes[program->program.tasks[task].lane].first == task) {
        from = program->needed[program->rank[task]];
        ready_ns = from != DL_TASK_NONE ? later(since_ns, i->run.tasks[from].end_ns) : since_ns;
    } else if (program->program.tasks[task].kind == DL_ISLAND_UPDATE) {
        /* Waits for messages, or for the notice that gradients are reduced. */
        spend(i, DL_SPENT_COPIES, state->start_ns - since_ns);
        return;
    }
    if (from != DL_TASK_NONE && program->program.tasks[task].kind == DL_ISLAND_LAUNCHED)
        from = DL_TASK_NONE;
    if (from != DL_TASK_NONE) account_wait_for(is, worker, from, since_ns, ready_ns);
    spend(i, DL_SPENT_DISPATCH, state->start_ns - (from != DL_TASK_NONE ? ready_ns : since_ns));
}

static bool is_measured(const dl_islands *is, int worker)
{
    return is->team->config.warmup == 0 || is->team->workers[worker].measured_since_ns > 0;
}

static void account(dl_islands *is, int worker, uint32_t task)
{
    dl_island *i = &is->islands[worker];
    const dl_island_program *program = dl_islands_program(is, worker);
    const int rank = program->rank[task];
    const dl_task_state *state = &i->run.tasks[task];
    const dl_lane_state *lane = &i->run.lanes[program->program.tasks[task].lane];
    const int64_t worked_ns = lane->worked_ns;
    int64_t busy_ns = worked_ns - state->start_ns;
    account_wait(is, worker, task, i->free_ns[rank]);
    i->free_ns[rank] = state->end_ns;
    if (program->program.tasks[task].is_steady) { /* part of an exchange */
        spend(i, DL_SPENT_COPIES, state->end_ns - state->start_ns);
        return;
    }
    /* The time of a server on the rank's GPU counts as averaging. */
    const int64_t stopped_ns = i->stopped_ns[rank] < busy_ns ? i->stopped_ns[rank] : busy_ns;
    spend(i, DL_SPENT_AVERAGE, stopped_ns);
    busy_ns -= stopped_ns;
    i->stopped_ns[rank] = 0;
    /* The slowdown of compute by collectives inside a node counts as communication. */
    if (is->slowdown > is->config.gpus.workload->overlap_slowdown) {
        const int64_t full_ns = dl_ns_ceil(program->program.tasks[task].work_ns * lane->factor);
        if (busy_ns > full_ns) {
            spend(i, DL_SPENT_COPIES, busy_ns - full_ns);
            busy_ns = full_ns;
        }
    }
    spend(i, DL_SPENT_COMPUTE, busy_ns);
    spend(i, DL_SPENT_DISPATCH, state->end_ns - worked_ns);
    if (is_measured(is, worker))
        is->busy_ns[dl_split_stage(dl_islands_split(is), rank)] +=
            busy_ns * i->weight * dl_islands_copies(is);
}

/* In a recorded step the GPU waits for dispatch (the host has not launched the next task) as long
 * as in the recording, times the step's noise factor; it computes for the rest of the time. */
static void account_recorded(dl_islands *is, int worker, int64_t end_ns)
{
    dl_island *i = &is->islands[worker];
    const dl_recorded *recorded = is->config.shape.recorded;
    const double factor = i->run.lanes[DL_ISLAND_LANES].factor;
    const int64_t idle_ns = dl_ns_ceil((recorded->done_ns - recorded->busy_ns) * factor);
    const int64_t span_ns = end_ns - i->free_ns[0];
    const int64_t dispatch_ns = idle_ns < span_ns ? idle_ns : span_ns;
    spend(i, DL_SPENT_DISPATCH, dispatch_ns);
    if (is_measured(is, worker)) is->busy_ns[0] += (span_ns - dispatch_ns) * dl_islands_copies(is);
}

/* Accounts for the rest of the worker's step, until end_ns: its ranks are idle. A recorded step is
 * accounted for as a whole. */
static void end_accounts(dl_islands *is, int worker, int64_t end_ns)
{
    dl_island *i = &is->islands[worker];
    if (is->config.shape.recorded != NULL) {
        account_recorded(is, worker, end_ns);
        return;
    }
    for (int r = 0; r < is->ranks; r++)
        if (has_tasks(is, r)) idle(i, end_ns - i->free_ns[r]);
}

/* Moves the time of `i` in activities other than computing, averaged over its ranks, out of the
 * time that the team counts as computing. */
static void tell_team(dl_islands *is, int worker, const dl_island *i)
{
    int64_t *spent_ns = is->team->workers[worker].spent_ns;
    for (int s = 0; s < DL_SPENT_COUNT; s++) {
        if (s == DL_SPENT_COMPUTE) continue;
        const int64_t ns = i->spent_ns[s] / is->ranks;
        spent_ns[s] += ns;
        spent_ns[DL_SPENT_COMPUTE] -= ns;
    }
    if (!is_measured(is, worker)) return;
    is->bubble_ns += i->bubble_ns;
    is->moved_ns += i->spent_ns[DL_SPENT_COPIES] / is->ranks;
    is->waited_ns += i->spent_ns[DL_SPENT_WAITING] / is->ranks;
}

/* --- steps ------------------------------------------------------------------------------------ */

static void begin_rank(dl_islands *is, int worker, int rank)
{
    const dl_island_launches *l = &is->launches[thread_of(is, worker, rank)];
    const int64_t step = is->team->workers[worker].steps_done;
    if (step < l->started)
        dl_program_begin_lane(&is->islands[worker].run, dl_island_lane(rank, DL_ISLAND_COMPUTES),
                              l->start_ns[step % l->room]);
}

/* Factor on the passes of the rank's slowest GPU, including this step's noise. */
static double draw_factor(dl_islands *is, int worker, int rank)
{
    dl_island *i = &is->islands[worker];
    double most = 0;
    i->factor[rank] = 0;
    for (int part = 0; part < dl_islands_split(is)->tensor; part++) {
        const int gpu = dl_islands_gpu(is, worker, rank, part);
        const double noise = dl_noise_next(&is->noise, &i->noise[gpu - worker * is->gpus]);
        i->factor[rank] = fmax(i->factor[rank], noise);
        most = fmax(most, (is->config.slow != NULL ? is->config.slow[gpu] : 1) * noise);
    }
    return most;
}

static void change_speed(dl_island *i, int rank)
{
    dl_program_set_speed(&i->run, dl_island_lane(rank, DL_ISLAND_COMPUTES),
                         i->stops[rank] > 0 ? 0 : i->speed[rank]);
}

static void begin_step(dl_islands *is, int worker)
{
    dl_island *i = &is->islands[worker];
    const bool with_update = is->team->workers[worker].updates_at_once;
    memset(i->spent_ns, 0, sizeof i->spent_ns);
    memset(i->stopped_ns, 0, (size_t)is->ranks * sizeof *i->stopped_ns);
    i->bubble_ns = 0;
    i->waits = false;
    i->works = true;
    dl_program_start(&i->run);
    for (int r = 0; r < is->ranks; r++) {
        i->speed[r] = 1; /* an aborted step may have left it lower */
        change_speed(i, r);
        dl_lane_state *lanes = &i->run.lanes[dl_island_lane(r, 0)];
        i->free_ns[r] = is->team->engine.now_ns;
        lanes[DL_ISLAND_COMPUTES].factor = draw_factor(is, worker, r);
        lanes[DL_ISLAND_UPDATES].factor = with_update ? i->factor[r] : 0;
    }
    for (int r = 0; r < is->ranks; r++) {
        for (int lane = DL_ISLAND_UPDATES; lane < DL_ISLAND_LANES; lane++)
            dl_program_begin_lane(&i->run, dl_island_lane(r, lane), is->team->engine.now_ns);
        begin_rank(is, worker, r);
    }
    for (size_t l = (size_t)is->ranks * DL_ISLAND_LANES; l < i->run.program->lane_count; l++) {
        i->run.lanes[l].factor = i->run.lanes[DL_ISLAND_COMPUTES].factor;
        dl_program_begin_lane(&i->run, (uint32_t)l, is->team->engine.now_ns);
    }
}

static void compute(dl_team *team, int worker)
{
    dl_islands *is = dl_islands_of(team);
    dl_island *i = &is->islands[worker];
    i->began_ns = team->engine.now_ns;
    if (worker > 0 && is->config.lone_worker) return;
    if (dl_program_is_idle(&i->run)) {
        begin_step(is, worker);
    } else {
        i->waits = true;
    }
}

static void on_done(void *user, int worker)
{
    dl_team_done(user, worker);
}

/* Aborts the worker's step: collectives that not all ranks have joined are dropped; flows in
 * progress end normally. */
static void cut(dl_team *team, int worker)
{
    dl_islands *is = dl_islands_of(team);
    dl_island *i = &is->islands[worker];
    if (i->waits) {
        i->waits = false;
    } else {
        i->works = false;
        dl_program_cut(&i->run);
        const dl_island_program *program = dl_islands_program(is, worker);
        const int groups = dl_islands_groups(is);
        for (int c = 0; c < program->collective_count * groups; c++) {
            dl_island_reduction *of = &i->collectives[c];
            if (of->joined_count == joiners(is, &program->collectives[c / groups])) continue;
            while (of->joined_count > 0)
                dl_program_end(&i->run, of->joined[--of->joined_count]);
        }
    }
    dl_engine_after(&team->engine, 0, on_done, team, worker);
}

static void step_is_over(void *user, int worker)
{
    dl_islands *is = user;
    dl_island *i = &is->islands[worker];
    const int end = worker + dl_islands_copies(is);
    if (i->run.is_cut) {
        if (i->waits) begin_step(is, worker);
        return;
    }
    for (int w = worker; w < end; w++) {
        if (is->islands[w].began_ns == i->began_ns) continue;
        is->team->is_undecided = is->team->engine.stopped = true;
        return;
    }
    i->works = false;
    end_accounts(is, worker, is->team->engine.now_ns);
    for (int w = worker; w < end; w++)
        tell_team(is, w, i);
    for (int w = worker; w < end; w++)
        dl_team_done(is->team, w);
}

static void on_updated(void *user, int agent)
{
    dl_islands *is = user;
    dl_team_done(is->team, agent);
}

/* Each rank updates its part; the agent continues after the last of them. Updates concurrent with a
 * step are counted in the step. */
static void update(dl_team *team, int agent)
{
    dl_islands *is = dl_islands_of(team);
    const dl_split *split = dl_islands_split(is);
    const int worker = dl_team_worker(team, agent);
    const bool is_measured_here = agent == worker && is_measured(is, worker);
    double most_ns = 0, sum_ns = 0;
    for (int r = 0; r < is->ranks; r++) {
        const int stage = dl_split_stage(split, r);
        const double ns = is->config.shape.stages[stage].update_ns *
                          is->islands[dl_islands_copies(is) > 1 ? 0 : worker].factor[r];
        if (is_measured_here) is->busy_ns[stage] += dl_ns_ceil(ns);
        most_ns = fmax(most_ns, ns);
        sum_ns += ns;
    }
    const int64_t waited_ns = (int64_t)(most_ns - sum_ns / is->ranks);
    int64_t *spent_ns = team->workers[agent].spent_ns;
    spent_ns[DL_SPENT_UPDATE] -= waited_ns;
    spent_ns[DL_SPENT_WAITING] += waited_ns;
    if (is_measured_here) {
        is->bubble_ns += waited_ns * is->ranks;
        is->waited_ns += waited_ns;
    }
    dl_engine_after(&team->engine, dl_ns_ceil(most_ns), on_updated, is, agent);
}

/* --- what tasks do besides computing --------------------------------------------------------- */

static void task_has_ended(void *user, int worker, uint32_t task)
{
    dl_islands *is = user;
    const dl_island_program *program = dl_islands_program(is, worker);
    const dl_task *of = &program->program.tasks[task];
    const dl_team_observer *observer = is->team->config.observer;
    const bool is_beside = of->lane != dl_island_lane(program->rank[task], DL_ISLAND_COMPUTES);
    if (is->config.shape.recorded != NULL || of->kind > DL_ISLAND_TENSOR ||
        (of->kind == DL_ISLAND_MESSAGE && is_beside))
        return;
    account(is, worker, task);
    if (of->kind == DL_ISLAND_TENSOR) {
        const dl_island_tensor *whole = &is->config.shape.tensors[of->slot];
        is->tensor_bytes += whole->sent_bytes * of->work_ns / whole->ns *
                            is->islands[worker].weight * dl_islands_copies(is);
    }
    if (of->kind >= DL_ISLAND_UPDATE || observer == NULL || observer->pass == NULL) return;
    const dl_island *i = &is->islands[worker];
    for (int part = 0; part < dl_islands_split(is)->tensor; part++)
        observer->pass(observer->user, dl_islands_gpu(is, worker, program->rank[task], part),
                       of->kind == DL_ISLAND_FORWARD, program->pass[task],
                       i->run.tasks[task].start_ns, i->run.lanes[of->lane].worked_ns);
}

static void note_sent(dl_islands *is, const dl_collective *of)
{
    const int domains = dl_machine_domains(&is->config.gpus.options->machine);
    for (int d = 0; d < domains && of->plan.sent_bytes != NULL; d++)
        is->sent_bytes[d] += of->plan.sent_bytes[d];
}

/* flows_of: number of flows of a crossing; simulated_of: number of those that are simulated;
 * way_of: the route of one flow. */
static int flows_of(const dl_islands *is)
{
    return is->config.shape.shards.each * dl_islands_split(is)->tensor;
}

static int simulated_of(const dl_islands *is)
{
    return is->config.shape.lone_crossings ? dl_islands_split(is)->tensor : flows_of(is);
}

static dl_island_way *way_of(const dl_islands *is, dl_island *i, int slot, int flow)
{
    const dl_split *split = dl_islands_split(is);
    const int from = alike(is, slot / 2, flow / split->tensor);
    return &i->ways[(2 * from + slot % 2) * split->tensor + flow % split->tensor];
}

static void on_crossed(void *user, int task)
{
    dl_program_run *run = user;
    dl_islands *is = run->user;
    const int slot = run->program->tasks[task].slot;
    dl_island *i = &is->islands[run->index];
    const double bytes = dl_islands_program(is, run->index)->crossing_bytes[task];
    if (--way_of(is, i, slot, 0)->left > 0) return;
    for (int n = 0; n < flows_of(is); n++) {
        const dl_island_way *way = way_of(is, i, slot, n);
        is->crossed_bytes += bytes * dl_islands_copies(is);
        if (way->domain >= 0) is->sent_bytes[way->domain] += bytes;
    }
    dl_program_end(run, (uint32_t)task);
}

static void start_crossing(dl_islands *is, int worker, uint32_t task, int slot)
{
    dl_island *i = &is->islands[worker];
    const double bytes = dl_islands_program(is, worker)->crossing_bytes[task];
    const int flows = way_of(is, i, slot, 0)->left = simulated_of(is);
    for (int n = 0; n < flows; n++) {
        const dl_island_way *way = way_of(is, i, slot, n);
        dl_network_start(&is->network, way->class, bytes, way->latency_ns, on_crossed, &i->run,
                         (int)task);
    }
}

/* Sets the speed of the GPUs of collectives[index], which is lower while they gather or reduce. */
static void set_speed(dl_islands *is, int worker, int index, double speed)
{
    const dl_split *split = dl_islands_split(is);
    const int groups = dl_islands_groups(is);
    const dl_island_collective *of = &dl_islands_program(is, worker)->collectives[index / groups];
    dl_island *i = &is->islands[worker];
    const dl_alike *shards = &is->config.shape.shards;
    for (int n = 0; n < split->shards && is->slowdown > 1; n += shards->each) {
        const int f = shards->members[n];
        if (of->experts && group_of(is, f) != index % groups) continue;
        const int rank = dl_split_rank(split, of->stage, f);
        i->speed[rank] = speed;
        change_speed(i, rank);
    }
}

void dl_islands_stopped(void *user, int gpu, int change)
{
    dl_islands *is = user;
    const int at = is->rank_of[gpu];
    if (at < 0) return;
    dl_island *i = &is->islands[at / is->ranks];
    const int rank = at % is->ranks;
    const int64_t now_ns = is->team->engine.now_ns;
    if (i->stops[rank] == 0) i->stopped_since_ns[rank] = now_ns;
    i->stops[rank] += change;
    if (i->stops[rank] == 0) {
        const uint32_t task = i->run.lanes[dl_island_lane(rank, DL_ISLAND_COMPUTES)].at;
        if (task != DL_TASK_NONE)
            i->stopped_ns[rank] +=
                now_ns - later(i->stopped_since_ns[rank], i->run.tasks[task].start_ns);
    }
    change_speed(i, rank);
}

void dl_islands_reduced(void *user, int index)
{
    dl_island *i = user;
    dl_islands *is = i->run.user;
    const int worker = i->run.index;
    dl_island_reduction *c = &i->collectives[index];
    const dl_island_program *program = dl_islands_program(is, worker);
    const dl_island_collective *of = &program->collectives[index / dl_islands_groups(is)];
    const dl_team_observer *observer = is->team->config.observer;
    if (--c->left > 0) return;
    is->sharded_bytes += c->moved_bytes * dl_islands_copies(is);
    for (int part = 0; part < dl_islands_parts(is, of); part++)
        note_sent(is, &c->of[c->parts > 1 ? part : 0]);
    const bool stays =
        is->config.gpus.options->slows_throughout && program->pass[c->joined[0]] == 0;
    set_speed(is, worker, index, stays ? 1 / is->slowdown : 1);
    const bool is_seen = worker == 0 && of->stage == 0 && index % dl_islands_groups(is) == 0;
    if (observer != NULL && observer->collective != NULL && is_seen) {
        observer->collective(observer->user, dl_collective_kind_names[c->of->config.kind],
                             of->bucket, c->of->config.bytes, c->arrived_ns,
                             is->team->engine.now_ns);
    }
    const int joined = c->joined_count;
    c->joined_count = 0;
    for (int j = 0; j < joined; j++)
        dl_program_end(&i->run, c->joined[j]);
}

static void join_collective(dl_islands *is, int worker, int number, uint32_t task)
{
    const dl_split *split = dl_islands_split(is);
    const dl_island_program *program = dl_islands_program(is, worker);
    const dl_island_collective *of = &program->collectives[number];
    const int groups = dl_islands_groups(is), shard = dl_split_shard(split, program->rank[task]);
    const int index = number * groups + (of->experts ? group_of(is, shard) : 0);
    dl_island_reduction *c = &is->islands[worker].collectives[index];
    c->joined[c->joined_count++] = task;
    if (c->joined_count < joiners(is, of)) return;
    c->arrived_ns = is->team->engine.now_ns;
    set_speed(is, worker, index, 1 / is->slowdown);
    c->left = c->parts;
    for (int part = 0; part < c->parts; part++)
        for (int f = 0; f < dl_islands_shards(is, of); f++)
            dl_collective_arrive(&c->of[part]);
}

/* Number of the rank's buckets; 1 if all are meant (bucket -1). */
static int bucket_count(const dl_islands *is, int rank, int bucket)
{
    if (bucket < 0) return 1;
    return is->config.shape.buckets[dl_split_stage(dl_islands_split(is), rank)].count;
}

/* Reports that the rank's gradients of one bucket, or all of them (-1), are ready. */
static void is_ready(dl_islands *is, int worker, int rank, int bucket)
{
    const dl_split *split = dl_islands_split(is);
    const int at = bucket < 0 ? 0 : bucket, count = bucket_count(is, rank, bucket);
    for (int n = 0; n < is->config.shape.shards.each * split->tensor; n++) {
        const int other = alike(is, rank, n / split->tensor);
        const int number = is->plane_of[dl_split_gpu(split, other, n % split->tensor)];
        if (number < 0) continue;
        dl_gpus *plane = is->planes[number];
        const int exchanged = dl_gpus_buckets(plane);
        for (int b = at * exchanged / count; b < (at + 1) * exchanged / count; b++)
            for (int w = worker; w < worker + dl_islands_copies(is); w++)
                dl_gpus_bucket_ready(plane, w, b);
    }
}

/* Whether all GPUs that the rank represents have the parameters of the bucket, or all of them (-1).
 * Buckets of a plane that differ from those of the rank are awaited with all that they overlap. */
static bool has_parameters(const dl_islands *is, int worker, int rank, int bucket)
{
    const dl_split *split = dl_islands_split(is);
    const int at = bucket < 0 ? 0 : bucket, count = bucket_count(is, rank, bucket);
    for (int n = 0; n < is->config.shape.shards.each * split->tensor; n++) {
        const int other = alike(is, rank, n / split->tensor);
        const int number = is->plane_of[dl_split_gpu(split, other, n % split->tensor)];
        const int fetched = number >= 0 ? dl_gpus_buckets(is->planes[number]) : 0;
        for (int b = at * fetched / count; b < ((at + 1) * fetched + count - 1) / count; b++)
            if (!dl_server_has(is->planes[number], worker, b)) return false;
    }
    return true;
}

void dl_islands_fetched(void *user, int worker)
{
    dl_islands *is = user;
    dl_island *i = &is->islands[worker];
    for (int r = 0; r < is->ranks; r++) {
        const uint32_t task = i->awaits[r];
        if (task == DL_TASK_NONE ||
            !has_parameters(is, worker, r, i->run.program->tasks[task].slot))
            continue;
        i->awaits[r] = DL_TASK_NONE;
        dl_program_end(&i->run, task);
    }
}

static void await_parameters(dl_islands *is, int worker, int rank, uint32_t task)
{
    dl_island *i = &is->islands[worker];
    if (has_parameters(is, worker, rank, i->run.program->tasks[task].slot)) {
        dl_program_end(&i->run, task);
    } else {
        i->awaits[rank] = task;
    }
}

static int loader_of(const dl_islands *is, int worker, int shard)
{
    return worker * dl_islands_split(is)->shards + shard;
}

/* Whether the loader has the batch for this step; takes it if so. */
static bool takes(dl_islands *is, int worker, int shard)
{
    const int loader = loader_of(is, worker, shard);
    const bool has = dl_input_take(&is->input, loader, is->team->workers[worker].steps_done);
    is->wants[loader] = !has;
    return has;
}

/* Calls `fulfils` for the loaders of all shards represented by `rank`, in all workers represented
 * by `worker`; returns whether it was true for all. */
static bool all_loaders(dl_islands *is, int worker, int rank,
                        bool (*fulfils)(dl_islands *is, int worker, int shard))
{
    const dl_split *split = dl_islands_split(is);
    bool all = true;
    for (int w = worker; w < worker + dl_islands_copies(is); w++)
        for (int n = 0; n < is->config.shape.shards.each; n++)
            all = fulfils(is, w, dl_split_shard(split, alike(is, rank, n))) && all;
    return all;
}

static bool is_content(dl_islands *is, int worker, int shard)
{
    return !is->wants[loader_of(is, worker, shard)];
}

static void take_batch(dl_islands *is, int worker, int rank, uint32_t task)
{
    if (all_loaders(is, worker, rank, takes)) dl_program_end(&is->islands[worker].run, task);
}

void dl_islands_came(void *user, int loader)
{
    dl_islands *is = user;
    const dl_split *split = dl_islands_split(is);
    const int worker = loader / split->shards, shard = loader % split->shards;
    if (!is->wants[loader] || !takes(is, worker, shard)) return;
    const int first = is->config.lone_worker ? 0 : worker;
    const int rank = alike(is, dl_split_rank(split, 0, shard), 0);
    if (!all_loaders(is, first, rank, is_content)) return;
    dl_island *i = &is->islands[first];
    dl_program_end(&i->run, i->run.program->lanes[dl_island_lane(rank, DL_ISLAND_LOADS)].first);
}

static void start_task(void *user, int worker, uint32_t task)
{
    dl_islands *is = user;
    dl_island *i = &is->islands[worker];
    const dl_island_program *program = dl_islands_program(is, worker);
    const dl_task *of = &program->program.tasks[task];
    switch (of->kind) {
    case DL_ISLAND_INPUT: take_batch(is, worker, program->rank[task], task); return;
    case DL_ISLAND_CROSSING: start_crossing(is, worker, task, of->slot); return;
    case DL_ISLAND_GATHER:
    case DL_ISLAND_SCATTER: join_collective(is, worker, of->slot, task); return;
    case DL_ISLAND_PARAMETERS: await_parameters(is, worker, program->rank[task], task); return;
    default: break;
    }
    is_ready(is, worker, program->rank[task], of->slot);
    dl_program_end(&i->run, task);
}

const dl_program_owner dl_islands_owner = {start_task, task_has_ended, step_is_over};

/* --- launches --------------------------------------------------------------------------------- */

/* Callback: a thread's launch of a step has started or ended. */
static void on_launch(void *user, int thread)
{
    dl_islands *is = user;
    dl_island_launches *l = &is->launches[thread];
    const int started = is->dispatch.launches[thread].started;
    if (started == l->started) return;
    l->start_ns[l->started++ % l->room] = is->team->engine.now_ns;
    const int first = is->config.shape.single_thread ? 0 : thread;
    const int end = is->config.shape.single_thread ? is->workers * is->ranks : thread + 1;
    for (int g = first; g < end; g++) {
        const int worker = g / is->ranks;
        if (is->islands[worker].works && is->team->workers[worker].steps_done == started - 1)
            begin_rank(is, worker, g % is->ranks);
    }
}

static void init_dispatch(dl_islands *is)
{
    const dl_islands_config *config = &is->config;
    const dl_gpu_options *options = config->gpus.options;
    const dl_workload *workload = config->gpus.workload;
    const bool single = config->shape.single_thread;
    const int threads = single ? 1 : is->workers * is->ranks;
    is->launch_ns = dl_calloc((size_t)threads, sizeof *is->launch_ns, "launches");
    const int64_t steps = is->team->config.steps;
    const int ahead = dl_gpu_options_ahead(options);
    const int room = (int)(ahead < steps ? ahead : steps) + 3;
    is->launches = dl_calloc((size_t)threads, sizeof *is->launches, "launches");
    is->ended = dl_calloc((size_t)threads, sizeof *is->ended, "launches");
    for (int t = 0; t < threads; t++) {
        is->launches[t].room = room;
        is->launches[t].start_ns =
            dl_calloc((size_t)room, sizeof *is->launches->start_ns, "launches");
        is->launch_ns[t] =
            single ? is->programs[0].thread_ns : is->programs[0].rank_ns[t % is->ranks];
    }
    const dl_team_observer *observer = is->team->config.observer;
    const dl_dispatch_config dispatch = {
        .engine = &is->team->engine,
        .kind = DL_DISPATCH_PER_GPU,
        .workers = threads,
        .ahead = ahead,
        .steps = is->team->config.steps,
        .serial_ns = workload->serial_ns,
        .own_launch_ns = is->launch_ns,
        .progress = on_launch,
        .tells_all = true,
        .user = is,
        .piece = observer != NULL ? observer->host : NULL,
        .observer = observer != NULL ? observer->user : NULL,
    };
    dl_dispatch_init(&is->dispatch, &dispatch);
}

/* Records that a worker has ended a step. The single thread of all workers continues when the last
 * of them has. */
static void step_ended(dl_team *team, int worker)
{
    dl_islands *is = dl_islands_of(team);
    const bool single = is->config.shape.single_thread;
    int64_t ended = team->workers[worker].steps_done;
    for (int w = 0; w < is->workers && single; w++)
        if (team->workers[w].steps_done < ended) ended = team->workers[w].steps_done;
    for (int r = 0; r < (single ? 1 : is->ranks); r++) {
        const int thread = thread_of(is, worker, r);
        for (; is->ended[thread] < ended; is->ended[thread]++)
            dl_dispatch_step_ended(&is->dispatch, thread);
    }
}

/* --- exchange between workers ---------------------------------------------------------------- */

/* GPUs that have finished their exchange wait for the last one of their worker. */
void dl_islands_exchanged(void *user, int agent)
{
    dl_islands *is = user;
    const int64_t now_ns = is->team->engine.now_ns;
    dl_island_exchange *at = &is->exchanging[agent];
    if (at->left < is->plane_count)
        at->waited_ns += (now_ns - at->since_ns) * (is->plane_count - at->left);
    at->since_ns = now_ns;
    if (--at->left > 0) return;
    dl_worker *w = &is->team->workers[agent];
    const int64_t waited_ns = at->waited_ns / is->plane_count;
    w->spent_ns[dl_spent_of((dl_worker_state)w->state)] -= waited_ns;
    w->spent_ns[DL_SPENT_WAITING] += waited_ns;
    if (agent < is->workers && is_measured(is, agent)) is->bubble_ns += waited_ns * is->ranks;
    dl_team_done(is->team, agent);
}

static void exchange(dl_team *team, int agent, dl_exchange exchange)
{
    dl_islands *is = dl_islands_of(team);
    is->exchanging[agent] = (dl_island_exchange){.left = is->plane_count};
    for (int g = 0; g < is->plane_count; g++)
        dl_gpus_exchange(is->planes[g], agent, exchange);
}

static void members_changed(dl_team *team, int worker)
{
    dl_islands *is = dl_islands_of(team);
    for (int g = 0; g < is->plane_count; g++)
        dl_gpus_members_changed(is->planes[g], worker);
}

static int domain(const dl_team *team, int worker)
{
    return dl_gpus_domain(dl_islands_of(team)->planes[0], worker);
}

/* --- the run --------------------------------------------------------------------------------- */

static int init(dl_team *team)
{
    team->machine = team->config.machine;
    dl_islands *is = dl_islands_of(team);
    is->team = team;
    for (int g = 0; g < is->plane_count; g++)
        dl_gpus_join(is->planes[g], team);
    init_dispatch(is);
    int tasks = 0;
    for (int w = 0; w < is->workers; w++)
        tasks += (int)dl_islands_program(is, w)->program.lane_count;
    return team->agents + tasks + is->dispatch.thread_count + dl_input_most(&is->input) +
           2 * is->network.flow_room + 2;
}

static void start(dl_team *team)
{
    dl_islands *is = dl_islands_of(team);
    if (is->config.shape.with_input) dl_input_start(&is->input, team->config.steps);
    dl_dispatch_start(&is->dispatch);
    dl_gpus_traffic_start(is->planes[0]);
}

static void ended(dl_team *team)
{
    dl_dispatch_end(&dl_islands_of(team)->dispatch);
    dl_network_watch_end(&dl_islands_of(team)->network);
}

static void take_core(dl_team *team, int worker)
{
    dl_team_done(team, worker);
}

static double span_of(const dl_team *team)
{
    double span_ns = 0;
    for (int w = 0; w < team->config.workers; w++)
        span_ns += (double)(team->workers[w].last_end_ns - team->workers[w].measured_since_ns);
    return span_ns;
}

void dl_islands_measure(const dl_team *team, dl_islands_figures *figures)
{
    const dl_islands *is = dl_islands_of(team);
    const dl_split *split = dl_islands_split(is);
    const double span_ns = span_of(team);
    figures->bubble_frac = (double)is->bubble_ns / (span_ns * is->ranks);
    figures->moved_frac = (double)is->moved_ns / span_ns;
    figures->waited_frac = (double)is->waited_ns / span_ns;
    for (int s = 0; s < split->stages; s++)
        figures->busy_frac[s] = (double)is->busy_ns[s] / (span_ns * split->shards);
    figures->crossed_bytes = is->crossed_bytes;
    figures->sharded_bytes = is->sharded_bytes + is->tensor_bytes;
    figures->exchanged_bytes = 0;
    for (int g = 0; g < is->plane_count; g++)
        figures->exchanged_bytes += is->plane_weight * dl_gpus_moved_bytes(is->planes[g]);
}

static void measure(const dl_team *team, dl_usage *usage)
{
    const dl_islands *is = dl_islands_of(team);
    const dl_split *split = dl_islands_split(is);
    const dl_gpu_options *options = is->config.gpus.options;
    const double span_ns = (double)team->engine.now_ns;
    char name[DL_RESOURCE_NAME_BYTES];
    double busy_frac[DL_STAGES_MAX];
    dl_islands_figures figures = {.busy_frac = busy_frac};
    dl_islands_measure(team, &figures);
    for (int s = 0; s < split->stages; s++) {
        snprintf(name, sizeof name, split->stages > 1 ? "stage %d" : "GPUs", s);
        dl_usage_note(usage, name, busy_frac[s]);
    }
    for (int t = 0; t < is->dispatch.thread_count; t++) {
        const dl_launch_thread *thread = &is->dispatch.threads[t];
        const double step_ns = thread->serial_ns + is->launch_ns[t];
        snprintf(name, sizeof name, DL_HOST_THREAD "%d", t);
        dl_usage_note(usage, name, (double)thread->step * step_ns / span_ns);
    }
    int link = dl_usage_note_links(usage, &is->network, &options->links, dl_ns_to_s(span_ns));
    const char *own = NULL;
    for (int r = 0; link >= 0 && own == NULL && r < is->plane_count; r++)
        own = dl_gpus_link_name(is->planes[r], link);
    if (own != NULL) snprintf(usage->link, sizeof usage->link, "%s", own);
    dl_usage_note(usage, usage->link, usage->link_frac);
    usage->traffic_bytes = figures.crossed_bytes + figures.sharded_bytes + figures.exchanged_bytes;
    for (int d = 0; d < dl_machine_domains(&options->machine); d++) {
        double sent_bytes = is->sent_bytes[d];
        for (int g = 0; g < is->plane_count; g++)
            sent_bytes += dl_gpus_sent_bytes(is->planes[g])[d];
        usage->sent_bytes = fmax(usage->sent_bytes, sent_bytes);
    }
}

const dl_platform dl_platform_islands = {
    .name = "islands",
    .serves_while_pulled = true,
    .on_gpus = true,
    .init = init,
    .start = start,
    .ended = ended,
    .compute = compute,
    .update = update,
    .exchange = exchange,
    .cut = cut,
    .take_core = take_core,
    .step_ended = step_ended,
    .members_changed = members_changed,
    .domain = domain,
    .measure = measure,
};
