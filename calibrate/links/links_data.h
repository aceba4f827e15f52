/* What logs say about links: times of copies and collectives by size, and single rates.
 *
 * A series is one operation on one group of devices at several sizes: "allreduce" of 8 ranks in
 * place, "h2d" pinned. Sizes are bytes as nccl-tests counts them (sim/collective/collective.h): of a rank's
 * buffer, for all-gather and reduce-scatter of all ranks' parts together. */
#ifndef DL_CALIBRATE_LINKS_DATA_H
#define DL_CALIBRATE_LINKS_DATA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* One measured size. */
typedef struct dl_link_point {
    double bytes;   /* >= 0 */
    double time_ns; /* > 0 */
    double
        error_frac; /* relative standard error that is known beforehand: digits printed, spread of
                        * samples; 0 = none */
    int64_t count;  /* samples that it is the median of */
    int line;       /* of the log; 0 = none (a trace) */
} dl_link_point;

typedef enum dl_link_place {
    DL_LINK_ANYWHERE,
    DL_LINK_OUT_OF_PLACE,
    DL_LINK_IN_PLACE
} dl_link_place;

/* "", "out of place", "in place". */
extern const char *const dl_link_place_names[3];

typedef struct dl_link_series {
    char *path;            /* file that it comes from */
    char *name;            /* "allreduce", ... (dl_collective_kind_names, "gather", "scatter",
                          * "sendrecv", "hypercube"), "h2d", "d2h", "h2d pageable", ... */
    char *device;          /* model name; NULL = not said */
    bool collective;       /* of `ranks` ranks on `nodes` nodes; else a copy */
    int ranks, nodes;      /* 0 = not said; a copy: how many at once */
    dl_link_place place;   /* of a collective */
    dl_link_point *points; /* [count] ascending bytes after dl_link_data_finish, all different */
    size_t count;
} dl_link_series;

/* A rate or a latency that was measured at one size only (nvbandwidth, gpu_copy_bw). */
typedef struct dl_link_rate {
    char *path, *name; /* "host_to_device_memcpy_ce", "cpu_to_gpuN_by_dma_under_numaN" */
    char *pair;        /* "0 1": row and column of a matrix; "cpu_to_gpu0_..." */
    double value;      /* > 0 */
    bool is_latency;   /* value in ns; else in bytes a second */
    int line;
} dl_link_rate;

/* Owns everything; zero before use, release with dl_link_data_free. */
typedef struct dl_link_data {
    dl_link_series *series; /* [series_count] */
    size_t series_count;
    dl_link_rate *rates; /* [rate_count] */
    size_t rate_count;
} dl_link_data;

/* The series that equals *key in all but points, or a new one with copies of its texts. Valid until
 * the next call. */
dl_link_series *dl_link_data_series(dl_link_data *data, const dl_link_series *key);

void dl_link_series_add(dl_link_series *series, dl_link_point point);

/* Adds a copy. */
void dl_link_data_add_rate(dl_link_data *data, const dl_link_rate *rate);

/* Sorts the points of all series by size. Several of one size become one: their median, with
 * standard error from their spread where there are three or more. */
void dl_link_data_finish(dl_link_data *data);

void dl_link_data_free(dl_link_data *data);

#endif
