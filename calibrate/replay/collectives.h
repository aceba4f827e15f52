/* The collectives of a replayed run, and the nodes of each rank that take part in them.
 *
 * With one rank, each collective's kernel is one instance. With several, the k-th kernels of a name
 * on all ranks form an instance, if all ranks have equally many kernels of that name; other kernels
 * are not matched, and counted. All ranks must belong to one group of the collective: subgroups
 * with different members are not distinguished. */
#ifndef DL_CALIBRATE_REPLAY_COLLECTIVES_H
#define DL_CALIBRATE_REPLAY_COLLECTIVES_H

#include "calibrate/replay/build.h"
#include "calibrate/replay/report.h"

typedef struct dl_instance {
    char *name;      /* "AllReduce", "alltoall", ...: as the host's call says, else as the kernel's
                         name; "" = unknown */
    double bytes;    /* of one rank, the mean over the ranks; 0 = unknown */
    uint32_t ranks;  /* of the communicator; 0 = unknown */
    uint32_t *nodes; /* [rank_count of the run] */
    int64_t last_ns; /* recorded: when the last rank's kernel began, on the common clock, */
    int64_t end_ns;  /* and the mean of when they ended */
} dl_instance;

/* Owns its arrays; release with dl_instances_free. */
typedef struct dl_instances {
    dl_instance *instances; /* [count] by last_ns */
    size_t count;
    size_t left_alone; /* kernels whose name does not occur equally often on all ranks */
} dl_instances;

/* Finds the instances of all ranks of `run`; `instances` must be zeroed. O(n log n). */
void dl_instances_find(dl_instances *instances, const dl_replay_run *run);
void dl_instances_free(dl_instances *instances);

/* Transfer time of a collective, from its last rank's start: a line for each kind of collective,
 * time = latency + bytes of one rank x ns_per_byte.
 *
 *   several ranks   the time from the last rank's start to the end of each instance is known; the
 *                   line is the least-squares one with both numbers >= 0, or with one size only
 *                   the mean time for any size
 *   one rank        the kernels include the wait for later ranks, so the line is the highest one
 *                   through the origin that no recorded time lies below; the excess over it is
 *                   lateness of the peers */

/* Moments of sizes (x, bytes) and times (y, ns), about their means. */
typedef struct dl_transfer_sums {
    double mean_x, mean_y, xx, xy, yy;
} dl_transfer_sums;

typedef struct dl_transfer_line {
    const char *name; /* of the collective; borrowed from the instances */
    double latency_ns, ns_per_byte;
    size_t instances;      /* number of instances of known size behind the line */
    double error_ns;       /* root mean square error; 0 with one rank */
    dl_transfer_sums sums; /* of several ranks */
    /* of one rank: the second lowest ns per byte, for the line without the lowest; infinite if
     * there is none */
    double second;
} dl_transfer_line;

/* Owns its array; release with dl_transfer_free. */
typedef struct dl_transfer {
    dl_transfer_line *lines; /* [count] in order of name */
    size_t count;
} dl_transfer;

/* Fits the lines of all names with at least one instance of known size; `transfer` must be zeroed.
 * `run` has the durations. O(n log n). */
void dl_transfer_fit(dl_transfer *transfer, const dl_instances *instances,
                     const dl_replay_run *run);

/* Time of an instance by its line, in ns; NaN if there is none. */
double dl_transfer_ns(const dl_transfer *transfer, const dl_instance *instance);

/* Time of a fitted instance by the line of all others, in ns; NaN if there is no other. O(log
 * n). */
double dl_transfer_ns_without(const dl_transfer *transfer, const dl_instance *instance,
                              const dl_replay_run *run);
void dl_transfer_free(dl_transfer *transfer);

/* Strip and predict: replaces the collectives of one rank's trace by modelled ones and times the
 * run again, to test whether the model of a step holds with other communication.
 *
 * A modelled collective takes its transfer time (dl_transfer) and waits for later peers. One rank's
 * trace does not give the peers' arrival, so the lateness is taken from other steps: a step's
 * collectives, in order, get the latenesses of those of another regular step, for each of the other
 * steps in turn, and the results are averaged. So no step is predicted from itself.
 *
 *   lateness = recorded duration - transfer, at least 0; the whole duration if the size is unknown
 *
 * Steps are delimited on the device: from a step's first work to that of the next one, of the last
 * one to the end of its work. Only regular ones count, and only theirs are changed. */

/* Mean times of a regular step in ns. */
typedef struct dl_prediction {
    size_t steps;       /* regular */
    size_t collectives; /* of a step, the mean */
    size_t unknown;     /* collectives of unknown size in all regular steps */
    double recorded_ns;
    double replayed_ns;  /* unchanged graph */
    double empty_ns;     /* collectives take no time: linear speedup */
    double added_ns;     /* empty_ns plus all transfers: nothing overlaps */
    double predicted_ns; /* with transfers and latenesses */
} dl_prediction;

/* Predicts the steps of `line`, found in the run's one rank. The graph is changed and restored.
 * DL_ERR_DATA with fewer than two regular steps, or if the graph holds a cycle. */
dl_status dl_predict_steps(dl_prediction *prediction, dl_replay_run *run,
                           const dl_instances *instances, const dl_transfer *transfer,
                           const dl_step_line *line, dl_error *err) DL_MUST_CHECK;

/* Replay of all ranks of a run together: the waits in one rank's trace follow from the others'
 * starts. Recorded starts and durations of collectives are not used; each ends on all ranks
 * together, its transfer time (dl_transfer) after the last rank's kernel has started. That time is
 * from a line fitted to the other instances only. */

/* One instance, replayed. */
typedef struct dl_multi_rank_instance {
    const dl_instance *instance; /* borrowed */
    double transfer_ns;          /* modelled; NaN = size or line unknown, recorded time kept */
    int64_t recorded_ns;         /* from the last start to the mean end */
    int64_t worst_end_ns;        /* replayed - recorded end, on the rank where they differ most */
} dl_multi_rank_instance;

/* Owns its array; release with dl_multi_rank_free. */
typedef struct dl_multi_rank {
    dl_multi_rank_instance *instances; /* [count] in the order of those given */
    size_t count;
    int64_t worst_end_ns; /* largest of all, absolute */
} dl_multi_rank;

/* Makes the instances groups of the run's graph, times it, and compares; `multi` must be zeroed.
 * The graph keeps the groups. At least two ranks on a common clock. DL_ERR_DATA if ranks have no
 * collective in common, or if the graph holds a cycle. */
dl_status dl_multi_rank_replay(dl_multi_rank *multi, dl_replay_run *run,
                               const dl_instances *instances, dl_error *err) DL_MUST_CHECK;
void dl_multi_rank_free(dl_multi_rank *multi);

#endif
