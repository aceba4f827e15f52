/* Comparison of measured collectives and copies with the same operations on a machine that dlsim
 * simulates.
 *
 * For each size of a collective, the machine's time is the time on idle links with the algorithm
 * and protocol that "auto" selects (sim/collective/collective.h). Copies of several sizes are also
 * compared size by size; of single rates, the median rate of each test is compared. A ratio is the
 * machine's time over the measured time: 0.6 means that the measured machine reaches 60 % of the
 * simulated speed. A ratio is as expected if its distance from 1 is within the bound.
 *
 * The bound combines the largest known error of the simulated times (compare.c) and the scatter of
 * the log. If the machine's time depends on assumed values of its machine file, the comparison
 * names these values and uses the bound for machines with assumed values. A time outside the bound
 * is compared with the time of the same machine after one change (NVLink unused, one NIC, ...). A
 * change that yields the measured time is an explanation, unless other measured times refute it. */
#ifndef DL_CALIBRATE_LINKS_COMPARE_H
#define DL_CALIBRATE_LINKS_COMPARE_H

#include "calibrate/links/links.h"

/* A measured size. */
typedef struct dl_link_compared {
    const dl_link_point *point;
    double machine_ns;
    const char *algorithm; /* NULL for a copy */
    char *protocol;        /* NULL for a copy, or if the machine has no protocols */
    bool outlier;          /* outlier of the fit; excluded from the ratios */
} dl_link_compared;

/* Sizes that are judged together: those dominated by latency, those dominated by transfer, or all
 * copies of a test. */
typedef struct dl_link_part {
    size_t first, count; /* range of indices into sizes[]; for single rates, count is their
                          * number */
    dl_link_range ratio;
    double bound;  /* largest expected distance of the ratio from 1 */
    char *assumed; /* relevant assumed values of the machine file, separated by commas; NULL:
                    * none */
    char *reasons; /* explanations of an unexpected ratio; NULL: the ratio is as expected, or no
                    * change explains it */
} dl_link_part;

enum { DL_LINK_SMALL, DL_LINK_LARGE, DL_LINK_PARTS };

typedef struct dl_link_comparison {
    const dl_link_result *result; /* borrowed; NULL for single rates */
    const char *test, *path;      /* test and file of single rates; borrowed */
    int ranks, nodes;
    bool other_device;       /* the machine has no GPU of the log's model */
    dl_link_compared *sizes; /* [count] by ascending size */
    size_t count;
    size_t rate_count;                     /* number of single rates of this test */
    double rate_bytes_per_s, machine_rate; /* medians of the measured rates and of the machine's
                                            * rates */
    dl_link_part parts[DL_LINK_PARTS];     /* copies and single rates use DL_LINK_LARGE only */
} dl_link_comparison;

/* Owns its arrays; zero before use, release with dl_link_comparisons_free. */
typedef struct dl_link_comparisons {
    char *machine, *title; /* name as given; full name */
    dl_link_comparison *items;
    size_t count;
    /* Rate at which a GPU sends and receives together through host memory, in bytes per second,
     * from all logs whose time depends on this value of the machine file. NaN: no log depends on
     * it, one of them gives no rate or has no explanation, or they differ by more than a tenth. */
    double shared_bytes_per_s;
    bool shared_or_ports; /* all these logs are between nodes, whose ports may be slow instead */
    dl_notes notes;       /* series that were not compared, with the reason */
} dl_link_comparisons;

/* Compares the results with the machine `name` (sim/scenario/machine_catalogue.h). `place` selects
 * the in-place or out-of-place times of nccl-tests. A machine with NICs gets as many nodes as the
 * log has. Returns the errors of dl_machine_open, or DL_ERR_DATA if the machine has no counterpart
 * to any measurement. */
dl_status dl_link_compare(dl_link_comparisons *to, const dl_link_results *links,
                          dl_link_place place, const char *name, dl_error *err) DL_MUST_CHECK;
void dl_link_comparisons_free(dl_link_comparisons *comparisons);

/* Returns the machine's time over the measured time. */
double dl_link_ratio(const dl_link_compared *size);

/* Returns the range of the ratios of sizes[n], without outliers. */
dl_link_range dl_link_ratios(const dl_link_compared *sizes, size_t n);

/* Returns whether `ratio` differs from 1 by no more than the part's bound. */
bool dl_link_is_expected(const dl_link_part *part, double ratio);

void dl_link_comparisons_print(const dl_link_comparisons *comparisons, FILE *out);

/* Writes a row per size, or per test of single rates. Returns the errors of dl_output_open and
 * dl_output_close. */
dl_status dl_link_comparisons_write(const dl_link_comparisons *comparisons, const char *path,
                                    dl_error *err) DL_MUST_CHECK;

#endif
