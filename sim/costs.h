/* The cost file: what a workload costs on a device and what this machine charges for exchange.
 * Written by dlcal, read by dlsim, or typed by hand. One place for its names: costs.c.
 *
 *   [costs]
 *   schema = 1
 *   workload = lenet
 *   device = AMD EPYC, 2 cores
 *   parameter_bytes = 1724320
 *   state_bytes = 1724320
 *   batch_min = 32                  ; range of batch sizes that were measured
 *   batch_max = 128
 *   cores = 2                       ; of the machine that was measured
 *
 *   [op conv1.forward]              ; in the order of a step; phase = forward, backward, update
 *   fixed_ns = 1200 +- 14, n = 900, fitted
 *   per_sample_ns = 18230 +- 9, n = 900, fitted
 *   [op input]                      ; the batch made ready
 *   [op dispatch]                   ; the host's own time of a step
 *
 *   [copy]                          ; time = latency + bytes / bandwidth, on the worker's own core
 *   latency_ns = ...
 *   bandwidth_bytes_per_s = ...
 *   [average]                       ; time = latency + bytes (vectors / read + 1 / write), one thread
 *   latency_ns, read_bytes_per_s, write_bytes_per_s
 *   [update]                        ; server: sum `vectors` gradients and apply; same formula
 *   latency_ns, read_bytes_per_s, write_bytes_per_s
 *   [memory]
 *   total_bytes_per_s = ...         ; traffic (read + written) of all cores at once
 *   [sync]
 *   barrier_ns, wakeup_ns, lock_ns  ; spinning barrier, wake-up of a blocked thread, hand-over of a lock
 *   slice_ns                        ; how long a thread keeps a core that others want too
 *   [sharing]                       ; a step's time with k copies at once over its time alone, per core
 *   copies_1 = 1                    ; turn: time(k) / (time(1) * max(1, k / cores))
 *   copies_2 = 1.07 +- 0.004, n = 20, fitted
 *   [noise]                         ; step time over fitted step time, in the order of the trace
 *   factors_1 = 1.012, 0.997, ...   ; at most 199 bytes a line
 *   factors_2 = ...
 *
 * A value is  NUMBER [+- STANDARD_ERROR] [, n = COUNT] [, ORIGIN]  with origin measured, fitted,
 * catalogue or assumed (default: assumed).
 */
#ifndef DL_SIM_COSTS_H
#define DL_SIM_COSTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "common/status.h"

typedef enum dl_origin { DL_ORIGIN_ASSUMED, DL_ORIGIN_CATALOGUE, DL_ORIGIN_FITTED, DL_ORIGIN_MEASURED } dl_origin;
const char *dl_origin_name(dl_origin origin);

/* One number of the file. known = false: the file does not have it (never taken as zero). */
typedef struct dl_value {
    bool known;
    double value;
    double error;       /* standard error in the unit of value; 0 = not given */
    int64_t count;      /* samples; 0 = not given */
    dl_origin origin;
} dl_value;

typedef struct dl_op_cost {
    char *name;           /* "conv1.forward", "input", "dispatch" */
    dl_value fixed_ns;
    dl_value per_sample_ns;
} dl_op_cost;

#define DL_SHARING_MAX 64

typedef struct dl_costs {
    char *path;
    char *workload, *device;
    int64_t parameter_bytes, state_bytes;
    int64_t batch_min, batch_max, cores;
    dl_op_cost *ops;
    size_t op_count;
    struct { dl_value latency_ns, bandwidth_bytes_per_s; } copy;
    struct { dl_value latency_ns, read_bytes_per_s, write_bytes_per_s; } average, update;
    dl_value memory_total_bytes_per_s;
    dl_value barrier_ns, wakeup_ns, lock_ns, slice_ns;
    dl_value sharing[DL_SHARING_MAX + 1];  /* [k], 1 <= k <= DL_SHARING_MAX */
    float *noise;                          /* [noise_count] step-time factors */
    size_t noise_count;
} dl_costs;

/* Reads and checks a cost file; zero `costs` before. Unknown sections, keys, origins are errors with
 * file:line. What the file lacks stays unknown: whoever needs it lists it (dl_costs_missing). */
dl_status dl_costs_read(dl_costs *costs, const char *path, dl_error *err) DL_MUST_CHECK;

/* Writes the file so that dl_costs_read gives the same values back. `comment` lines (may be NULL)
 * come first, each behind "; ". */
dl_status dl_costs_write(const dl_costs *costs, const char *path, const char *comment,
                         dl_error *err) DL_MUST_CHECK;

void dl_costs_free(dl_costs *costs);

/* Parses one value text as above. */
dl_status dl_value_parse(const char *text, dl_value *value, dl_error *err) DL_MUST_CHECK;

/* Step time in ns of one worker without exchange for `batch` samples, the sum over all ops
 * (phase == NULL) or over those whose name ends in ".phase". */
double dl_costs_step_ns(const dl_costs *costs, double batch, const char *phase);

#endif
