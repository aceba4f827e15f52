/* Modes in which workers push gradients and the server updates: async, ssp, softsync, and the four
 * modes of Dutta et al. 2018, which wait for the first k gradients.
 *
 * Gradients wait in the server's memory and are summed by the update (an [update] over as many
 * vectors). With [exchange] sum = on_arrival, the server of softsync, kasync and kbatchasync adds
 * each gradient to the running sum, under the lock, and the update applies the sum.
 *
 * Asynchronous rule, under the server's lock: a worker that has pushed contributes its gradient;
 * the last one needed triggers the server's update; then the worker pulls the current parameters.
 *
 * Synchronous rule: only gradients of the newest parameters count. When enough have arrived, one
 * worker triggers the server's update, the computations of the others are aborted immediately, and
 * all workers pull and start a new step. Aborted or late gradients are dropped: they cost time and
 * enter no update. */
#include <math.h>

#include "sim/sync/mode.h"

/* An update waits while it would make a gradient staler than `bound` (INFINITY: no limit), and
 * workers that arrive meanwhile wait for the update. With `waits`, every worker waits for the
 * update that includes its gradient; otherwise it continues with the current parameters. */
typedef struct server_rule {
    int64_t gradients; /* number of gradients per update, >= 1 */
    double bound;      /* only for the asynchronous rule */
    bool waits;
} server_rule;

enum {
    ASYNC_LOCKED = 3,
    ASYNC_SERVED,
    ASYNC_WAITED,
    ASYNC_LOCKED_AGAIN,
    ASYNC_PULLED,
    ASYNC_ADDED
};

/* Whether gradients are summed on arrival with this rule. */
static bool adds(const dl_team *team, const server_rule *rule)
{
    return team->config.sums_on_arrival && rule->gradients > 1;
}

/* Whether all gradients being computed would still be within the staleness bound after an update at
 * the current time. */
static bool may_update(const dl_team *team, double bound)
{
    for (int w = 0; w < team->config.workers; w++) {
        const dl_worker *other = &team->workers[w];
        if (other->computes && (double)(team->version + 1 - other->read_version) > bound) {
            return false;
        }
    }
    return true;
}

static void pull_locked(dl_team *team, int worker)
{
    team->workers[worker].stage = ASYNC_PULLED;
    dl_team_read(team, worker);
    dl_team_pull_locked(team, worker);
}

static void contribute(dl_team *team, int worker, const server_rule *rule)
{
    dl_team_contribute(team, worker);
    const bool due = team->gradients >= rule->gradients;
    if (due && may_update(team, rule->bound)) {
        team->workers[worker].stage = ASYNC_SERVED;
        dl_team_exchange(team, worker,
                         (dl_exchange){.kind = adds(team, rule) ? DL_UPDATE : DL_APPLY,
                                       .gradients = team->gradients});
    } else if (due || rule->waits) {
        team->workers[worker].stage = ASYNC_WAITED;
        dl_team_unlock(team, worker);
        dl_team_wait(team, worker, dl_team_is_applied);
    } else {
        pull_locked(team, worker);
    }
}

static void advance_async_rule(dl_team *team, int worker, const server_rule *rule)
{
    switch (team->workers[worker].stage++) {
    case 0: dl_team_compute(team, worker, false); break;
    case 1: dl_team_exchange(team, worker, (dl_exchange){.kind = DL_PUSH}); break;
    case 2: dl_team_lock(team, worker); break;
    case ASYNC_LOCKED:
        if (adds(team, rule)) {
            team->workers[worker].stage = ASYNC_ADDED;
            dl_team_exchange(team, worker,
                             (dl_exchange){.kind = DL_ADD, .gradients = team->gradients});
        } else {
            contribute(team, worker, rule);
        }
        break;
    case ASYNC_ADDED: contribute(team, worker, rule); break;
    case ASYNC_SERVED:
        dl_team_update(team);
        dl_team_wake(team);
        pull_locked(team, worker);
        break;
    case ASYNC_WAITED: dl_team_lock(team, worker); break;
    case ASYNC_LOCKED_AGAIN: pull_locked(team, worker); break;
    default:
        dl_team_leave(team, worker);
        dl_team_end_step(team, worker);
        break;
    }
}

enum { SYNC_COMPUTED = 1, SYNC_PUSHED, SYNC_SERVED, SYNC_WAITED, SYNC_PULLED };

static void pull(dl_team *team, int worker)
{
    team->workers[worker].stage = SYNC_PULLED;
    dl_team_read(team, worker);
    dl_team_exchange(team, worker, (dl_exchange){.kind = DL_PULL});
}

/* Drops the worker's gradient, which was late or aborted. */
static void drop(dl_team *team, int worker)
{
    dl_team_drop(team, worker);
    team->workers[worker].stage = SYNC_WAITED;
    dl_team_wait(team, worker, dl_team_is_outdated);
}

static void contribute_newest(dl_team *team, int worker, const server_rule *rule)
{
    if (dl_team_is_outdated(team, worker) || team->gradients >= rule->gradients) {
        drop(team, worker);
        return;
    }
    dl_team_contribute(team, worker);
    if (team->gradients == rule->gradients) {
        dl_team_exchange(team, worker,
                         (dl_exchange){.kind = DL_APPLY, .gradients = rule->gradients});
    } else if (rule->waits) {
        team->workers[worker].stage = SYNC_WAITED;
        dl_team_wait(team, worker, dl_team_is_outdated);
    } else {
        dl_team_end_step(team, worker);
    }
}

static void cut_the_others(dl_team *team, int worker)
{
    for (int w = 0; w < team->config.workers; w++) {
        if (w != worker) dl_team_cut(team, w);
    }
}

static void advance_sync_rule(dl_team *team, int worker, const server_rule *rule)
{
    switch (team->workers[worker].stage++) {
    case 0: dl_team_compute(team, worker, false); break;
    case SYNC_COMPUTED:
        if (dl_team_is_outdated(team, worker)) {
            drop(team, worker);
        } else {
            dl_team_exchange(team, worker, (dl_exchange){.kind = DL_PUSH});
        }
        break;
    case SYNC_PUSHED: contribute_newest(team, worker, rule); break;
    case SYNC_SERVED:
        dl_team_update(team);
        cut_the_others(team, worker);
        dl_team_wake(team);
        pull(team, worker);
        break;
    case SYNC_WAITED: pull(team, worker); break;
    default: dl_team_end_step(team, worker); break;
    }
}

/* --- the modes ------------------------------------------------------------------------------- */

static bool is_within_bound(const dl_team *team, int worker)
{
    const int64_t ahead = team->workers[worker].clock - team->least_clock;
    return (double)ahead <= team->config.option[DL_SYNC_BOUND];
}

/* Asynchronous parameter server: a worker that has computed pushes its gradient, which is applied
 * under the server's lock, and pulls.
 *
 * Stale synchronous parallel (Ho et al. 2013): like async, but a worker starts a step at most
 * `bound` clocks ahead of the slowest one.
 *
 * When worker i reads before its step c, its clock is c, and each other worker j has contributed at
 * least c - bound gradients (otherwise i would wait). During that step i's clock stays c, so j may
 * start no step later than c + bound and contributes at most c + bound + 1 gradients. So j makes at
 * most 2 bound + 1 updates meanwhile, and the gradient is at most (2 bound + 1) (n - 1) stale.
 * Async has no bound (INFINITY). With bound 0 all wait for all, but each gradient is still a
 * separate update. */
static void advance_bounded(dl_team *team, int worker)
{
    switch (team->workers[worker].stage++) {
    case 0: dl_team_compute(team, worker, false); break;
    case 1: dl_team_exchange(team, worker, (dl_exchange){.kind = DL_PUSH}); break;
    case 2: dl_team_lock(team, worker); break;
    case ASYNC_LOCKED:
        dl_team_exchange(team, worker, (dl_exchange){.kind = DL_APPLY, .gradients = 1});
        break;
    case ASYNC_SERVED:
        dl_team_contribute(team, worker);
        dl_team_update(team);
        dl_team_wake(team);
        if (is_within_bound(team, worker)) {
            pull_locked(team, worker);
        } else {
            dl_team_unlock(team, worker);
            dl_team_wait(team, worker, is_within_bound);
        }
        break;
    case ASYNC_WAITED: dl_team_lock(team, worker); break;
    case ASYNC_LOCKED_AGAIN: pull_locked(team, worker); break;
    default:
        dl_team_leave(team, worker);
        dl_team_end_step(team, worker);
        break;
    }
}

/* n-softsync (Gupta, Zhang & Wang 2016): the server updates after workers / n gradients (rounded
 * down). Workers do not wait for the update, except while one is due that would make another
 * gradient exceed the bound. */
static void advance_softsync(dl_team *team, int worker)
{
    const double *option = team->config.option;
    advance_async_rule(team, worker,
                       &(server_rule){.gradients = team->config.workers / (int)option[DL_SYNC_N],
                                      .bound = option[DL_SYNC_BOUND]});
}

/* The server waits for the first k gradients, of any parameters (async) or of the newest ones.
 * `waits`: a worker that has pushed one waits for the update. */
static void advance_k(dl_team *team, int worker, bool async, bool waits)
{
    const server_rule rule = {.gradients = (int64_t)team->config.option[DL_SYNC_K],
                              .bound = (double)INFINITY,
                              .waits = waits};
    (async ? advance_async_rule : advance_sync_rule)(team, worker, &rule);
}

/* K-sync SGD: uses the first k gradients of the newest parameters; the other workers are aborted,
 * and all start a new step. */
static void advance_ksync(dl_team *team, int worker)
{
    advance_k(team, worker, false, true);
}

/* K-batch-sync: like ksync, but a worker that has pushed a gradient immediately computes the next
 * one with the same parameters, so a fast worker may push several. */
static void advance_kbatchsync(dl_team *team, int worker)
{
    advance_k(team, worker, false, false);
}

/* K-async: uses the first k gradients, of any parameters; a worker that has pushed one of them
 * waits for the update, the others continue computing. */
static void advance_kasync(dl_team *team, int worker)
{
    advance_k(team, worker, true, true);
}

/* K-batch-async: uses the first k gradients, of any workers; nobody waits for the update. */
static void advance_kbatchasync(dl_team *team, int worker)
{
    advance_k(team, worker, true, false);
}

#define SERVER_MODE(mode, function, takes, requires, waits_at, stale, once_each) \
    const dl_mode dl_mode_##mode = {                                             \
        .name = #mode,                                                           \
        .options = DL_SYNC_ANY | 1u << DL_SYNC_WHERE | (takes) | (requires),     \
        .required = requires,                                                    \
        .needs = DL_NEED_COPY | DL_NEED_UPDATE | DL_NEED_PARAMETERS,             \
        .exchange = DL_EXCHANGES_UPLOADS,                                        \
        .through = DL_THROUGH_SERVER,                                            \
        .compresses = true,                                                      \
        .sums = (waits_at)&LOCK && ((takes) | (requires)) & (N | K),             \
        .each = (waits_at)&LOCK && !(((takes) | (requires)) & (N | K)),          \
        .once = once_each,                                                       \
        .wait = waits_at,                                                        \
        .staleness = stale,                                                      \
        .advance = function,                                                     \
    }
#define BOUND (1u << DL_SYNC_BOUND)
#define K (1u << DL_SYNC_K)
#define N (1u << DL_SYNC_N)
#define LOCK DL_MODE_WAIT_LOCK
#define BARRIER DL_MODE_WAIT_BARRIER
SERVER_MODE(async, advance_bounded, 0, 0, LOCK, DL_MODE_STALENESS_SOME, false);
SERVER_MODE(ssp, advance_bounded, 0, BOUND, LOCK | BARRIER, DL_MODE_STALENESS_SOME, false);
SERVER_MODE(softsync, advance_softsync, N | BOUND, 0, LOCK | BARRIER, DL_MODE_STALENESS_SOME,
            false);
SERVER_MODE(ksync, advance_ksync, 0, K, BARRIER, DL_MODE_STALENESS_ZERO, true);
SERVER_MODE(kbatchsync, advance_kbatchsync, 0, K, BARRIER, DL_MODE_STALENESS_ZERO, false);
SERVER_MODE(kasync, advance_kasync, 0, K, LOCK | BARRIER, DL_MODE_STALENESS_SOME, true);
SERVER_MODE(kbatchasync, advance_kbatchasync, 0, K, LOCK, DL_MODE_STALENESS_SOME, false);
