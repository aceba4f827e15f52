/* Host threads that issue the passes. When a step's issue has begun, the times of all of its passes
 * follow: they cost no events. */
#include <stdlib.h>

#include "common/alloc.h"
#include "common/units.h"
#include "sim/pipeline/pipeline.h"

static double pass_ns(const dl_pipeline *p, int gpu, int pass)
{
    const dl_pipeline_config *config = &p->config;
    const int number = dl_pipeline_stage(p, gpu);
    const dl_stage *stage = &config->stages[number];
    const double all_ns = config->workload->per_worker_ns + config->workload->dispatch_ns;
    return all_ns * (dl_pipeline_is_forward(config->schedule, &config->split, number, pass)
                         ? stage->issue_forward
                         : stage->issue_backward);
}

static int64_t *issue_of(const dl_pipeline *p, int gpu)
{
    return p->issue_ns + (size_t)gpu * (size_t)dl_pipeline_passes(p);
}

/* A thread of several GPUs takes them in turn, a pass each. */
static void init_issuer(dl_pipeline *p, dl_pipeline_issuer *t, int first, int count)
{
    const int passes = dl_pipeline_passes(p);
    *t = (dl_pipeline_issuer){.first = first, .count = count};
    t->start_ns = dl_calloc((size_t)p->config.steps, sizeof *t->start_ns, "issued steps");
    double at_ns = p->config.workload->serial_ns;
    for (int pass = 0; pass < passes; pass++) {
        for (int g = first; g < first + count; g++) {
            issue_of(p, g)[pass] = dl_ns_ceil(at_ns);
            at_ns += pass_ns(p, g, pass);
        }
    }
    t->step_ns = dl_ns_ceil(at_ns);
}

void dl_pipeline_issuers_init(dl_pipeline *p)
{
    const bool single = p->config.options->dispatch == DL_DISPATCH_SINGLE;
    const size_t passes = (size_t)dl_pipeline_passes(p);
    p->issuer_count = single ? 1 : p->gpu_count;
    p->issuers = dl_calloc((size_t)p->issuer_count, sizeof *p->issuers, "host threads");
    p->issue_ns = dl_calloc((size_t)p->gpu_count * passes, sizeof *p->issue_ns, "issued passes");
    for (int t = 0; t < p->issuer_count; t++)
        init_issuer(p, &p->issuers[t], t, single ? p->gpu_count : 1);
}

static dl_pipeline_issuer *issuer_of(const dl_pipeline *p, int gpu)
{
    return &p->issuers[p->issuer_count > 1 ? gpu : 0];
}

/* A step is issued when all of the thread's GPUs have ended the one `ahead` + 1 before. */
void dl_pipeline_issue(dl_pipeline *p, int gpu)
{
    dl_pipeline_issuer *t = issuer_of(p, gpu);
    int64_t ended = p->config.steps;
    for (int g = t->first; g < t->first + t->count; g++) {
        if (p->gpus[g].step < ended) ended = p->gpus[g].step;
    }
    const int64_t before = t->begun;
    while (t->begun < p->config.steps && t->begun <= ended + p->config.options->ahead) {
        const int64_t now_ns = p->engine.now_ns;
        const int64_t start_ns = t->free_ns > now_ns ? t->free_ns : now_ns;
        t->start_ns[t->begun++] = start_ns;
        t->free_ns = start_ns + t->step_ns;
    }
    for (int g = t->first; t->begun > before && g < t->first + t->count; g++)
        dl_pipeline_try(p, g);
}

int64_t dl_pipeline_issue_begin_ns(const dl_pipeline *p, int gpu)
{
    const dl_pipeline_issuer *t = issuer_of(p, gpu);
    const dl_pipeline_gpu *g = &p->gpus[gpu];
    return g->step < t->begun ? t->start_ns[g->step] + issue_of(p, gpu)[g->pass] : -1;
}

int64_t dl_pipeline_issue_end_ns(const dl_pipeline *p, int gpu)
{
    return dl_pipeline_issue_begin_ns(p, gpu) + dl_ns_ceil(pass_ns(p, gpu, p->gpus[gpu].pass));
}
