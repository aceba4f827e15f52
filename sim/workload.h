/* Amounts of work per step of one point of a sweep, from a cost file and a batch.
 *
 * Work is time on one core at full speed on an otherwise idle machine; traffic is the memory that a
 * piece of work reads and writes, which limits concurrent work (sim/platform/host.h).
 *
 *   operation         fixed + per_sample x batch, summed over operations; negative sums count as 0
 *   copy              latency + bytes / bandwidth                    traffic 2 x bytes
 *   message           vector / encode + copy of the message + vector / decode
 *   average, update   latency + bytes (vectors / read + 1 / write)   traffic (vectors + 1) x bytes
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
        compute_ns;    /* times per worker and step; compute: forward and backward */
    double make_ns;    /* time to make a batch ahead of its step, in another process or between
                        * reads; input_ns is then the worker's time to fetch it */
    double read_bytes; /* bytes per batch read from storage */
    int64_t batch_samples;
    double backward_ns; /* part of compute_ns */
    double update_ns;   /* optimizer on the worker */
    double bucket_ns;   /* copies of gradients into buckets and back; not included in the times
                         * above */
    double parameter_bytes, state_bytes;
    dl_byte_cost copy, average, update; /* update: on the server */
    dl_compression compression;         /* compression of pushes by workers on cores */
    double encode_ns_per_byte, decode_ns_per_byte,
        learned_ns_per_byte; /* per byte of the vector; 0 without compression */
    /* Additional time per byte if another core's cache holds the vector (dl_costs' shared); 0 if
     * unknown. */
    double shared_push_ns_per_byte, shared_average_ns_per_byte, shared_pull_ns_per_byte;
    int optimizer_reads,
        optimizer_writes;  /* vectors that the server's optimizer reads and writes after the sum; 0:
                            * the sum includes it */
    bool passes_are_given; /* the cost file gives the optimizer's passes; otherwise, on a GPU, the
                            * update takes update_ns */
    int outer_reads, outer_writes; /* vectors that an outer optimizer's update reads and writes */
    double memory_bytes_per_ns;    /* INFINITY if unknown */
    double barrier_ns, wakeup_ns, lock_ns;
    double slice_ns;                       /* INFINITY if unknown */
    double serial_ns, per_worker_ns;       /* dispatch to GPUs; serial_ns includes external waits */
    double launch_ns;                      /* time per kernel launch; 0 if unknown */
    double contention_frac;                /* fraction of per_worker_ns added per additional GPU */
    double pageable_bytes_per_s;           /* INFINITY if unknown */
    double overlap_slowdown;               /* slowdown of compute that overlaps collectives; 1 if
                                            * unknown */
    const dl_collective_cost *collectives; /* [collective_count] borrowed from the costs */
    size_t collective_count;
    const dl_gradients_ready *gradients; /* [gradient_count] borrowed from the costs */
    size_t gradient_count;
} dl_workload;

/* Sets the work of a worker with `batch` samples per step, without compression. Unknown costs
 * become 0 (or no limit): check dl_costs_missing first. */
void dl_workload_init(dl_workload *workload, const dl_costs *costs, double batch);

/* Sets compute, update and bucket times to those of the GPU model with this number in the
 * machine. */
void dl_workload_set_model(dl_workload *workload, const dl_costs *costs, int model, double batch);

/* Adds the host's wait for the backward pass (DL_READS_BATCH) to per_worker_ns of a micro-batch,
 * unless the forward pass takes at least half of per_worker_ns. */
void dl_workload_read_batches(dl_workload *workload);

/* Makes a step consist of `micro_batches` >= 1 batches of the previous size, with one exchange and
 * one update. Input, dispatch, forward and backward are repeated; with `adds`, each micro-batch but
 * the first adds its gradients to the sum, at the cost of an average of two vectors (otherwise this
 * is included in the time of computing them). Only the last micro-batch's backward pass overlaps
 * the exchange. */
void dl_workload_accumulate(dl_workload *workload, int micro_batches, bool adds);

/* Moves the making of batches out of the step; fetching a batch takes the worker take_ns. */
void dl_workload_load_beside(dl_workload *workload, double take_ns);

/* Times of all-reduces of processes. alone: one, after a computation. pair: two from a common start
 * to the later end (NULL: they run one after the other). beside: the time by which one slows down a
 * concurrent computation (NULL: none). Borrowed. */
typedef struct dl_process_reduces {
    const dl_collective_cost *alone, *pair, *beside;
} dl_process_reduces;

/* Time in ns, >= 0, that all-reduces of gradients[count >= 1] add to a step of processes whose
 * backward pass takes backward_ns >= 0. Each starts when its gradients are ready and the previous
 * one has ended. One that ends before the last one starts costs the slowdown of the compute that it
 * overlaps. The last one runs concurrently with the previous one if that is still in flight; their
 * time is linear in the remaining fraction of the previous one. */
double dl_buckets_ns(const dl_process_reduces *reduces, const dl_gradients_ready *gradients,
                     size_t count, double backward_ns);

/* Scales exchange times to those of a measured run. */
void dl_workload_exchange_run(dl_workload *workload, const dl_exchange_run *run);

/* Work of a copy (of one vector), or of an average or update of `vectors` vectors of `bytes` each;
 * negative sums count as 0. */
dl_work dl_byte_work(const dl_byte_cost *cost, double bytes, int vectors);

/* Sets the costs of compressed messages, for workers on cores. */
void dl_workload_compress(dl_workload *workload, const dl_costs *costs,
                          const dl_compression *compression);

/* Work to encode a vector of `bytes` as a message, copy the message, and decode it. */
dl_work dl_message_work(const dl_workload *workload, double bytes);

/* Work on the change since the last average: copying a vector of `bytes`, and subtracting another
 * vector from the copy or adding it. Without the copy, only three of the five vectors are
 * accessed. */
dl_work dl_learned_work(const dl_workload *workload, double bytes, bool copies);

/* The sum of two pieces of work. */
dl_work dl_work_add(dl_work first, dl_work second);

/* Slowdown of a step if k >= 1 workers work simultaneously: [sharing] copies_k, interpolated
 * linearly between known k (1 at k = 1 unless given), constant beyond the largest. */
double dl_sharing(const dl_costs *costs, int k);

/* Slowdown of a step if k >= 1 workers compute concurrently on `cores` cores: their mutual
 * slowdown, and time slicing if there are more workers than cores. */
double dl_side_by_side(const dl_costs *costs, int k, int cores);

/* Largest k with a known copies_k; 1 if there is none. */
int dl_sharing_known(const dl_costs *costs);

/* Writes to *drawn the costs with each value drawn from `stream`:
 *
 *   undetermined within bounds           uniform between them; of a rate, the inverse is uniform
 *   assumed, with a 95 % interval        lognormal on either side of the value
 *   above its lower bound, or positive   its distance from that bound, or from 0, is lognormal
 *   between 0 and 1, a share             logit-normal, with the error's slope at the median
 *   at its bound, or negative            normal
 *
 * The last three have the given value as the median and its standard error, and are clamped to the
 * range of the key. Errors of different values are assumed independent, except that values of one
 * cause, and the times of one collective, are all off by the same number of standard errors. Where
 * collectives were measured in several starts of a benchmark, another start is drawn, the same for
 * all of them: the logarithm of its factor is Student's t times the standard deviation of the
 * measured ones. `stream` NULL: the costs unchanged. *drawn borrows everything from `costs` but its
 * operations, GPU models, the machine's numbers and the collectives with their times; release it
 * with dl_costs_draw_free. */
void dl_costs_draw(const dl_costs *costs, dl_random *stream, dl_costs *drawn);
void dl_costs_draw_free(dl_costs *drawn);

/* Adds to drawn costs the exchanges of `workers` >= 1 processes on one machine, computed from
 * [gloo] and [rpc]:
 *
 *   allreduce           2 (N - 1) (latency + bytes / rate): a ring, as gloo chooses, has as many
 *                       rounds; in each the processes send bytes / N, all through the same cores
 *   allreduce_beside    beside_frac of the all-reduce
 *   broadcast           ceil(log2 N) messages: a binomial tree
 *   roundtrip           N (latency + bytes / rate): one server, which serves one at a time */
void dl_costs_draw_processes(dl_costs *drawn, int workers);

/* The exchange of that kind measured with the number of processes nearest to `workers`, on one
 * machine, borrowed; NULL if it was measured with `workers` processes, or not at all. */
const dl_collective_cost *dl_costs_other_ranks(const dl_costs *costs, int kind, int workers);

/* Adds to drawn costs the exchanges of `workers` processes that were measured only for other
 * numbers: the times for the nearest number, scaled by the number of messages (see above) and
 * [gloo] ranks_factor. */
void dl_costs_draw_other_ranks(dl_costs *drawn, int workers);

/* Whether any value has a standard error or bounds, or a collective was measured in several starts,
 * so that draws differ from the costs. */
bool dl_costs_have_errors(const dl_costs *costs);

#endif
