/* The time of an all-reduce on links that nobody else uses, for the tests of machines. */
#ifndef DL_TESTS_REDUCE_FIXTURE_H
#define DL_TESTS_REDUCE_FIXTURE_H

#include "tests/machine_fixture.h"

#include "sim/collective/collective.h"

/* Returns the time in seconds of an all-reduce among at most 64 GPUs. Each digit of `counts` is the
 * number of GPUs in one node. */
static inline double fixture_reduce_s(const dl_machine *machine, const char *algorithm,
                                      const char *counts, double bytes, dl_fidelity fidelity)
{
    DL_SCOPED(dl_links) links;
    dl_links_init(&links, machine);
    dl_place ranks[64];
    dl_collective_config config = {.kind = DL_ALLREDUCE,
                                   .algorithm = algorithm,
                                   .fidelity = fidelity,
                                   .ranks = ranks,
                                   .bytes = bytes,
                                   .chunk_bytes = DL_CHUNK_BYTES};
    for (int node = 0; counts[node] != '\0'; node++) {
        for (int g = 0; g < counts[node] - '0'; g++)
            ranks[config.rank_count++] = gpu_place(node, g);
    }
    double time_ns = 0;
    dl_error err = {0};
    if (dl_collective_idle_ns(&links, &config, &time_ns, &err) != DL_OK) fail_msg("%s", err.text);
    return time_ns / 1e9;
}

#endif
