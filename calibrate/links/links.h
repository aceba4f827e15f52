/* Measurements of links in logs: times of copies and collectives by size, and single rates.
 *
 * A series is one operation on one group of devices at several sizes: "allreduce" of 8 ranks in
 * place, "h2d" pinned. Sizes are bytes as nccl-tests counts them (sim/collective/collective.h): of
 * a rank's buffer, or, for all-gather and reduce-scatter, of the parts of all ranks together. */
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
    /* Relative standard error known beforehand, from the digits printed or the spread of samples;
     * 0: none. */
    double error_frac;
    int64_t count; /* number of samples, of which the time is the median */
    int line;      /* of the log; 0 = none (a trace) */
    int start;     /* number of the start of the benchmark's processes, >= 1; 0 = not said */
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
    char *device;          /* model name; NULL = not said */
    bool collective;       /* of `ranks` ranks on `nodes` nodes; else a copy */
    bool copy;             /* bytes over time are the rate of a link */
    int ranks, nodes;      /* 0 = not said; of copies: how many at once */
    int thread_gpus;       /* served by one thread of the benchmark; 0 = not said */
    dl_link_place place;   /* of a collective */
    dl_link_point *points; /* [count]; after dl_link_data_finish bytes ascend and differ */
    size_t count;
    /* Factors by which the times of each start of the benchmark exceed the points above, in the
     * order of the starts; none if there was one start, or the log does not tell. */
    double *starts;
    size_t start_count;
    double start_error_frac; /* relative standard error of the factors' median; 0: no starts */
    bool one_start;          /* all points are of one start, whose number is given */
} dl_link_series;

typedef struct dl_link_range {
    double median, least, most;
} dl_link_range;

/* A rate or a latency that was measured at one size only (nvbandwidth, bandwidthTest by
 * default). */
typedef struct dl_link_rate {
    char *path, *name; /* "host_to_device_memcpy_ce", "cpu_to_gpuN_by_dma_under_numaN" */
    char *pair;        /* "0 1": row and column of a matrix; "cpu_to_gpu0_..." */
    double value;      /* > 0 */
    bool is_latency;   /* value in ns; else in bytes per second */
    int line;
} dl_link_rate;

/* Owns everything; zero before use, release with dl_link_data_free. */
typedef struct dl_link_data {
    dl_link_series *series; /* [series_count] */
    size_t series_count;
    dl_link_rate *rates; /* [rate_count] */
    size_t rate_count;
    int peers, peerless; /* pairs of GPUs that can access each other's memory, and that cannot */
} dl_link_data;

/* Completes the series: sorts their points by size and merges those of one size into their median,
 * with a standard error from their spread if there are three or more. If there are more than
 * DL_LINK_SIZES_MAX sizes, groups of equally many neighbours become their means, which lie on the
 * same line. A copy of one size becomes a rate, of the pair "0 0".
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

/* Files with measurements of links that are read:
 *
 *   nccl-tests     all programs, old and new heads, several tables in a file, the command above
 *                  them, rccl-tests too; also where the '#' of its lines, some columns, or all
 *                  lines but the rows are gone
 *   bandwidthTest, p2pBandwidthLatencyTest     of the CUDA samples
 *   nvbandwidth    matrices and lines, text output
 *   gpu_copy_bw    of SuperBench, "NAME GB/s" lines
 *   perftest       ib_write_bw, ib_read_lat, ..., the OSU micro-benchmarks, iperf3
 *   dlprof bench   .dlt
 *   a table        CSV, `collective,ranks,bytes,time_us`, optionally `nodes` (table.c lists other
 *                  column names): a row per call. The collective has the name of the simulator,
 *                  nccl-tests or PyTorch, or is `roundtrip`: a process sends these bytes to another
 *                  and gets as many back, while `ranks` processes do so; `update`: a server's work
 *                  on these bytes; `allreduce_pair`: two all-reduces in flight together, of these
 *                  bytes in total; `allreduce_beside`: an all-reduce beside computing
 *
 * A file is recognized by its content. Lines of other programs in between (NCCL INFO, MPI) are
 * skipped. */

/* Adds a point to the series that equals *key in all but its points. */
void dl_link_data_add(dl_link_data *data, const dl_link_series *key, dl_link_point point);

/* Whether text[bytes] starts like such a table; reads it into *data, with the errors of
 * dl_link_data_read. */
bool dl_link_table_recognized(const char *text, size_t bytes);
dl_status dl_link_table_read(dl_link_data *data, const char *name, const char *text, size_t bytes,
                             dl_error *err) DL_MUST_CHECK;

/* Adds the measurements in `path` to *data (call dl_link_data_finish after the last file).
 * DL_ERR_IO; DL_ERR_PARSE with the line of a malformed table; DL_ERR_DATA if there is no table. On
 * failure *data keeps all that was read before the error. */
dl_status dl_link_data_read(dl_link_data *data, const char *path, dl_error *err) DL_MUST_CHECK;

/* The same from memory, logs only; `name` stands for the path. `text` may hold any bytes. */
dl_status dl_link_data_read_text(dl_link_data *data, const char *name, const char *text,
                                 size_t bytes, dl_error *err) DL_MUST_CHECK;

/* Time of a copy or a collective by its size: a few regimes, each a straight line.
 *
 *   T(S) = latency_k + S / bandwidth_k     for S in regime k
 *
 *   time |            .'  3      Libraries change protocol and algorithm with the size (NCCL: LL,
 *        |      2  _.'           LL128, Simple; ring, tree), memory changes cache; in between
 *        |     _.-'              latency and bandwidth are constant. Lines of neighbours join where
 *        |____/                  they cross; if they do not cross between the last size of one and
 *        |  1                    the first of the next, a straight line joins these two.
 *        +---------------- size
 *
 * Residuals are relative. A point's variance is that of the noise and its own error.
 * Lines are fitted with bisquare weights (Beaton & Tukey 1974, tuning constant 4.685: 95 %
 * efficient where errors are normal). The number of regimes and their boundaries minimise
 *
 *   sum rho(r / sigma) + (3 K - 1) ln n
 *
 * over all ways to cut the sizes into K runs of at least two: the Bayesian information criterion
 * (Schwarz 1978) with two parameters per line and one per boundary, and a bounded rho. The minimum
 * is exact (dynamic programming over the boundaries; Bellman 1961), and a single wrong point never
 * makes a regime. Of four sizes or more, a size that takes under half as long as a smaller one, or
 * twice as long as a larger one, and without which the times rise, is left out of all lines.
 *
 * The noise is unknown, and too small a value makes scatter look like regimes. So the noise is
 * chosen from 1, 2, 4, ... 32 times DL_LINK_REPEAT_FRAC by cross-validation (each size but the
 * first and the last is left out once, in at most eight groups): the largest value whose error is
 * within one standard error of the least (Breiman et al. 1984). It determines the regimes only:
 * their lines, errors and outliers follow from the scatter around them. Standard errors are those
 * of weighted least squares (GSL), times the square root of the reduced chi^2 if that exceeds 1. */

/* Least relative standard deviation assumed between repeated measurements of a printed mean of 20
 * calls. Ten columns of nccl-tests logs (8 A100) repeat one size, 0 bytes: the deviation is 0.2 to
 * 1.8 % in the four with five repetitions, 0.4 to 5.4 % in the six with two. */
#define DL_LINK_REPEAT_FRAC 0.01

/* Most sizes of a series; the search fits as many lines as the square of their number. */
#define DL_LINK_SIZES_MAX 512

typedef struct dl_link_regime {
    size_t first, last;      /* points, inclusive */
    dl_estimate latency_ns;  /* of the line at size 0; count = points */
    dl_estimate ns_per_byte; /* >= 0; 0 with error 0: held there */
    /* Range of sizes of the line, between the joins with its neighbours; from 0 for the first
     * regime, to INFINITY for the last. */
    double low_bytes, high_bytes;
    bool latency_determined, bandwidth_determined;
} dl_link_regime;

/* A corner of the curve. */
typedef struct dl_link_vertex {
    double bytes, time_ns, error_ns;
} dl_link_vertex;

typedef struct dl_link_fit {
    dl_link_regime *regimes; /* [regime_count] */
    size_t regime_count;
    /* [vertex_count] 2 or more, ascending, the first at 0 bytes. T is straight between them, and
     * continues beyond the last. */
    dl_link_vertex *vertices;
    size_t vertex_count;
    bool *
        outlier; /* [points] weight 0, or slower than the next size by more than noise explains, and
                      not that one too fast */
    double *residual; /* [points] fitted / measured - 1 */
    size_t count;     /* points */
    double rms_frac;  /* of the residuals without outliers */
    /* Noise that the lines were fitted at: that of all residuals, by their median, but at least
     * DL_LINK_REPEAT_FRAC. */
    double noise_frac;
} dl_link_fit;

/* Fits points[n], ascending sizes, all different. *fit must be zeroed. DL_ERR_DATA: fewer than two
 * sizes, or more than DL_LINK_SIZES_MAX. */
dl_status dl_link_fit_run(dl_link_fit *fit, const dl_link_point *points, size_t n,
                          dl_error *err) DL_MUST_CHECK;
void dl_link_fit_free(dl_link_fit *fit);

/* T(bytes) in ns, bytes >= 0. */
double dl_link_fit_time_ns(const dl_link_fit *fit, double bytes);

/* A series with its fit. */
typedef struct dl_link_result {
    const dl_link_series *series; /* borrowed */
    dl_link_fit fit;
    struct dl_link_evaluation
        *evaluation; /* [2] fits to every odd size, and to every even one; NULL: too few sizes */
} dl_link_result;

/* Times of a collective over the number of nodes, or of ranks of one node, if logs have three
 * counts or more: at each size of the first count that the curves of all counts cover
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
    const char *name; /* of the collective; borrowed from the series */
    dl_link_place place;
    bool by_nodes; /* else by ranks of one node */
    int ranks_per_node;
    double *counts; /* [count] ascending */
    size_t count;
    double *bytes; /* [sizes] */
    size_t sizes;
    double *times_ns; /* [sizes x count], row by row */
    int *law;         /* [sizes] */
    /* Absolute errors of left-out counts: mean and largest of all, and mean at the largest
     * count. */
    double left_out_mean, left_out_max, last_mean;
} dl_link_scaling;

/* Time at a count with its error: last_mean, times ln(count / largest) / ln(largest / the count
 * before) if that exceeds 1. size < sizes, count >= 1. */
dl_link_vertex dl_link_scaling_at(const dl_link_scaling *scaling, size_t size, int count);
const char *dl_link_law_name(int law);
void dl_link_scaling_free(dl_link_scaling *scaling);

/* The fits to all of the data; owns all but *data. Zero before use. */
typedef struct dl_link_results {
    const dl_link_data *data; /* finished; borrowed */
    dl_link_result *results;  /* [count] in the order of the series, those with two sizes or more */
    size_t count;
    dl_link_scaling *scalings; /* [scaling_count] */
    size_t scaling_count;
    dl_notes notes; /* quantities that the data do not determine */
} dl_link_results;

/* Finds the scalings of all results; part of dl_link_results_fit. */
void dl_link_scalings_fit(dl_link_results *links);

/* Fits all series. DL_ERR_DATA if none has two sizes and there are no rates. */
dl_status dl_link_results_fit(dl_link_results *links, const dl_link_data *data,
                              dl_error *err) DL_MUST_CHECK;
void dl_link_results_free(dl_link_results *links);

/* Prints the tables of regimes and rates, and the notes. */
void dl_link_results_print(const dl_link_results *links, FILE *out);

/* Prints a line per series: errors of the fit and of the usual formula at left-out sizes. */
void dl_link_results_print_evaluations(const dl_link_results *links, FILE *out);

/* Writes the same content as JSON. Errors of dl_output_open and dl_output_close. */
dl_status dl_link_results_json_write(const dl_link_results *links, const char *path,
                                     dl_error *err) DL_MUST_CHECK;

/* The part of a cost file that benchmarks of links give: [collective ...] sections
 * (sim/collective/collective_cost.h), [copy] pageable_bytes_per_s; of processes that exchange with
 * a server [copy] (half of a round trip) and [update]. */

/* Writes the curves of all collectives that the simulator knows, in place or out of place as
 * `place` says, or the other if the log has only that. Leaves out other collectives with a note.
 * For each unmeasured count of nodes in nodes[node_count], also writes the curves by the scaling
 * over nodes, with a note on the extrapolation. Keeps the sections of the cost file `base` (NULL:
 * none) that it does not write. DL_ERR_DATA: two logs measured the same, there is nothing to write,
 * or counts of nodes are wanted and no collective was measured at three counts; errors of
 * dl_costs_read and dl_costs_write. */
dl_status dl_link_costs_write(dl_link_results *links, dl_link_place place, const int *nodes,
                              size_t node_count, const char *base, const char *path,
                              dl_error *err) DL_MUST_CHECK;

#endif
