#include "sim/platform/dispatch.h"

#include <stdlib.h>

#include "common/alloc.h"
#include "common/units.h"

const char *const dl_dispatch_names[3] = {"single", "per_gpu"};

void dl_dispatch_init(dl_dispatch *dispatch, const dl_dispatch_config *config)
{
    const int threads = config->kind == DL_DISPATCH_SINGLE ? 1 : config->workers;
    const size_t workers = (size_t)config->workers;
    *dispatch = (dl_dispatch){
        .config = *config,
        .threads = dl_calloc((size_t)threads, sizeof *dispatch->threads, "host threads"),
        .thread_count = threads,
        .launches = dl_calloc(workers, sizeof *dispatch->launches, "launched steps"),
    };
    for (int t = 0; t < threads; t++) {
        dispatch->threads[t].first = t;
        dispatch->threads[t].count = config->workers / threads;
        double own_ns = 0;
        for (int w = t; w < t + dispatch->threads[t].count && config->own_serial_ns != NULL; w++)
            own_ns += config->own_serial_ns[w];
        dispatch->threads[t].serial_ns = config->serial_ns + own_ns;
    }
}

void dl_dispatch_free(dl_dispatch *dispatch)
{
    free(dispatch->threads);
    free(dispatch->launches);
    *dispatch = (dl_dispatch){0};
}

static void go_on(void *user, int thread);

static void after(dl_dispatch *dispatch, int thread, double delay_ns)
{
    dl_engine_after_about(dispatch->config.engine, dl_ns_ceil(delay_ns), go_on, dispatch, thread,
                          thread);
}

static void try_step(dl_dispatch *dispatch, int thread)
{
    dl_launch_thread *t = &dispatch->threads[thread];
    if (t->busy || t->awaited > 0 || t->step == dispatch->config.steps) return;
    t->busy = true;
    t->at = -1;
    after(dispatch, thread, t->serial_ns);
}

/* Sets out for the step after the one that has been launched. */
static void next_step(dl_dispatch *dispatch, int thread)
{
    dl_launch_thread *t = &dispatch->threads[thread];
    t->busy = false;
    t->step++;
    t->awaited = 0;
    for (int w = t->first; w < t->first + t->count; w++) {
        t->awaited += dispatch->launches[w].ended < t->step - dispatch->config.ahead;
    }
    try_step(dispatch, thread);
}

/* A piece of the thread's work is over: the serial part, or the launch of a worker's step. */
static void go_on(void *user, int thread)
{
    dl_dispatch *dispatch = user;
    const dl_dispatch_config *config = &dispatch->config;
    dl_launch_thread *t = &dispatch->threads[thread];
    const int done = t->at, next = ++t->at; /* counted from first */
    if (done >= 0) dispatch->launches[t->first + done].launched++;
    if (next < t->count) {
        dispatch->launches[t->first + next].started++;
        after(dispatch, thread, config->per_worker_ns);
    } else {
        next_step(dispatch, thread);
    }
    if (done >= 0) config->progress(config->user, t->first + done);
    if (next < t->count) config->progress(config->user, t->first + next);
}

void dl_dispatch_start(dl_dispatch *dispatch)
{
    for (int t = 0; t < dispatch->thread_count; t++)
        try_step(dispatch, t);
}

void dl_dispatch_step_ended(dl_dispatch *dispatch, int worker)
{
    const int thread = dispatch->config.kind == DL_DISPATCH_SINGLE ? 0 : worker;
    dl_launch_thread *t = &dispatch->threads[thread];
    dispatch->launches[worker].ended++;
    if (t->busy || dispatch->launches[worker].ended != t->step - dispatch->config.ahead) return;
    t->awaited--;
    try_step(dispatch, thread);
}
