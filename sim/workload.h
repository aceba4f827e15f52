/* Amounts of work of a step of one point of a sweep, from a cost file and a batch.
 *
 * Work is time on one core at full speed on an otherwise idle machine; traffic is the memory that a
 * piece of work reads and writes, which limits concurrent ones (sim/platform/host.h).
 *
 *   operation         fixed + per_sample batch, summed over operations; below 0 counts as 0
 *   copy              latency + bytes / bandwidth                    traffic 2 bytes
 *   message           vector / encode + copy of the message + vector / decode
 *   average, update   latency + bytes (vectors / read + 1 / write)   traffic (vectors + 1) bytes
 */
#ifndef DL_SIM_WORKLOAD_H
#define DL_SIM_WORKLOAD_H

#include <stdbool.h>

#include "common/random.h"
#include "sim/costs/costs.h"

/* One piece of work. */
typedef struct dl_work {
    double full_speed_ns;
    double traffic_bytes;
} dl_work;

/* latency + bytes (vectors read_ns_per_byte + write_ns_per_byte) */
typedef struct dl_byte_cost {
    double latency_ns, read_ns_per_byte, write_ns_per_byte;
} dl_byte_cost;

typedef struct dl_workload {
    double input_ns, dispatch_ns,
        compute_ns;    /* of a worker's step; compute: forward and backward */
    double make_ns;    /* of a batch that is made ahead of its step, by another process or
                          between reads; then input_ns is the worker's time to get it */
    double read_bytes; /* of a batch, from storage */
    int64_t batch_samples;
    double backward_ns; /* of compute_ns */
    double update_ns;   /* the optimizer on the worker itself */
    double bucket_ns;   /* copying gradients into buckets and back; not in any of these */
    double parameter_bytes, state_bytes;
    dl_byte_cost copy, average, update; /* update: the server's */
    dl_compression compression;         /* of pushes by workers on cores */
    double encode_ns_per_byte, decode_ns_per_byte,
        learned_ns_per_byte; /* of the vector; 0 without compression */
    /* Extra time if another core's cache has the vector (dl_costs' shared); 0 if unknown. */
    double shared_push_ns_per_byte, shared_average_ns_per_byte, shared_pull_ns_per_byte;
    int optimizer_reads,
        optimizer_writes;  /* vectors, of the server's update after the sum; 0: the sum is it */
    bool passes_are_given; /* by the cost file; else, on a GPU, the update takes update_ns */
    int outer_reads, outer_writes; /* vectors, of an outer optimizer's update */
    double memory_bytes_per_ns;    /* INFINITY if unknown */
    double barrier_ns, wakeup_ns, lock_ns;
    double slice_ns;                       /* INFINITY if unknown */
    double serial_ns, per_worker_ns;       /* dispatch to GPUs; the first with external waits */
    double launch_ns;                      /* of one operation; 0 if unknown */
    double contention_frac;                /* of per_worker_ns, for each further GPU */
    double pageable_bytes_per_s;           /* INFINITY if unknown */
    double overlap_slowdown;               /* of compute beside collectives; 1 if unknown */
    const dl_collective_cost *collectives; /* [collective_count] the costs' */
    size_t collective_count;
    const dl_gradients_ready *gradients; /* [gradient_count] the costs' */
    size_t gradient_count;
} dl_workload;

/* Sets the work of a worker with `batch` samples per step, without compression. Unknown costs
 * become 0 (or no limit): check dl_costs_missing first. */
void dl_workload_init(dl_workload *workload, const dl_costs *costs, double batch);

/* Sets the compute times to those of a GPU of the machine's model of this number. */
void dl_workload_set_model(dl_workload *workload, const dl_costs *costs, int model, double batch);

/* Lengthens per_worker_ns, of a micro-batch, by the host's wait for the backward pass
 * (DL_READS_BATCH); not if the forward pass takes at least half of per_worker_ns. */
void dl_workload_read_batches(dl_workload *workload);

/* Makes a step consist of `micro_batches` >= 1 batches of the previous size, with one exchange and
 * one update. Input, dispatch, forward and backward are repeated; with `adds`, each micro-batch but
 * the first adds its gradients to the sum, at the cost of an average of two vectors (else included
 * in computing them). Only the last one's backward pass overlaps the exchange. */
void dl_workload_accumulate(dl_workload *workload, int micro_batches, bool adds);

/* Moves making a batch out of the step, in which the worker only takes it, in take_ns. */
void dl_workload_load_beside(dl_workload *workload, double take_ns);

/* Times of all-reduces of processes: alone after a computation; two from a common start to the
 * later end (NULL: they run one after the other); the time by which one slows down a computation
 * that runs beside it (NULL: none). Borrowed. */
typedef struct dl_process_reduces {
    const dl_collective_cost *alone, *pair, *beside;
} dl_process_reduces;

/* Time >= 0 that all-reduces of gradients[count >= 1] add to a step of processes whose backward
 * pass takes backward_ns >= 0. Each starts when its gradients are ready or the previous one has
 * ended. One that ends before the last one starts costs the slowdown of computing beside it. The
 * last one runs concurrently with the previous one if that is still in flight; their time is linear
 * in the fraction of the previous one that is left. */
double dl_buckets_ns(const dl_process_reduces *reduces, const dl_gradients_ready *gradients,
                     size_t count, double backward_ns);

/* Scales exchange to that of a measured run. */
void dl_workload_exchange_run(dl_workload *workload, const dl_exchange_run *run);

/* Work of a copy (of one vector), an average or an update of `vectors` of `bytes` each; below 0
 * counts as 0. */
dl_work dl_byte_work(const dl_byte_cost *cost, double bytes, int vectors);

/* Sets the costs of compressed messages; for workers on cores. */
void dl_workload_compress(dl_workload *workload, const dl_costs *costs,
                          const dl_compression *compression);

/* Work to encode a vector of `bytes` as a message, copy that, and decode it. */
dl_work dl_message_work(const dl_workload *workload, double bytes);

/* Work on the change since the last average: copying a vector of `bytes`, and subtracting another
 * one from the copy or adding it. Without the copy, only three of the five vectors are accessed. */
dl_work dl_learned_work(const dl_workload *workload, double bytes, bool copies);

/* The sum of two pieces of work. */
dl_work dl_work_add(dl_work first, dl_work second);

/* Slowdown of a step while k >= 1 workers have work at the same time: [sharing] copies_k, linear
 * between known k (1 at k = 1 unless given), constant beyond the largest. */
double dl_sharing(const dl_costs *costs, int k);

/* Slowdown of a step when k >= 1 workers compute side by side on `cores` cores: their mutual
 * slowdown, and time slices if there are more workers than cores. */
double dl_side_by_side(const dl_costs *costs, int k, int cores);

/* Largest k with a known copies_k; 1 if there is none. */
int dl_sharing_known(const dl_costs *costs);

/* Writes to *drawn the costs with each value drawn from `stream`, with the given value as the
 * median and its standard error:
 *
 *   above its lower bound, or positive   its distance from that bound, or from 0, is lognormal
 *   between 0 and 1, a share             logit-normal, with the error's slope at the median
 *   at its bound, or negative            normal
 *
 * limited to its key's range. Errors of different values are assumed independent, but for the times
 * of one collective, which all are the same number of standard errors off. Where collectives were
 * measured in several starts of a benchmark, another start is drawn, the same for all of them: the
 * logarithm of its factor is Student's t times the standard deviation of theirs. NULL: the costs as
 * they are. *drawn borrows everything from `costs` but its operations, the machine's numbers and
 * the collectives with their times: release with dl_costs_draw_free. */
void dl_costs_draw(const dl_costs *costs, dl_random *stream, dl_costs *drawn);
void dl_costs_draw_free(dl_costs *drawn);

/* Adds to drawn costs the exchanges of `workers` >= 1 processes on one machine, computed from their
 * [gloo] and [rpc]:
 *
 *   allreduce           2 (N - 1) (latency + bytes / rate): a ring, gloo's choice, has as many
 *                       rounds; in each the processes send bytes / N, all through the same cores
 *   allreduce_beside    beside_frac of that
 *   broadcast           ceil(log2 N) of these: a binomial tree
 *   roundtrip           N (latency + bytes / rate): one server, which serves one at a time */
void dl_costs_draw_processes(dl_costs *drawn, int workers);

/* The exchange of that kind measured with the number of processes nearest to `workers`, on one
 * machine, borrowed; NULL if `workers` itself, or no number, was measured. */
const dl_collective_cost *dl_costs_other_ranks(const dl_costs *costs, int kind, int workers);

/* Adds to drawn costs the exchanges of `workers` processes that were measured only for other
 * numbers: times for the nearest number, scaled by the messages above and [gloo] ranks_factor. */
void dl_costs_draw_other_ranks(dl_costs *drawn, int workers);

/* Whether some value has a standard error, so that draws differ from the costs. */
bool dl_costs_have_errors(const dl_costs *costs);

#endif
