/* Measurements of links from logs: times of copies and collectives by size, and single rates.
 *
 * A series is one operation on one group of devices at several sizes, such as "allreduce" of 8
 * ranks in place, or "h2d" from pinned memory. Sizes are in bytes as nccl-tests counts them
 * (sim/collective/collective.h): the buffer of one rank or, for all-gather and reduce-scatter, the
 * parts of all ranks together. */
#ifndef DL_CALIBRATE_LINKS_LINKS_H
#define DL_CALIBRATE_LINKS_LINKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "calibrate/fit.h"
#include "calibrate/notes.h"
#include "common/status.h"

/* One measured size. */
typedef struct dl_link_point {
    double bytes;   /* >= 0 */
    double time_ns; /* > 0 */
    /* Relative standard error known in advance, from the printed digits or the spread of samples;
     * 0: unknown. */
    double error_frac;
    int64_t count; /* number of samples; time_ns is their median */
    int line;      /* line number in the log; 0: none (a trace) */
    int start;     /* number of the benchmark's start, >= 1; 0: unknown */
} dl_link_point;

typedef enum dl_link_place {
    DL_LINK_ANYWHERE,
    DL_LINK_OUT_OF_PLACE,
    DL_LINK_IN_PLACE
} dl_link_place;

/* "", "out of place", "in place". */
extern const char *const dl_link_place_names[3];

typedef struct dl_link_series {
    char *path;            /* source file */
    char *name;            /* "allreduce", ... (dl_collective_kind_names, "gather", "scatter",
                          * "sendrecv", "hypercube"), "h2d", "d2h", "h2d pageable", ... */
    char *device;          /* model name; NULL: unknown */
    bool collective;       /* collective of `ranks` ranks on `nodes` nodes; otherwise a copy or an
                            * exchange of processes */
    bool copy;             /* bytes over time are the rate of a link */
    int ranks, nodes;      /* 0: unknown; for copies, `ranks` is the number of concurrent copies */
    int thread_gpus;       /* GPUs per thread of the benchmark; 0: unknown */
    dl_link_place place;   /* in-place or out-of-place collective */
    dl_link_point *points; /* [count]; sizes strictly ascend after dl_link_data_finish */
    size_t count;
    /* Factor of each start's times relative to `points`, in the order of the starts; empty if there
     * was one start or the log does not identify starts. */
    double *starts;
    size_t start_count;
    double start_error_frac; /* relative standard error of the factors' median; 0: no starts */
    bool one_start;          /* all points come from one numbered start */
} dl_link_series;

typedef struct dl_link_range {
    double median, least, most;
} dl_link_range;

/* A rate or a latency that was measured at one size only (nvbandwidth, bandwidthTest by
 * default). */
typedef struct dl_link_rate {
    char *path, *name; /* test, e.g. "host_to_device_memcpy_ce", "cpu_to_gpuN_by_dma_under_numaN" */
    char *pair;        /* "0 1": row and column of a matrix; or "cpu_to_gpu0_...", "all streams" */
    double value;      /* > 0 */
    bool is_latency;   /* value is in ns; otherwise in bytes per second */
    int line;
} dl_link_rate;

/* Owns all its memory; zero before use, release with dl_link_data_free. */
typedef struct dl_link_data {
    dl_link_series *series; /* [series_count] */
    size_t series_count;
    dl_link_rate *rates; /* [rate_count] */
    size_t rate_count;
    int peers, peerless; /* numbers of pairs of GPUs that can and that cannot access each other's
                          * memory */
    int wrong;           /* times of nccl-tests whose results were wrong (#wrong) */
    char *first_wrong;   /* file:line of the first; NULL: none */
} dl_link_data;

/* Completes the series: sorts their points by size and merges points of one size into their median,
 * with a standard error from their spread if there are three or more. A series of more than
 * DL_LINK_SIZES_MAX sizes is reduced by averaging groups of equally many neighbouring sizes; the
 * mean of points on a line lies on the same line. A copy of one size becomes a rate of the pair "0
 * 0".
 *
 * Points of several starts of the benchmark's processes follow
 *
 *   time(size, start) = median(size) factor(start) + scatter
 *
 * with factors from the sums over a start's sizes. All sizes share the factors' standard error,
 * sd(ln factor) sqrt(pi / (2 n)) for n starts, so it is not part of a point's error. A point's
 * error is the standard deviation of the scatter over all sizes and starts, with (sizes - 1)
 * (starts - 1) degrees of freedom, times sqrt(pi / (2 n)). */
void dl_link_data_finish(dl_link_data *data);
void dl_link_data_free(dl_link_data *data);

/* Supported files of link measurements:
 *
 *   nccl-tests     all programs, old and new heads, several tables in a file, the command above
 *                  them, and rccl-tests; also if the '#' of its lines, some columns, or all
 *                  lines except the rows are missing
 *   bandwidthTest, p2pBandwidthLatencyTest     of the CUDA samples
 *   nvbandwidth    matrices and lines, text output
 *   gpu_copy_bw    of SuperBench, "NAME GB/s" lines
 *   perftest       ib_write_bw, ib_read_lat, ..., the OSU micro-benchmarks, iperf3
 *   dlprof bench   .dlt
 *   a table        CSV, `collective,ranks,bytes,time_us`, optionally `nodes` and `start` (table.c
 *                  lists other column names), with a row per call. A collective has its name in the
 *                  simulator, nccl-tests or PyTorch. Other operations are `roundtrip`: a process
 *                  sends these bytes to another process and receives as many, while `ranks`
 *                  processes do so; `update`: a server's work on these bytes; `allreduce_pair`: two
 *                  concurrent all-reduces of these bytes in total; `allreduce_beside`: an
 *                  all-reduce during computation; `allreduce_late`, `pushpull`
 *                  (sim/collective/collective_cost.h)
 *
 * The reader recognizes a file by its content and skips lines of other programs (NCCL INFO,
 * MPI). */

/* Adds a point to the series whose members other than the points equal those of *key, or to a new
 * one. */
void dl_link_data_add(dl_link_data *data, const dl_link_series *key, dl_link_point point);

/* dl_link_table_recognized returns whether text[bytes] starts like a CSV table of calls;
 * dl_link_table_read reads it into *data, with the errors of dl_link_data_read. */
bool dl_link_table_recognized(const char *text, size_t bytes);
dl_status dl_link_table_read(dl_link_data *data, const char *name, const char *text, size_t bytes,
                             dl_error *err) DL_MUST_CHECK;

/* Adds the measurements in `path` to *data; call dl_link_data_finish after the last file. Returns
 * DL_ERR_IO; DL_ERR_PARSE, DL_ERR_RANGE, DL_ERR_NAME or DL_ERR_DATA with the line of a malformed or
 * contradictory table; or DL_ERR_DATA if there is no table. On failure *data keeps everything read
 * before the error. */
dl_status dl_link_data_read(dl_link_data *data, const char *path, dl_error *err) DL_MUST_CHECK;

/* Like dl_link_data_read, but reads logs from memory; `name` replaces the path in messages. `text`
 * may hold any bytes. */
dl_status dl_link_data_read_text(dl_link_data *data, const char *name, const char *text,
                                 size_t bytes, dl_error *err) DL_MUST_CHECK;

/* Time of a copy or a collective by its size: a few regimes, each a straight line.
 *
 *   T(S) = latency_k + S / bandwidth_k     for S in regime k
 *
 *   time |            .'  3      Libraries change protocol and algorithm with the size (NCCL: LL,
 *        |      2  _.'           LL128, Simple; ring, tree), and data leave caches; latency and
 *        |     _.-'              bandwidth are constant between such changes. Neighbouring lines
 *        |____/                  join where they cross; if they do not cross between the last size
 *        |  1                    of one and the first of the next, a straight line connects these
 *        +---------------- size  two points.
 *
 * Residuals are relative. A point's variance is the sum of the noise variance and the variance of
 * its own error. Lines of four points or more are fitted with bisquare weights (Beaton & Tukey
 * 1974, tuning constant 4.685: 95 % efficient for normal errors). The number of regimes and their
 * boundaries minimise
 *
 *   sum rho(r / sigma) + (3 K - 1) ln n
 *
 * over all partitions of the sizes into K runs of at least two: the Bayesian information criterion
 * (Schwarz 1978) with two parameters per line and one per boundary, and a bounded rho. The minimum
 * is exact (dynamic programming over the boundaries; Bellman 1961), and a single wrong point never
 * makes a regime. With four sizes or more, a size is left out of all lines if it takes less than
 * half the time of the next smaller size, or more than twice the time of the next larger one, and
 * the times rise without it; or if it is the first one and ten times as fast as the next two.
 *
 * The noise is unknown, and too small a value makes scatter look like regimes. The noise is
 * therefore chosen from 1, 2, 4, ... 32 times DL_LINK_REPEAT_FRAC by cross-validation (each size
 * except the first and the last is left out once, in at most eight groups): the largest value whose
 * error is within one standard error of the least (Breiman et al. 1984). It determines the regimes
 * only: their lines, errors and outliers follow from the scatter around them. Standard errors are
 * those of weighted least squares (GSL), times the square root of the reduced chi^2 if that exceeds
 * 1. */

/* Least relative standard deviation assumed between repeated measurements of a printed mean of 20
 * calls. Ten columns of nccl-tests logs (8 A100) repeat one size, 0 bytes: the deviation is 0.2 to
 * 1.8 % in the four columns with five repetitions, 0.4 to 5.4 % in the six columns with two. */
#define DL_LINK_REPEAT_FRAC 0.01

/* Maximum number of sizes of a series. A fit of n sizes considers a line for each of n (n - 1) / 2
 * runs. */
#define DL_LINK_SIZES_MAX 512

typedef struct dl_link_regime {
    size_t first, last;      /* indices of points, inclusive */
    dl_estimate latency_ns;  /* time of the line at size 0; count = number of points */
    dl_estimate ns_per_byte; /* slope, >= 0; 0 with error 0: constrained to 0 */
    /* Range of sizes of the line, between the joins with its neighbours: from 0 for the first
     * regime, up to INFINITY for the last. */
    double low_bytes, high_bytes;
    bool latency_determined, bandwidth_determined;
    bool changes; /* the slope is not a bandwidth: slope plus twice its error is less than every
                   * size's time per byte and less than the last regime's slope */
} dl_link_regime;

/* A corner of the curve. */
typedef struct dl_link_vertex {
    double bytes, time_ns, error_ns;
} dl_link_vertex;

typedef struct dl_link_fit {
    dl_link_regime *regimes; /* [regime_count] */
    size_t regime_count;
    double fastest_per_s; /* largest rate of all sizes and of the last regime, bytes/s */
    /* [vertex_count] 2 or more, ascending, the first at 0 bytes. T is linear between vertices and
     * extends beyond the last. */
    dl_link_vertex *vertices;
    size_t vertex_count;
    bool *outlier;    /* [count] true for a size of weight 0, for one that is slower than the next
                       * size by more than the noise explains, unless the next size is too fast, and
                       * for one that is itself too fast after the previous size */
    double *residual; /* [points] fitted / measured - 1 */
    size_t count;     /* number of points */
    double rms_frac;  /* root mean square of the residuals without outliers */
    /* Noise used for the lines' weights: robust scatter (median) of all residuals, at least
     * DL_LINK_REPEAT_FRAC; the noise that determined the regimes if no degrees of freedom are
     * left. */
    double noise_frac;
} dl_link_fit;

/* Fits points[n], whose sizes must strictly ascend. *fit must be zeroed. Returns DL_ERR_DATA for
 * fewer than two sizes, or more than DL_LINK_SIZES_MAX. */
dl_status dl_link_fit_run(dl_link_fit *fit, const dl_link_point *points, size_t n,
                          dl_error *err) DL_MUST_CHECK;
void dl_link_fit_free(dl_link_fit *fit);

/* Returns T(bytes) in ns; bytes >= 0. */
double dl_link_fit_time_ns(const dl_link_fit *fit, double bytes);

/* A series with its fit. */
typedef struct dl_link_result {
    const dl_link_series *series; /* borrowed */
    dl_link_fit fit;
    struct dl_link_evaluation
        *evaluation; /* [2] fits to the odd-numbered and to the even-numbered sizes; NULL: too few
                      * sizes */
} dl_link_result;

/* Scaling of a collective's time with the number of nodes, or of ranks of one node, if logs have at
 * least three different counts. For each size of the first count that lies within the curves of all
 * counts, the fit is
 *
 *   time = c0 + c1 g(count)      g: hops of a ring, count - 1; depth of a tree, log2 count;
 *                                share that is sent, 1 - 1 / count
 *
 * by least squares of relative residuals, c1 >= 0. All sizes of one regime of the largest count use
 * the same g: the one with the least error at left-out counts. */
#define DL_LINK_LAWS 3
#define DL_LINK_COUNTS_MIN 3
#define DL_LINK_COUNTS_MAX 64

/* Owns its arrays; release with dl_link_scaling_free. */
typedef struct dl_link_scaling {
    const char *name; /* collective; borrowed from the series */
    dl_link_place place;
    bool by_nodes; /* counts are nodes; otherwise ranks of one node */
    int ranks_per_node;
    double *counts; /* [count] ascending */
    size_t count;
    double *bytes; /* [sizes] */
    size_t sizes;
    double *times_ns; /* [sizes x count], row-major */
    int *law;         /* [sizes] index of g */
    /* Relative errors at left-out counts, absolute: mean and maximum over all counts, and mean at
     * the largest count. */
    double left_out_mean, left_out_max, last_mean;
} dl_link_scaling;

/* Returns the time at `count` nodes or ranks. Its error is the time times last_mean, multiplied by
 * ln(count / largest) / ln(largest / second largest) if that exceeds 1. Requires size < sizes and
 * count >= 1. */
dl_link_vertex dl_link_scaling_at(const dl_link_scaling *scaling, size_t size, int count);
const char *dl_link_law_name(int law);
void dl_link_scaling_free(dl_link_scaling *scaling);

/* Fits to all series and rates of the data. Owns its members except *data; zero before use. */
typedef struct dl_link_results {
    const dl_link_data *data; /* finished; borrowed */
    dl_link_result *results;  /* [count] series with two sizes or more, in the order of the data */
    size_t count;
    dl_link_scaling *scalings; /* [scaling_count] */
    size_t scaling_count;
    dl_notes notes; /* remarks, such as quantities that the data do not determine */
} dl_link_results;

/* Finds the scalings of all results; called by dl_link_results_fit. */
void dl_link_scalings_fit(dl_link_results *links);

/* Fits all series. Returns DL_ERR_DATA if no series has two sizes and there are no rates. */
dl_status dl_link_results_fit(dl_link_results *links, const dl_link_data *data,
                              dl_error *err) DL_MUST_CHECK;
void dl_link_results_free(dl_link_results *links);

/* Prints the tables of regimes and rates, and the notes. */
void dl_link_results_print(const dl_link_results *links, FILE *out);

/* Prints a line per series: errors at left-out sizes of the fit and of the usual formula, latency +
 * bytes / bandwidth. */
void dl_link_results_print_evaluations(const dl_link_results *links, FILE *out);

/* Writes the content of the printed report as JSON. Returns the errors of dl_output_open and
 * dl_output_close. */
dl_status dl_link_results_json_write(const dl_link_results *links, const char *path,
                                     dl_error *err) DL_MUST_CHECK;

/* Cost-file sections from link benchmarks: [collective ...] (sim/collective/collective_cost.h) and
 * [copy] pageable_bytes_per_s; from processes: their exchanges, such as [roundtrip ...] and
 * [allreduce_pair ...], and [update]. */

/* Writes the curves of all collectives that the simulator supports, in place or out of place as
 * `place` says, or of the other place if the log has only that; and the other sections above. Omits
 * other collectives with a note. For each unmeasured count of nodes in nodes[node_count], also
 * writes curves from the scaling over nodes, with a note. Keeps the sections of the cost file
 * `base` (NULL: none) that it does not write. Returns DL_ERR_DATA if two logs measured the same
 * collective, if there is nothing to write, or if counts of nodes are requested and no collective
 * was measured at three counts; and the errors of dl_costs_read and dl_costs_write. */
dl_status dl_link_costs_write(dl_link_results *links, dl_link_place place, const int *nodes,
                              size_t node_count, const char *base, const char *path,
                              dl_error *err) DL_MUST_CHECK;

#endif
