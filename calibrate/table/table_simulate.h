/* Steady throughputs of a scenario's points, without the start of a run. */
#ifndef DL_CALIBRATE_TABLE_SIMULATE_H
#define DL_CALIBRATE_TABLE_SIMULATE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/status.h"
#include "sim/costs/costs.h"
#include "sim/scenario/scenario.h"

typedef struct dl_table_simulation {
    const dl_scenario *scenario;
    const dl_costs *costs;
    const bool *wanted; /* [scenario->point_count] points to simulate */
    int64_t steps;      /* least N, see below */
    int threads;        /* >= 1; the result does not depend on them */
} dl_table_simulation;

/* Puts into per_s[scenario->point_count], for each wanted point, the throughput of the second half of
 * a run of 2 N steps: from that run and one of N, so that steps that the host is ahead of the GPUs,
 * and batches in stock, are not counted. N is `steps`, and more where there are such, in whole
 * intervals. Fails as dl_run (of the first point that does), or DL_ERR_SYSTEM without threads. */
dl_status dl_table_simulate(const dl_table_simulation *simulation, double *per_s,
                            dl_error *err) DL_MUST_CHECK;

#endif
