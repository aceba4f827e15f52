/* Runs on GPUs of a machine with round numbers: two nodes of four GPUs, two on each of two PCIe
 * switches of one socket.
 *
 *   socket (memory 40 GB/s) -- sw0 (10 GB/s) -- gpu0, gpu1 (10 GB/s each)     latency 100 ns an
 * edge
 *                           -- sw1 (10 GB/s) -- gpu2, gpu3
 *   NIC on the socket, 1 GB/s; the GPUs' memory 100 GB/s
 */
#ifndef DL_TESTS_GPU_FIXTURE_H
#define DL_TESTS_GPU_FIXTURE_H

#include "tests/sim_fixture.h"

#include <unistd.h>

#define FIXTURE_GPUS FIXTURE_GPUS_OF("peer = all\n")

/* The fixture with other copies between GPUs: lines of [machine]. */
#define FIXTURE_GPUS_OF(peer)                                                         \
    "[machine]\nschema = 1\nname = test\nnodes = 2\n" peer "price_usd_per_hour = 9\n" \
    "[gpu_model g]\nmemory_bytes = 1MB\nmemory_bytes_per_s = 100GB/s\n"               \
    "fp32_flop_per_s = 1Tflop/s\n"                                                    \
    "[link x16]\nbytes_per_s = 10GB/s\nlatency_ns = 100\n"                            \
    "[link wire]\nbytes_per_s = 1GB/s\nlatency_ns = 5000\n"                           \
    "[host]\nmemory_bytes_per_s = 40GB/s\n"                                           \
    "[switch sw0]\nparent = socket0\nlink = x16\n"                                    \
    "[switch sw1]\nparent = socket0\nlink = x16\n"                                    \
    "[gpus 0-1]\nmodel = g\nparent = sw0\nlink = x16\n"                               \
    "[gpus 2-3]\nmodel = g\nparent = sw1\nlink = x16\n"                               \
    "[nics 0]\nparent = socket0\nlink = x16\nport = wire\n"

/* Nodes with one GPU each, that nothing but their ports of 1 GB/s holds up; count as a text. */
#define FIXTURE_NODES(count)                                               \
    "[machine]\nschema = 1\nname = nodes\nnodes = " count "\npeer = all\n" \
    "[gpu_model g]\nmemory_bytes = 1GB\nmemory_bytes_per_s = 100GB/s\n"    \
    "fp32_flop_per_s = 1Tflop/s\n"                                         \
    "[link x16]\nbytes_per_s = 100GB/s\nlatency_ns = 0\n"                  \
    "[link wire]\nbytes_per_s = 1GB/s\nlatency_ns = 0\n"                   \
    "[host]\nmemory_bytes_per_s = 1000GB/s\n"                              \
    "[gpus 0]\nmodel = g\nparent = socket0\nlink = x16\n"                  \
    "[nics 0]\nparent = socket0\nlink = x16\nport = wire\n"

#define FIXTURE_PASSES                                       \
    "[op a.forward]\nfixed_ns = 400000\nper_sample_ns = 0\n" \
    "[op a.backward]\nfixed_ns = 600000\nper_sample_ns = 0\n"
#define FIXTURE_UPDATE "[op a.update]\nfixed_ns = 100000\nper_sample_ns = 0\n"

/* 1 ms forward and backward, 0.1 ms update, 80 kB of parameters, 40 kB of state; nothing on the
 * host but what a test adds. Averaging: 0.5 ns a byte read, 1 ns written; update 1 and 1. */
#define FIXTURE_GPU_COSTS                                                                   \
    "[costs]\nschema = 1\nparameter_bytes = 80000\nstate_bytes = 40000\n" FIXTURE_PASSES    \
        FIXTURE_UPDATE                                                                      \
    "[average]\nlatency_ns = 0\nread_bytes_per_s = 2e9\nwrite_bytes_per_s = 1e9\n"          \
    "[update]\nlatency_ns = 0\nread_bytes_per_s = 1e9, measured\nwrite_bytes_per_s = 1e9\n" \
    "[sync]\nbarrier_ns = 0\nlock_ns = 0\n"

#define FIXTURE_FREE_DISPATCH "[dispatch]\nserial_ns = 0\nper_worker_ns = 0\n"

static inline void fixture_write(const char *path, const char *text)
{
    FILE *out = fopen(path, "w");
    if (out == NULL || fputs(text, out) < 0 || fclose(out) != 0) fail_msg("cannot write %s", path);
}

/* One point on a machine of this text; `machine` and `rest` are more lines of the scenario's
 * [machine] and more sections. */
static inline dl_run_result fixture_run_machine(const char *text, const char *costs_text,
                                                const char *machine, int workers, int steps,
                                                const char *rest)
{
    char path[64];
    snprintf(path, sizeof path, "gpus_%d.ini", (int)getpid());
    fixture_write(path, text);
    DL_SCOPED(dl_costs) costs = fixture_costs(costs_text);
    dl_scenario scenario =
        fixture_scenario("[scenario]\nsteps = %d\n[machine]\nfile = %s\nworkers = %d\n%s"
                         "[workload]\ncosts = c.ini\nbatch_per_worker = 1\n%s",
                         steps, path, workers, machine, rest);
    unlink(path);
    char *missing = dl_costs_missing(&costs, dl_run_needs(&scenario, &costs, &scenario.points[0]));
    if (missing != NULL) fail_msg("missing: %s", missing);
    dl_run_result result = fixture_run(&costs, &scenario);
    dl_scenario_free(&scenario);
    return result;
}

/* On the machine above. */
static inline dl_run_result fixture_run_gpus(const char *costs_text, const char *machine,
                                             int workers, int steps, const char *rest)
{
    return fixture_run_machine(FIXTURE_GPUS, costs_text, machine, workers, steps, rest);
}

/* The step that all take in the steady state, in ns. */
static inline double fixture_step_ns(const char *costs_text, const char *machine, int workers,
                                     const char *rest)
{
    DL_SCOPED(dl_run_result) r = fixture_run_gpus(costs_text, machine, workers, 20, rest);
    return 1e9 * r.step_p50_s;
}

#endif
