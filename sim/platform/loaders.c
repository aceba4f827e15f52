#include "sim/platform/loaders.h"

#include <inttypes.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/status.h"
#include "common/units.h"

/* Largest number of a worker's batches that wait or are being made. */
static int depth(const dl_loaders_config *config)
{
    return config->prefetch > 0 ? config->prefetch : 1;
}

/* Time to read a sample without other readers. */
static double read_ns(const dl_loaders_config *config)
{
    return config->read_bytes / (double)config->samples / config->storage_bytes_per_ns;
}

/* Number of processes that make a worker's batches; without loaders, 1 (the worker). */
static int makers_of(const dl_loaders_config *config)
{
    return config->loaders > 0 ? config->loaders : 1;
}

int dl_loaders_events(const dl_loaders_config *config)
{
    return config->workers * (2 + makers_of(config));
}

#define PARTS_MOST 4096 /* limit on the parts of a batch, each of which costs events */

void dl_loaders_init(dl_loaders *loaders, const dl_loaders_config *config)
{
    DL_ASSERT(config->samples >= 1, "batches of %" PRId64 " samples", config->samples);
    const size_t workers = (size_t)config->workers, each = (size_t)makers_of(config);
    *loaders = (dl_loaders){
        .config = *config,
        .makers = dl_calloc(workers * each, sizeof *loaders->makers, "loaders"),
        .workers = dl_calloc(workers, sizeof *loaders->workers, "batches of workers"),
        .made = dl_calloc(workers * (size_t)depth(config), sizeof *loaders->made, "batches"),
    };
    if (config->samples > PARTS_MOST) loaders->config.samples = PARTS_MOST;
    for (size_t m = 0; m < workers * each; m++)
        loaders->makers[m].next = (int64_t)(m % each);
}

void dl_loaders_free(dl_loaders *loaders)
{
    free(loaders->makers);
    free(loaders->workers);
    free(loaders->made);
    *loaders = (dl_loaders){0};
}

static bool *made_of(dl_loaders *loaders, int worker, int64_t batch)
{
    const int most = depth(&loaders->config);
    return &loaders->made[(int64_t)worker * most + batch % most];
}

static int worker_of(const dl_loaders *loaders, int maker)
{
    return maker / makers_of(&loaders->config);
}

static bool makes_its_own(const dl_loaders *loaders)
{
    return loaders->config.loaders == 0;
}

/* Requests a sample from storage; returns the time in ns until it arrives. */
static int64_t ask_storage(dl_loaders *loaders)
{
    const dl_loaders_config *config = &loaders->config;
    const int64_t now_ns = config->engine->now_ns, ns = dl_ns_ceil(read_ns(config));
    const double ahead_ns = config->ahead_bytes / config->storage_bytes_per_ns;
    const int64_t since_ns = ahead_ns < (double)now_ns ? now_ns - (int64_t)ahead_ns : 0;
    if (loaders->storage_free_ns < since_ns) loaders->storage_free_ns = since_ns;
    loaders->storage_free_ns += ns;
    loaders->read_ns += (double)ns;
    return loaders->storage_free_ns > now_ns ? loaders->storage_free_ns - now_ns : 0;
}

/* Starts making the sample that has arrived or, without a storage limit, the whole batch. Must be
 * called from an event or at the end of the maker's work, as the host requires. */
static void make(dl_loaders *loaders, int maker)
{
    const dl_loaders_config *config = &loaders->config;
    const int thread = makes_its_own(loaders) ? maker : config->first_thread + maker;
    const double effort = makes_its_own(loaders) ? config->effort(config->user, maker) : 1;
    const double parts = read_ns(config) > 0 ? (double)config->samples : 1;
    loaders->makers[maker].making = true;
    dl_host_compute(config->host, thread, effort * config->make_ns / parts);
}

/* Callback: the sample has been read. A worker that makes its batches itself, and has stopped
 * waiting, makes nothing. */
static void on_read(void *user, int maker)
{
    dl_loaders *loaders = user;
    dl_maker *m = &loaders->makers[maker];
    m->reading = false;
    m->read = true;
    if (!makes_its_own(loaders) || loaders->workers[maker].wanted) make(loaders, maker);
}

/* Continues the maker's batch. `at_end`: called at the end of the maker's work. */
static void go_on(dl_loaders *loaders, int maker, bool at_end)
{
    dl_maker *m = &loaders->makers[maker];
    if (m->reading) return;
    int64_t ns = 0;
    if (!m->read && read_ns(&loaders->config) > 0) ns = ask_storage(loaders);
    if (ns == 0 && at_end) {
        m->read = true;
        make(loaders, maker);
        return;
    }
    m->reading = true;
    dl_engine_after(loaders->config.engine, ns, on_read, loaders, maker);
}

/* Begins the maker's next batch if one has been requested. `at_end`: called at the end of the
 * maker's work. */
static void begin(dl_loaders *loaders, int maker, bool at_end)
{
    dl_maker *m = &loaders->makers[maker];
    if (m->busy || m->next >= loaders->workers[worker_of(loaders, maker)].ordered) return;
    if (*loaders->config.stopping) return;
    m->busy = true;
    m->samples = 0;
    go_on(loaders, maker, at_end);
}

/* Whether the worker needs another batch: one to make ahead, within the steps of the run, or one
 * that it waits for. */
static bool needs_another(const dl_loaders *loaders, const dl_loaded_worker *w)
{
    return w->ordered < loaders->config.steps || (w->wanted && w->ordered == w->taken);
}

/* Requests batches while there is room for them. */
static void order(dl_loaders *loaders, int worker)
{
    const dl_loaders_config *config = &loaders->config;
    dl_loaded_worker *w = &loaders->workers[worker];
    const int64_t room = config->prefetch > 0 ? config->prefetch : w->wanted;
    if (makes_its_own(loaders)) return;
    while (needs_another(loaders, w) && w->ordered - w->taken < room)
        w->ordered++;
    for (int l = 0; l < config->loaders; l++)
        begin(loaders, worker * config->loaders + l, false);
}

void dl_loaders_start(dl_loaders *loaders)
{
    for (int w = 0; w < loaders->config.workers; w++)
        order(loaders, w);
}

static bool take_made(dl_loaders *loaders, int worker)
{
    dl_loaded_worker *w = &loaders->workers[worker];
    bool *made = made_of(loaders, worker, w->taken);
    if (!*made) return false;
    *made = false;
    w->taken++;
    w->wanted = false;
    order(loaders, worker);
    return true;
}

/* Callback: the worker's batch may be ready; the worker may have stopped waiting. */
static void on_made(void *user, int worker)
{
    dl_loaders *loaders = user;
    if (!loaders->workers[worker].wanted || !take_made(loaders, worker)) return;
    loaders->config.came(loaders->config.user, worker);
}

bool dl_loaders_take(dl_loaders *loaders, int worker)
{
    const dl_loaders_config *config = &loaders->config;
    dl_loaded_worker *w = &loaders->workers[worker];
    if (makes_its_own(loaders) && !(read_ns(config) > 0)) return true;
    if (take_made(loaders, worker)) return true;
    w->wanted = true;
    if (makes_its_own(loaders)) {
        go_on(loaders, worker, false);
    } else {
        order(loaders, worker);
    }
    return false;
}

bool dl_loaders_give_up(dl_loaders *loaders, int worker)
{
    const bool waited = loaders->workers[worker].wanted;
    loaders->workers[worker].wanted = false;
    if (!makes_its_own(loaders) || !loaders->makers[worker].making) return waited;
    loaders->makers[worker].making = false; /* the sample will be made again */
    return false;
}

bool dl_loaders_done(dl_loaders *loaders, int thread)
{
    const dl_loaders_config *config = &loaders->config;
    const int maker = makes_its_own(loaders) ? thread : thread - config->first_thread;
    if (maker < 0 || maker >= config->workers * makers_of(config)) return false;
    const int worker = worker_of(loaders, maker);
    dl_maker *m = &loaders->makers[maker];
    if (!m->making) return false;
    m->making = m->read = false;
    if (read_ns(config) > 0 && ++m->samples < config->samples) {
        go_on(loaders, maker, true);
        return true;
    }
    const int64_t batch = m->next;
    *made_of(loaders, worker, batch) = true;
    m->next += makers_of(config);
    m->samples = 0;
    m->busy = false;
    if (makes_its_own(loaders)) {
        on_made(loaders, worker);
        return true;
    }
    if (loaders->workers[worker].wanted && loaders->workers[worker].taken == batch)
        dl_engine_after(config->engine, 0, on_made, loaders, worker);
    begin(loaders, maker, true);
    return true;
}

double dl_loaders_storage_frac(const dl_loaders *loaders)
{
    const dl_loaders_config *config = &loaders->config;
    const int64_t now_ns = config->engine->now_ns, left_ns = loaders->storage_free_ns - now_ns;
    return (loaders->read_ns - (left_ns > 0 ? (double)left_ns : 0)) / (double)now_ns;
}
