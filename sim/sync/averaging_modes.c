/* Parameters exchanged after every `interval` local steps: average, bmuf, easgd. */
#include "sim/sync/mode.h"

static void end_step(dl_team *team, int worker, int64_t local_updates)
{
    team->workers[worker].local_updates = local_updates;
    dl_team_end_step(team, worker);
}

/* After a local step: pushes if it was the interval's last one, else ends it. */
static void push_or_end(dl_team *team, int worker, bool with_state)
{
    const int64_t done = team->workers[worker].local_updates + 1;
    if (done < team->workers[worker].interval) {
        end_step(team, worker, done);
    } else {
        dl_team_exchange(team, worker, (dl_exchange){.kind = DL_PUSH, .with_state = with_state});
    }
}

/* Push, average a slice each, filter it if the mode does, pull. */
static void advance_synchronous(dl_team *team, int worker, bool with_state, bool filters)
{
    enum { FILTER = 4 };
    dl_exchange exchange = {.with_state = with_state, .slices = team->config.server_threads};
    dl_worker *w = &team->workers[worker];
    if (w->stage == FILTER && !filters) w->stage++;
    switch (w->stage++) {
    case 0: dl_team_compute(team, worker, true); break;
    case 1: push_or_end(team, worker, with_state); break;
    case 2: dl_team_barrier(team, worker); break;
    case 3:
        exchange.kind = DL_AVERAGE;
        dl_team_exchange(team, worker, exchange);
        break;
    case FILTER:
        exchange.kind = DL_FILTER;
        dl_team_exchange(team, worker, exchange);
        break;
    case 5: dl_team_barrier(team, worker); break;
    case 6:
        if (worker == 0) dl_team_update(team);
        dl_team_exchange(team, worker, (dl_exchange){.kind = DL_PULL, .with_state = with_state});
        break;
    default: end_step(team, worker, 0); break;
    }
}

static void advance_average(dl_team *team, int worker)
{
    advance_synchronous(team, worker, team->config.average_state, false);
}

/* Blockwise model-update filtering (Chen & Huo 2016): as average, and the server's threads filter
 * the averaged update with a block momentum, slice by slice, which costs [average]s of three and of
 * two vectors. */
static void advance_bmuf(dl_team *team, int worker)
{
    advance_synchronous(team, worker, false, true);
}

/* Asynchronous elastic averaging (Zhang, Choromanska & LeCun 2015): a worker and the server's
 * center move towards each other. Under the lock the worker pushes its parameters and pulls the
 * center, and the server's elastic update makes the new center; outside it the worker updates its
 * own. Each update costs an [average] of two vectors. */
static void advance_easgd(dl_team *team, int worker)
{
    switch (team->workers[worker].stage++) {
    case 0: dl_team_compute(team, worker, true); break;
    case 1: push_or_end(team, worker, false); break;
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

#define AVERAGING_MODE(mode, takes, waits_at)                                      \
    const dl_mode dl_mode_##mode = {                                               \
        .name = #mode,                                                             \
        .options = DL_SYNC_ANY | 1u << DL_SYNC_INTERVAL | 1u << DL_SYNC_BY_SPEED | \
                   1u << DL_SYNC_WHERE | (takes),                                  \
        .needs = DL_NEED_COPY | DL_NEED_AVERAGE | DL_NEED_PARAMETERS,              \
        .wait = waits_at,                                                          \
        .staleness = DL_MODE_STALENESS_NONE,                                       \
        .advance = advance_##mode,                                                 \
    }
#define THREADS (1u << DL_SYNC_SERVER_THREADS)
AVERAGING_MODE(average, 1u << DL_SYNC_AVERAGE_STATE | THREADS, DL_MODE_WAIT_BARRIER);
AVERAGING_MODE(bmuf, 1u << DL_SYNC_BLOCK_MOMENTUM | THREADS, DL_MODE_WAIT_BARRIER);
AVERAGING_MODE(easgd, 1u << DL_SYNC_MOVING_RATE, DL_MODE_WAIT_LOCK);
