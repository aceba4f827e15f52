/* The work that dlsim, SimGrid and programs written for it alone do in the benchmark and the test
 * of peers: n GPUs, one per node, on a switch with ports of 12.5 GB/s and 2 us, compute for 100 ms
 * per step, varied log-normally by 10 %, and exchange 100 MB.
 *
 *   ring     all-reduce in 2 (n-1) rounds of n transfers of 100 MB / n, chunk by chunk; also with
 *            every second GPU 1.5 times as slow, or in boxes of eight: four GPUs on each of two
 *            PCIe switches of 13 GB/s, and one port
 *   server   asynchronous: each worker sends all to the server and gets all back, independently of
 *            the others; the server is a GPU of an additional node, and applies gradients in no
 *            time
 */
#ifndef DL_TESTS_PEERS_H
#define DL_TESTS_PEERS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "sim/run.h"

#define PEER_BYTES 100e6
#define PEER_PORT_BYTES_PER_S 12.5e9
#define PEER_PORT_NS 2000
#define PEER_COMPUTE_NS 1e8
#define PEER_SIGMA 0.1
#define PEER_SLOW 1.5
#define PEER_BOX 8
#define PEER_PCIE_BYTES_PER_S 13e9

typedef enum peer_work { PEER_RING, PEER_SERVER, PEER_UNEQUAL_RING, PEER_BOX_RING } peer_work;

typedef struct peer_case {
    peer_work work;
    int workers, steps;
} peer_case;

/* Factors of the steps, [workers x steps]: those that dlsim draws. The caller's to free. */
static inline double *peer_samples(const peer_case *of)
{
    const dl_noise_config config = {.kind = DL_NOISE_LOGNORMAL, .sigma = PEER_SIGMA};
    const size_t steps = (size_t)of->steps;
    double *factors = dl_calloc((size_t)of->workers * steps, sizeof *factors, "samples");
    dl_noise_source source;
    dl_noise_source_init(&source, &config, 1, 0);
    for (int w = 0; w < of->workers; w++) {
        dl_noise noise;
        dl_noise_init(&noise, &source, (uint32_t)w);
        const double slow = of->work == PEER_UNEQUAL_RING && w % 2 == 1 ? PEER_SLOW : 1;
        for (size_t s = 0; s < steps; s++)
            factors[(size_t)w * steps + s] = slow * dl_noise_next(&source, &noise);
    }
    return factors;
}

static inline void peer_fail(const dl_error *err)
{
    dl_error_print(err, "peers", stderr);
    exit(1);
}

#define PEER_MACHINE "peers_machine.ini"

static inline void peer_write_boxes(int nodes)
{
    FILE *out = fopen(PEER_MACHINE, "w");
    DL_ASSERT(out != NULL, "cannot write %s", PEER_MACHINE);
    fprintf(out,
            "[machine]\nschema = 1\nname = boxes\npeer = all\ngpudirect = yes\nnodes = %d\n"
            "[gpu_model g]\nmemory_bytes = 80GB\nmemory_bytes_per_s = 1e15\n"
            "fp32_flop_per_s = 1e13\n"
            "[link pcie]\nbytes_per_s = %g\nlatency_ns = 0\n"
            "[link wide]\nbytes_per_s = 1e12\nlatency_ns = 0\n"
            "[link port]\nbytes_per_s = %g\nlatency_ns = %d\n"
            "[host]\nmemory_bytes_per_s = 1e15\n"
            "[switch sw0]\nparent = socket0\nlink = pcie\n"
            "[switch sw1]\nparent = socket0\nlink = pcie\n"
            "[gpus 0-3]\nmodel = g\nparent = sw0\nlink = pcie\n"
            "[gpus 4-7]\nmodel = g\nparent = sw1\nlink = pcie\n"
            "[nics 0]\nparent = socket0\nlink = wide\nport = port\n",
            nodes, PEER_PCIE_BYTES_PER_S, PEER_PORT_BYTES_PER_S, PEER_PORT_NS);
    DL_ASSERT(fclose(out) == 0, "cannot write %s", PEER_MACHINE);
}

static inline void peer_write_machine(int nodes)
{
    FILE *out = fopen(PEER_MACHINE, "w");
    DL_ASSERT(out != NULL, "cannot write %s", PEER_MACHINE);
    fprintf(out,
            "[machine]\nschema = 1\nname = switch\npeer = all\ngpudirect = yes\nnodes = %d\n"
            "[gpu_model g]\nmemory_bytes = 80GB\nmemory_bytes_per_s = 1e15\n"
            "fp32_flop_per_s = 1e13\n"
            "[link pcie]\nbytes_per_s = 1e12\nlatency_ns = 0\n"
            "[link port]\nbytes_per_s = %g\nlatency_ns = %d\n"
            "[host]\nmemory_bytes_per_s = 1e15\n"
            "[gpus 0]\nmodel = g\nparent = socket0\nlink = pcie\n"
            "[nics 0]\nparent = socket0\nlink = pcie\nport = port\n",
            nodes, PEER_PORT_BYTES_PER_S, PEER_PORT_NS);
    DL_ASSERT(fclose(out) == 0, "cannot write %s", PEER_MACHINE);
}

/* dlsim's result of it; release with dl_run_result_free. */
static inline dl_run_result peer_simulate(const peer_case *of)
{
    static const char costs_text[] =
        "[costs]\nschema = 1\nparameter_bytes = 100000000\n"
        "[op n.forward]\nfixed_ns = 3e7\nper_sample_ns = 0\n"
        "[op n.backward]\nfixed_ns = 7e7\nper_sample_ns = 0\n"
        "[op n.update]\nfixed_ns = 0\nper_sample_ns = 0\n"
        "[dispatch]\nserial_ns = 0\nper_worker_ns = 0\n"
        "[update]\nlatency_ns = 0\nread_bytes_per_s = 1e15\nwrite_bytes_per_s = 1e15\n"
        "[sync]\nlock_ns = 0\n";
    char where[40] = "";
    DL_SCOPED(dl_scenario) scenario = {0};
    DL_SCOPED(dl_costs) costs = {0};
    dl_run_result result = {0};
    dl_error err = {0};
    const bool served = of->work == PEER_SERVER;
    if (served) snprintf(where, sizeof where, "where = gpu:%d\n", of->workers);
    DL_AUTOFREE char *slow = dl_strdup(of->work == PEER_UNEQUAL_RING ? "slow = " : "");
    for (int w = 1; w < of->workers && of->work == PEER_UNEQUAL_RING; w += 2) {
        char one[32];
        snprintf(one, sizeof one, "%d:%g", w, PEER_SLOW);
        dl_join(&slow, w > 1 ? ", " : "", one);
    }
    char *text = dl_format("[scenario]\nsteps = %d\nseed = 1\n[machine]\nfile = %s\nworkers = %d\n"
                           "[exchange]\nfidelity = chunk\nalgorithm = ring\n"
                           "[workload]\ncosts = c\nbatch_per_worker = 1\n"
                           "[sync]\nmode = %s\n%s[noise]\nkind = lognormal\nsigma = %g\n%s\n",
                           of->steps, PEER_MACHINE, of->workers, served ? "async" : "allreduce",
                           where, PEER_SIGMA, slow);
    if (of->work == PEER_BOX_RING) {
        peer_write_boxes((of->workers + PEER_BOX - 1) / PEER_BOX);
    } else {
        peer_write_machine(of->workers + (served ? 1 : 0));
    }
    if (dl_scenario_read_text(&scenario, "peers.ini", text, strlen(text), &err) != DL_OK ||
        dl_costs_read_text(&costs, "costs", costs_text, sizeof costs_text - 1, &err) != DL_OK) {
        peer_fail(&err);
    }
    const dl_run_config config = {
        .scenario = &scenario, .costs = &costs, .point = &scenario.points[0]};
    if (dl_run(&config, &result, &err) != DL_OK) peer_fail(&err);
    free(text);
    remove(PEER_MACHINE);
    return result;
}

#ifdef PEER_SIMGRID
/* SimGrid's result of it, with more of its options; false if the program cannot be run. */
static inline bool peer_simgrid(const peer_case *of, const char *options, double *simulated_s,
                                double *run_s)
{
    static const char samples_file[] = "peers_samples.bin";
    double *factors = peer_samples(of);
    const size_t count = (size_t)of->workers * (size_t)of->steps;
    FILE *out = fopen(samples_file, "wb");
    DL_ASSERT(out != NULL && fwrite(factors, sizeof *factors, count, out) == count &&
                  fclose(out) == 0,
              "cannot write %s", samples_file);
    free(factors);
    DL_AUTOFREE char *command = dl_format("%s %s %d %d %s --log=root.thresh:error %s", PEER_SIMGRID,
                                          of->work == PEER_SERVER     ? "server"
                                          : of->work == PEER_BOX_RING ? "boxes"
                                                                      : "ring",
                                          of->workers, of->steps, samples_file, options);
    FILE *in = popen(command, "r");
    const bool read = in != NULL && fscanf(in, "%lf %lf", simulated_s, run_s) == 2;
    const bool done = in != NULL && pclose(in) == 0;
    remove(samples_file);
    return read && done;
}
#endif

#endif
