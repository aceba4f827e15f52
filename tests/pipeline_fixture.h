/* Split models on the machine of tests/gpu_fixture.h. */
#ifndef DL_TESTS_PIPELINE_FIXTURE_H
#define DL_TESTS_PIPELINE_FIXTURE_H

#include "tests/gpu_fixture.h"

#include "sim/run.h"

/* Layers a, b, c, d: forward 0.1 ms + 10 us a sample, backward twice that; 20 kB of parameters and
 * 1 kB of output each, 7 kB of activations a sample in all. */
#define FIXTURE_LAYER_OF(name, output)                              \
    "[op " name ".forward]\nfixed_ns = 1e5\nper_sample_ns = 1e4\n"  \
    "[op " name ".backward]\nfixed_ns = 2e5\nper_sample_ns = 2e4\n" \
    "[layer " name "]\noutput_bytes_per_sample = " output "\nparameter_bytes = 20000\n"
#define FIXTURE_LAYER(name) FIXTURE_LAYER_OF(name, "1000")
#define FIXTURE_LAYERS_OF(output) \
    FIXTURE_LAYER_OF("a", output) \
    FIXTURE_LAYER_OF("b", output) FIXTURE_LAYER_OF("c", output) FIXTURE_LAYER_OF("d", output)
#define FIXTURE_LAYERS FIXTURE_LAYERS_OF("1000")
#define FIXTURE_PIPELINE_HEAD                                             \
    "[costs]\nschema = 1\nparameter_bytes = 80000\nstate_bytes = 40000\n" \
    "[gpu_memory]\nactivation_bytes_per_sample = 7000\nworkspace_bytes = 1000\n"
#define FIXTURE_PIPELINE_COSTS_OF(output) \
    FIXTURE_PIPELINE_HEAD FIXTURE_LAYERS_OF(output) FIXTURE_FREE_DISPATCH
#define FIXTURE_PIPELINE_COSTS FIXTURE_PIPELINE_COSTS_OF("1000")

typedef struct pipeline_case {
    dl_costs costs;
    dl_scenario scenario;
} pipeline_case;

/* Fails the test if the scenario cannot be read; else it is the caller's to free. */
static inline pipeline_case pipeline_open(const char *costs_text, const char *machine,
                                          const char *pipeline, const char *rest)
{
    char path[64];
    snprintf(path, sizeof path, "pipeline_%d.ini", (int)getpid());
    fixture_write(path, FIXTURE_GPUS);
    pipeline_case c = {.costs = fixture_costs(costs_text)};
    c.scenario = fixture_scenario("[scenario]\nsteps = 20\n[machine]\nfile = %s\n%s"
                                  "[workload]\ncosts = c\nbatch_per_worker = 8\n"
                                  "[pipeline]\n%s%s",
                                  path, machine, pipeline, rest);
    unlink(path);
    return c;
}

static inline void pipeline_close(pipeline_case *c)
{
    dl_scenario_free(&c->scenario);
    dl_costs_free(&c->costs);
}

static inline dl_run_result pipeline_run(const char *costs_text, const char *machine,
                                         const char *pipeline, const char *rest)
{
    pipeline_case c = pipeline_open(costs_text, machine, pipeline, rest);
    dl_run_result result = fixture_run(&c.costs, &c.scenario);
    pipeline_close(&c);
    return result;
}

#endif
