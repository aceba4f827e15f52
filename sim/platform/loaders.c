#include "sim/platform/loaders.h"

#include <stdlib.h>

#include "common/alloc.h"
#include "common/units.h"

/* Batches of a worker that its loaders have at most. */
static int depth(const dl_loaders_config *config)
{
    return config->prefetch > 0 ? config->prefetch : 1;
}

/* Of a batch, while nobody else reads. */
static double read_ns(const dl_loaders_config *config)
{
    return config->read_bytes / config->storage_bytes_per_ns;
}

int dl_loaders_events(const dl_loaders_config *config)
{
    return config->workers * (2 + config->loaders);
}

void dl_loaders_init(dl_loaders *loaders, const dl_loaders_config *config)
{
    const size_t workers = (size_t)config->workers, each = (size_t)config->loaders;
    *loaders = (dl_loaders){
        .config = *config,
        .loaders = dl_calloc(workers * each, sizeof *loaders->loaders, "loaders"),
        .workers = dl_calloc(workers, sizeof *loaders->workers, "batches of workers"),
        .made = dl_calloc(workers * (size_t)depth(config), sizeof *loaders->made, "batches"),
    };
    for (size_t l = 0; l < workers * each; l++)
        loaders->loaders[l].next = (int64_t)(l % each);
}

void dl_loaders_free(dl_loaders *loaders)
{
    free(loaders->loaders);
    free(loaders->workers);
    free(loaders->made);
    *loaders = (dl_loaders){0};
}

static bool *made_of(dl_loaders *loaders, int worker, int64_t batch)
{
    const int most = depth(&loaders->config);
    return &loaders->made[(int64_t)worker * most + batch % most];
}

/* Reads a batch, behind those that were asked for before: done(loaders, index) when it is there. */
static void read_batch(dl_loaders *loaders, dl_event_fn done, int index)
{
    const int64_t now_ns = loaders->config.engine->now_ns,
                  ns = dl_ns_ceil(read_ns(&loaders->config));
    if (loaders->storage_free_ns < now_ns) loaders->storage_free_ns = now_ns;
    loaders->storage_free_ns += ns;
    loaders->read_ns += (double)ns;
    dl_engine_after(loaders->config.engine, loaders->storage_free_ns - now_ns, done, loaders,
                    index);
}

static int worker_of(const dl_loaders *loaders, int loader)
{
    return loader / loaders->config.loaders;
}

/* From an event, or at the end of the loader's own work: so the host asks for it. */
static void make(void *user, int loader)
{
    dl_loaders *loaders = user;
    dl_host_compute(loaders->config.host, loaders->config.first_thread + loader,
                    loaders->config.make_ns);
}

/* Begins the loader's next batch if one has been asked for. `at_end`: of its own work. */
static void begin(dl_loaders *loaders, int loader, bool at_end)
{
    const dl_loaders_config *config = &loaders->config;
    dl_loader *l = &loaders->loaders[loader];
    if (l->busy || l->next >= loaders->workers[worker_of(loaders, loader)].ordered) return;
    if (*config->stopping) return;
    l->busy = true;
    if (at_end && !(read_ns(config) > 0)) {
        make(loaders, loader);
    } else {
        read_batch(loaders, make, loader);
    }
}

/* Whether a batch is asked for: one that the worker waits for, however many it took, or one ahead. */
static bool needs_another(const dl_loaders *loaders, const dl_loaded_worker *w)
{
    return w->ordered < loaders->config.steps || (w->wanted && w->ordered == w->taken);
}

/* Asks for batches while there is room for them. */
static void order(dl_loaders *loaders, int worker)
{
    const dl_loaders_config *config = &loaders->config;
    dl_loaded_worker *w = &loaders->workers[worker];
    const int64_t room = config->prefetch > 0 ? config->prefetch : w->wanted;
    if (config->loaders == 0) return;
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

/* What the worker waits for may be there: it may have given up since. */
static void on_made(void *user, int worker)
{
    dl_loaders *loaders = user;
    if (!loaders->workers[worker].wanted || !take_made(loaders, worker)) return;
    loaders->config.came(loaders->config.user, worker);
}

/* A worker's own batch has been read. */
static void on_read(void *user, int worker)
{
    dl_loaders *loaders = user;
    dl_loaded_worker *w = &loaders->workers[worker];
    w->reading = false;
    *made_of(loaders, worker, w->taken) = true;
    on_made(loaders, worker);
}

bool dl_loaders_take(dl_loaders *loaders, int worker)
{
    const dl_loaders_config *config = &loaders->config;
    dl_loaded_worker *w = &loaders->workers[worker];
    if (config->loaders == 0 && !(read_ns(config) > 0)) return true;
    if (take_made(loaders, worker)) return true;
    w->wanted = true;
    order(loaders, worker);
    if (config->loaders == 0 && !w->reading) {
        w->reading = true;
        read_batch(loaders, on_read, worker);
    }
    return false;
}

bool dl_loaders_give_up(dl_loaders *loaders, int worker)
{
    const bool waited = loaders->workers[worker].wanted;
    loaders->workers[worker].wanted = false;
    return waited;
}

void dl_loaders_done(dl_loaders *loaders, int thread)
{
    const int loader = thread - loaders->config.first_thread;
    const int worker = worker_of(loaders, loader);
    dl_loader *l = &loaders->loaders[loader];
    *made_of(loaders, worker, l->next) = true;
    if (loaders->workers[worker].wanted && loaders->workers[worker].taken == l->next)
        dl_engine_after(loaders->config.engine, 0, on_made, loaders, worker);
    l->next += loaders->config.loaders;
    l->busy = false;
    begin(loaders, loader, true);
}

double dl_loaders_storage_frac(const dl_loaders *loaders)
{
    const dl_loaders_config *config = &loaders->config;
    const int64_t now_ns = config->engine->now_ns, left_ns = loaders->storage_free_ns - now_ns;
    return (loaders->read_ns - (left_ns > 0 ? (double)left_ns : 0)) / (double)now_ns;
}
