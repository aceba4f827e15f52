/* Modes without exchange, and with an exchange of gradients in every step: none, allreduce, ps.
 *
 * The exchange may lag: with `lag` = 1 a worker's communication thread exchanges the gradients of a
 * step while the worker computes the next one, with parameters that lack that step's update (staged
 * variables, relaxed consistency). A worker hands its gradients over as soon as the previous
 * exchange is done. If workers update their parameters themselves, they do so with the result of
 * that exchange, as part of their next step. So a step takes as long as the slower of computing,
 * including that update, and the exchange. If workers shard the state, an exchange includes the
 * update of their parts, which their GPUs do concurrently with the step, and the gather of all
 * parameters. */
#include "sim/sync/mode.h"

/* Starts stage `stage` of an exchange; returns false, without starting anything, after the last
 * one. */
typedef bool (*exchange_fn)(dl_team *team, int agent, int stage);

/* Advance of a worker whose communication thread exchanges. The update in its step uses the
 * exchange that ended before the step started. */
static void advance_ahead(dl_team *team, int worker, bool updates)
{
    switch (team->workers[worker].stage++) {
    case 0: dl_team_compute(team, worker, updates); break;
    case 1: dl_team_wait(team, worker, dl_team_comm_is_idle); break;
    default:
        dl_team_hand_over(team, worker);
        dl_team_end_step(team, worker);
        break;
    }
}

/* Advance of a mode that computes, then exchanges. `updates`: every worker updates its
 * parameters. */
static void advance_lag(dl_team *team, int agent, exchange_fn exchange, bool updates)
{
    const bool is_comm = agent >= team->config.workers;
    if (team->config.comm_threads && !is_comm) {
        advance_ahead(team, agent, updates);
        return;
    }
    const int stage = team->workers[agent].stage++;
    if (!is_comm && stage == 0) {
        dl_team_compute(team, agent, false);
    } else if (!exchange(team, agent, is_comm ? stage : stage - 1)) {
        if (is_comm) {
            dl_team_exchanged(team, agent);
        } else {
            dl_team_end_step(team, agent);
        }
    }
}

/* Mode none: independent copies that share the machine. */
static void advance_none(dl_team *team, int worker)
{
    switch (team->workers[worker].stage++) {
    case 0: dl_team_compute(team, worker, true); break;
    default: dl_team_end_step(team, worker); break;
    }
}

const dl_mode dl_mode_none = {
    .name = "none",
    .options = DL_SYNC_ANY,
    .advance = advance_none,
};

/* All-reduce of gradients: each of n workers averages 1/n of all n vectors, then copies the whole
 * result. Workers then update their parameters; communication threads do so only if the state is
 * sharded, before the gather of all parameters. */
static bool exchange_allreduce(dl_team *team, int agent, int stage)
{
    switch (stage) {
    case 0: dl_team_barrier(team, agent); return true;
    case 1:
        dl_team_exchange(team, agent,
                         (dl_exchange){.kind = DL_AVERAGE, .slices = team->config.workers});
        return true;
    case 2: dl_team_barrier(team, agent); return true;
    case 3:
        if (dl_team_worker(team, agent) == 0) dl_team_update(team);
        dl_team_exchange(
            team, agent,
            (dl_exchange){.kind = DL_PULL, .servers = team->config.workers, .in_place = true});
        return true;
    case 4:
        if (agent >= team->config.workers && !team->config.gathers) return false;
        dl_team_local_update(team, agent);
        return true;
    case 5:
        if (!team->config.gathers) return false;
        dl_team_exchange(team, agent, (dl_exchange){.kind = DL_GATHER});
        return true;
    default: return false;
    }
}

static void advance_allreduce(dl_team *team, int agent)
{
    advance_lag(team, agent, exchange_allreduce, true);
}

const dl_mode dl_mode_allreduce = {
    .name = "allreduce",
    .options = DL_SYNC_ANY | 1u << DL_SYNC_LAG,
    .exchange = DL_EXCHANGES_GRADIENTS,
    .through = DL_THROUGH_COLLECTIVE,
    .needs = DL_NEED_COPY | DL_NEED_AVERAGE | DL_NEED_PARAMETERS,
    .wait = DL_MODE_WAIT_BARRIER,
    .staleness = DL_MODE_STALENESS_ZERO,
    .advance = advance_allreduce,
};

/* Synchronous parameter server: push; each of the server's threads sums and updates a slice;
 * pull. */
static bool exchange_ps(dl_team *team, int agent, int stage)
{
    switch (stage) {
    case 0:
        dl_team_exchange(team, agent,
                         (dl_exchange){.kind = DL_PUSH, .servers = team->config.server_threads});
        return true;
    case 1: dl_team_barrier(team, agent); return true;
    case 2:
        dl_team_exchange(team, agent,
                         (dl_exchange){.kind = DL_SUM, .slices = team->config.server_threads});
        return true;
    case 3: dl_team_barrier(team, agent); return true;
    case 4:
        if (dl_team_worker(team, agent) == 0) dl_team_update(team);
        dl_team_exchange(team, agent,
                         (dl_exchange){.kind = DL_PULL, .servers = team->config.server_threads});
        return true;
    default: return false;
    }
}

static void advance_ps(dl_team *team, int agent)
{
    advance_lag(team, agent, exchange_ps, false);
}

const dl_mode dl_mode_ps = {
    .name = "ps",
    .sums = true,
    .options = DL_SYNC_ANY | 1u << DL_SYNC_LAG | 1u << DL_SYNC_SERVER_THREADS | 1u << DL_SYNC_WHERE,
    .exchange = DL_EXCHANGES_GRADIENTS,
    .through = DL_THROUGH_SERVER,
    .compresses = true,
    .needs = DL_NEED_COPY | DL_NEED_UPDATE | DL_NEED_PARAMETERS,
    .wait = DL_MODE_WAIT_BARRIER,
    .staleness = DL_MODE_STALENESS_ZERO,
    .advance = advance_ps,
};
