/* Modes that exchange parameters after every `interval` local steps: average, bmuf, easgd. Averages
 * may be of fragments, each every `interval` steps, which are sent at steps spaced as evenly as
 * possible (Streaming DiLoCo, Douillard et al. 2025), and may be merged `lag` steps after
 * sending. */
#include "sim/sync/members.h"
#include "sim/sync/mode.h"

static void end_step(dl_team *team, int worker, int64_t local_updates)
{
    team->workers[worker].local_updates = local_updates;
    dl_team_end_step(team, worker);
}

/* After a local step: pushes if it was the interval's last one; otherwise ends it. */
static void push_or_end(dl_team *team, int worker)
{
    const int64_t done = team->workers[worker].local_updates + 1;
    if (done < team->workers[worker].interval) {
        end_step(team, worker, done);
    } else {
        dl_team_exchange(team, worker, (dl_exchange){.kind = DL_PUSH});
    }
}

/* Number of steps of its interval that the worker has done, including the current one; 0 after the
 * last one. */
static int64_t done_of_interval(const dl_team *team, int worker)
{
    const dl_worker *w = &team->workers[worker];
    return (w->local_updates + 1) % w->interval;
}

/* Whether the current step ends with an exchange. */
static bool is_due(const dl_team *team, int worker)
{
    const int64_t done = team->workers[worker].local_updates + 1;
    return dl_members_due(team, worker, done) > dl_members_due(team, worker, done - 1);
}

static bool is_first(const dl_team *team, int worker)
{
    return dl_members_has(team, worker) && dl_members_rank(team, worker) == 0;
}

/* Starts stage `stage` of an exchange: push, average, outer update if the mode has one, pull, with
 * barriers before and after averaging. Returns false, without starting anything, after the last
 * stage. */
static bool exchange_average(dl_team *team, int agent, int stage)
{
    const bool with_state = team->config.average_state;
    enum { OUTER = 3 };
    dl_exchange exchange = {
        .with_state = with_state, .as_learned = true, .slices = team->config.server_threads};
    switch (stage >= OUTER && !team->config.outer_update ? stage + 1 : stage) {
    case 0:
        dl_members_count(team, 1);
        exchange.kind = DL_PUSH;
        exchange.servers = exchange.slices;
        exchange.slices = 0;
        dl_team_exchange(team, agent, exchange);
        return true;
    case 1: dl_team_barrier(team, agent); return true;
    case 2:
        exchange.kind = DL_AVERAGE;
        dl_team_exchange(team, agent, exchange);
        return true;
    case OUTER:
        exchange.kind = DL_OUTER_UPDATE;
        exchange.with_state = false;
        dl_team_exchange(team, agent, exchange);
        return true;
    case 4: dl_team_barrier(team, agent); return true;
    case 5:
        if (is_first(team, dl_team_worker(team, agent))) dl_team_update(team);
        dl_team_exchange(team, agent,
                         (dl_exchange){.kind = DL_PULL,
                                       .with_state = with_state,
                                       .servers = team->config.server_threads});
        return true;
    default: dl_members_count(team, -1); return false;
    }
}

/* Condition: the average of the parameters sent `lag` steps ago has arrived. A run that is measured
 * from its start includes all averages: its last step waits for them. After a warm-up, as many
 * averages are in flight at the end as at the start, and the last step waits like any other. */
static bool has_come_back(const dl_team *team, int worker)
{
    const int64_t now = dl_members_position(team, worker) + 1;
    const bool is_last =
        team->config.warmup == 0 && team->workers[worker].steps_done + 1 == team->config.steps;
    const int64_t step = is_last ? now : now - (int64_t)team->config.option[DL_SYNC_LAG];
    const int64_t sent = step > 0 ? dl_members_due(team, worker, step) : 0;
    return team->workers[dl_team_exchanger(team, worker)].exchanged >= sent;
}

/* Advance of a worker with `lag`, whose communication thread exchanges while it computes. It merges
 * an average `lag` steps after its parameters were sent. */
static void advance_lagging(dl_team *team, int worker, int stage)
{
    const int64_t done = done_of_interval(team, worker);
    if (stage == 0) {
        if (is_due(team, worker)) dl_team_hand_over(team, worker);
        dl_team_wait(team, worker, has_come_back);
    } else {
        end_step(team, worker, done);
    }
}

/* A local step (if sites reduce gradients, together with the other workers of the site), followed
 * by the exchange if one is due. Blockwise model-update filtering (Chen & Huo 2016) is an average
 * with an outer update: the difference of the average from the previous parameters, with momentum,
 * is added to these, slice by slice, which costs [average]s of three and of two vectors. DiLoCo
 * (Douillard et al. 2023) is the same with Nesterov momentum, and with Adam for local steps. */
static void advance_average(dl_team *team, int agent)
{
    const bool is_comm = agent >= team->config.workers;
    const int stage = team->workers[agent].stage++;
    if (is_comm) {
        if (stage == 0 && !dl_members_start(team, agent)) return;
        if (!exchange_average(team, agent, stage)) {
            dl_team_exchanged(team, agent);
        }
        return;
    }
    const bool inside = team->config.reduces_inside;
    const int first = inside ? 3 : 1; /* stage that follows the local step */
    /* The other workers of the worker's site need it for their step. */
    const bool is_needed = inside && stage > 0 && stage < first;
    if (dl_members_advance(team, agent, stage, is_needed || stage > first)) return;
    const int64_t done = done_of_interval(team, agent);
    if (inside && (stage == 0 || stage == first - 1)) dl_members_reduce(team, agent, stage == 0);
    if (stage == 0) {
        dl_team_compute(team, agent, !inside);
    } else if (stage == first - 2) {
        dl_team_exchange(team, agent, (dl_exchange){.kind = DL_REDUCE_INSIDE});
    } else if (stage == first - 1) {
        dl_team_local_update(team, agent);
    } else if (team->config.comm_threads) {
        advance_lagging(team, agent, stage - first);
    } else if (!is_due(team, agent) || !exchange_average(team, agent, stage - first)) {
        end_step(team, agent, done);
    }
}

/* Asynchronous elastic averaging (Zhang, Choromanska & LeCun 2015): a worker and the server's
 * center move towards each other. Under the lock the worker pushes its parameters and pulls the
 * center, and the server's elastic update computes the new center; outside the lock the worker
 * updates its parameters. Each update costs an [average] of two vectors. */
static void advance_easgd(dl_team *team, int worker)
{
    switch (team->workers[worker].stage++) {
    case 0: dl_team_compute(team, worker, true); break;
    case 1: push_or_end(team, worker); break;
    case 2: dl_team_lock(team, worker); break;
    case 3: dl_team_exchange(team, worker, (dl_exchange){.kind = DL_PULL}); break;
    case 4: dl_team_exchange(team, worker, (dl_exchange){.kind = DL_BLEND}); break;
    case 5:
        dl_team_update(team);
        dl_team_unlock(team, worker);
        dl_team_exchange(team, worker, (dl_exchange){.kind = DL_BLEND_OWN});
        break;
    default: end_step(team, worker, 0); break;
    }
}

/* A mode whose workers wait for a lock requires a server. Modes with outer updates send the change
 * since the last average, which can be compressed. */
#define AVERAGING_MODE(mode, function, takes, waits_at)                                        \
    const dl_mode dl_mode_##mode = {                                                           \
        .name = #mode,                                                                         \
        .options = DL_SYNC_ANY | 1u << DL_SYNC_INTERVAL | 1u << DL_SYNC_BY_SPEED |             \
                   1u << DL_SYNC_WHERE | (takes),                                              \
        .needs = DL_NEED_COPY | DL_NEED_AVERAGE | DL_NEED_PARAMETERS,                          \
        .exchange = DL_EXCHANGES_PARAMETERS,                                                   \
        .through =                                                                             \
            DL_THROUGH_SERVER | ((waits_at) == DL_MODE_WAIT_LOCK ? 0 : DL_THROUGH_COLLECTIVE), \
        .compresses = ((takes)&1u << DL_SYNC_OUTER) != 0,                                      \
        .wait = waits_at,                                                                      \
        .staleness = DL_MODE_STALENESS_NONE,                                                   \
        .advance = function,                                                                   \
    }
#define THREADS (1u << DL_SYNC_SERVER_THREADS)
AVERAGING_MODE(average, advance_average,
               1u << DL_SYNC_AVERAGE_STATE | 1u << DL_SYNC_OUTER | 1u << DL_SYNC_FRAGMENTS |
                   1u << DL_SYNC_INSIDE | 1u << DL_SYNC_LAG | 1u << DL_SYNC_AWAY | THREADS,
               DL_MODE_WAIT_BARRIER);
AVERAGING_MODE(bmuf, advance_average, 1u << DL_SYNC_BLOCK_MOMENTUM | THREADS, DL_MODE_WAIT_BARRIER);
AVERAGING_MODE(easgd, advance_easgd, 1u << DL_SYNC_MOVING_RATE, DL_MODE_WAIT_LOCK);
