/* Collectives of a replayed run, and the nodes of each rank that take part in them.
 *
 * With one rank, each collective's kernel is one instance. With several, the k-th kernels of a name
 * on all ranks form an instance if all ranks have equally many kernels of that name; other kernels
 * are counted but not matched. All ranks must belong to one group of the collective: subgroups with
 * different members are not distinguished. */
#ifndef DL_CALIBRATE_REPLAY_COLLECTIVES_H
#define DL_CALIBRATE_REPLAY_COLLECTIVES_H

#include "calibrate/replay/build.h"
#include "calibrate/replay/report.h"

typedef struct dl_instance {
    char *name;      /* "AllReduce", "alltoall", ...: name in the host's call or, without one, in
                      * the kernel's name; "": unknown */
    double bytes;    /* bytes per rank, mean over the ranks; 0: unknown */
    uint64_t object; /* communicator on the first rank; 0: unknown */
    uint32_t ranks;  /* ranks of the communicator; 0: unknown */
    bool integers;   /* dl_collective_kernel.integers, on the first rank */
    uint32_t *nodes; /* [rank_count of the run] */
    int64_t last_ns; /* recorded start of the last rank's kernel, on the common clock */
    int64_t end_ns;  /* recorded end, mean over the ranks, on the common clock */
} dl_instance;

/* Owns its arrays; release with dl_instances_free. */
typedef struct dl_instances {
    dl_instance *instances; /* [count] by last_ns */
    size_t count;
    size_t left_alone; /* number of kernels whose name does not occur equally often on all ranks */
} dl_instances;

/* Finds the instances over all ranks of `run`; `instances` must be zeroed. O(n log n). */
void dl_instances_find(dl_instances *instances, const dl_replay_run *run);
void dl_instances_free(dl_instances *instances);

/* Transfer time of a collective, from its last rank's start, as a line for each kind of collective:
 * time = latency + bytes of one rank x ns_per_byte.
 *
 *   several ranks   the time from the last rank's start to the end of each instance is known. The
 *                   line is the least-squares line with both coefficients >= 0 or, with only one
 *                   size, the mean time for any size.
 *   one rank        the kernels include the wait for later ranks. The line is therefore the
 *                   steepest line through the origin with no recorded time below it; the excess
 *                   over it is lateness of the peers. */

/* Moments of sizes (x, bytes) and times (y, ns), about their means. */
typedef struct dl_transfer_sums {
    double mean_x, mean_y, xx, xy, yy;
} dl_transfer_sums;

typedef struct dl_transfer_line {
    const char *name; /* collective; borrowed from the instances */
    double latency_ns, ns_per_byte;
    size_t instances;      /* number of instances of known size used for the line */
    double error_ns;       /* root mean square error; 0 with one rank */
    dl_transfer_sums sums; /* moments of the points; used with several ranks */
    /* for one rank: second lowest ns per byte, for the line without the lowest; infinite if there
     * is none */
    double second;
} dl_transfer_line;

/* Owns its array; release with dl_transfer_free. */
typedef struct dl_transfer {
    dl_transfer_line *lines; /* [count] in order of name */
    size_t count;
} dl_transfer;

/* Fits the lines of all names with at least one instance of known size; `transfer` must be zeroed.
 * `run` provides the durations. O(n log n). */
void dl_transfer_fit(dl_transfer *transfer, const dl_instances *instances,
                     const dl_replay_run *run);

/* Returns the time of an instance by its line, in ns; NaN if there is no line or its size is
 * unknown. */
double dl_transfer_ns(const dl_transfer *transfer, const dl_instance *instance);

/* Returns the time of a fitted instance by the line of all other instances, in ns; NaN if there is
 * no other, or its size is unknown. O(log n). */
double dl_transfer_ns_without(const dl_transfer *transfer, const dl_instance *instance,
                              const dl_replay_run *run);
void dl_transfer_free(dl_transfer *transfer);

/* Strip and predict: replaces the collectives of one rank's trace by modelled ones and replays the
 * run, to test whether the model of a step holds with different communication.
 *
 * A modelled collective takes its transfer time (dl_transfer) and waits for later peers. One rank's
 * trace does not give the peers' arrival, so the lateness is taken from other steps: the
 * collectives of a step, in order, get the latenesses of the collectives of another regular step.
 * This is done for each of the other steps (at most 16) in turn, and the results are averaged. No
 * step is thus predicted from its own latenesses.
 *
 *   lateness = recorded duration - transfer, at least 0; the whole duration if the size is unknown
 *
 * Steps are delimited on the device: from a step's first work to that of the next one; the last
 * step ends with its work. Only regular steps count, and only their collectives are changed. */

/* Mean times of a regular step in ns. */
typedef struct dl_prediction {
    size_t steps;       /* number of regular steps */
    size_t collectives; /* mean number per step */
    size_t unknown;     /* collectives of unknown size in all regular steps */
    double recorded_ns;
    double replayed_ns;  /* replay of the unchanged graph */
    double empty_ns;     /* collectives take no time: linear speedup */
    double added_ns;     /* empty_ns plus all transfers, without overlap */
    double predicted_ns; /* replay with transfers and latenesses */
} dl_prediction;

/* Predicts the steps of `line`, found in the run's only rank. Changes the graph temporarily and
 * restores it. Returns DL_ERR_DATA with fewer than two regular steps, and the errors of
 * dl_replay_simulate. */
dl_status dl_predict_steps(dl_prediction *prediction, dl_replay_run *run,
                           const dl_instances *instances, const dl_transfer *transfer,
                           const dl_step_line *line, dl_error *err) DL_MUST_CHECK;

/* Joint replay of all ranks of a run: the waits in one rank's trace follow from the starts of the
 * others. A collective's recorded start and duration are not used; it ends on all ranks
 * simultaneously, its transfer time (dl_transfer) after the last rank's kernel has started. This
 * transfer time comes from a line fitted to the other instances only. */

/* A replayed instance. */
typedef struct dl_multi_rank_instance {
    const dl_instance *instance; /* borrowed */
    double transfer_ns;          /* modelled time; NaN: size or line unknown, the recorded time is
                                  * kept */
    int64_t recorded_ns;         /* time from the last start to the mean end */
    int64_t worst_end_ns;        /* replayed - recorded end, on the rank with the largest
                                  * difference */
} dl_multi_rank_instance;

/* Owns its array; release with dl_multi_rank_free. */
typedef struct dl_multi_rank {
    dl_multi_rank_instance *instances; /* [count] in the order of dl_instances */
    size_t count;
    int64_t worst_end_ns; /* largest absolute value over all instances */
} dl_multi_rank;

/* Adds the instances to the run's graph as groups, which remain in the graph, replays the graph,
 * and compares the recorded and replayed ends; `multi` must be zeroed. Requires at least two ranks
 * on a common clock. Returns DL_ERR_DATA if the ranks have no collective in common, and the errors
 * of dl_replay_simulate. */
dl_status dl_multi_rank_replay(dl_multi_rank *multi, dl_replay_run *run,
                               const dl_instances *instances, dl_error *err) DL_MUST_CHECK;
void dl_multi_rank_free(dl_multi_rank *multi);

#endif
