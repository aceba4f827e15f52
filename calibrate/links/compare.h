/* Comparison of measured collectives and copies with those of a machine that dlsim simulates.
 *
 * For each size of a collective, the machine's time is that on idle links, with the algorithm and
 * protocol that "auto" takes (sim/collective/collective.h); for each test of copies, its rate is
 * compared. The ratio is the machine's time over the measured one: 0.6 means 60 % of the machine's
 * speed. A ratio whose distance from 1 is within the bound is as expected.
 *
 * The bound is the largest known error of such times (compare.c), plus the scatter of the log. If
 * the machine's time depends on values that its file assumes, these are named, and the bound is
 * that of a machine with assumed values. A time outside the bound is compared with that of the same
 * machine with one change (NVLink not used, one NIC, ...); a change that gives this time is an
 * explanation, unless other times of the same call refute it. */
#ifndef DL_CALIBRATE_LINKS_COMPARE_H
#define DL_CALIBRATE_LINKS_COMPARE_H

#include "calibrate/links/links.h"

/* A measured size. */
typedef struct dl_link_compared {
    const dl_link_point *point;
    double machine_ns;
    const char *algorithm; /* NULL: a copy */
    char *protocol;        /* NULL: likewise, or the machine has none */
    bool outlier;          /* in the fit; does not count */
} dl_link_compared;

/* Sizes that are judged together: those whose time is mostly latency, those whose time is mostly
 * transfer; or the copies of a test. */
typedef struct dl_link_part {
    size_t first, count; /* of the sizes */
    dl_link_range ratio;
    double bound;  /* of the ratio's distance from 1 */
    char *assumed; /* values of the machine file, with commas; NULL: none that matter */
    char *reasons; /* explanations; NULL: it is as expected */
} dl_link_part;

enum { DL_LINK_SMALL, DL_LINK_LARGE, DL_LINK_PARTS };

typedef struct dl_link_comparison {
    const dl_link_result *result; /* borrowed; NULL: single rates */
    const char *test, *path;      /* borrowed; of single rates */
    int ranks, nodes;
    bool other_device;       /* the machine has no GPU of the log's model */
    dl_link_compared *sizes; /* [count] ascending */
    size_t count;
    size_t rate_count;                     /* single rates of this test */
    double rate_bytes_per_s, machine_rate; /* medians of these rates, measured and of the machine */
    dl_link_part parts[DL_LINK_PARTS];     /* single rates have the second only */
} dl_link_comparison;

/* Owns its arrays; zero before use, release with dl_link_comparisons_free. */
typedef struct dl_link_comparisons {
    char *machine, *title; /* as given; its full name */
    dl_link_comparison *items;
    size_t count;
    /* Bytes per second that a GPU sends and receives together through host memory, from all logs
     * whose time depends on that value of the machine file; NaN: no log does, or the logs differ by
     * more than a tenth */
    double shared_bytes_per_s;
    dl_notes notes; /* series that were not compared, and why */
} dl_link_comparisons;

/* Compares with the machine `name` (sim/scenario/machine_catalogue.h). `place` selects the in-place
 * or out-of-place times of nccl-tests. A machine with NICs gets as many nodes as a log has. Errors
 * of dl_machine_open; DL_ERR_DATA if the machine has nothing that the logs measured. */
dl_status dl_link_compare(dl_link_comparisons *to, const dl_link_results *links,
                          dl_link_place place, const char *name, dl_error *err) DL_MUST_CHECK;
void dl_link_comparisons_free(dl_link_comparisons *comparisons);

/* The machine's time over the measured one. */
double dl_link_ratio(const dl_link_compared *size);

/* Range of the ratios of sizes[n] that are no outliers. */
dl_link_range dl_link_ratios(const dl_link_compared *sizes, size_t n);

/* Whether a ratio is within the part's bound of 1. */
bool dl_link_is_expected(const dl_link_part *part, double ratio);

void dl_link_comparisons_print(const dl_link_comparisons *comparisons, FILE *out);

/* A row per size, or per test of copies. Errors of dl_output_open and dl_output_close. */
dl_status dl_link_comparisons_write(const dl_link_comparisons *comparisons, const char *path,
                                    dl_error *err) DL_MUST_CHECK;

#endif
