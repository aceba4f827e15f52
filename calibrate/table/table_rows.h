/* Rows of a table of measured throughputs, each with the point of the simulator that it is of.
 *
 *   workers,batch,throughput_per_s,source
 *   4,128,41000,"a README"
 *   3,128,error,"a README"
 *
 * `placement` (sim/platform/placement.h) may stand in place of workers: the row's own GPUs.
 *
 * The columns are those of sim/report/measured.h (staleness, its standard errors, steps and seed count for
 * nothing here). A row's value is throughput_per_s or step_s, or the word `error` where the source
 * says that the run failed: such a row is kept and shown, and used for nothing.
 *
 * A row need not be a point that the scenario sweeps: workers and batch are its own, the rest
 * (mode, options, cores) is that of the scenario's point whose keys the row gives, which must be
 * one. Where the workers cannot share the batch evenly, the largest share counts, as all wait for
 * it: the point then has a batch of workers x that share, the row keeps its own.
 */
#ifndef DL_CALIBRATE_TABLE_ROWS_H
#define DL_CALIBRATE_TABLE_ROWS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/status.h"
#include "sim/scenario/scenario.h"

typedef struct dl_table_row {
    int line; /* in the table */
    bool failed;
    dl_point point;
    size_t at;               /* index of the point in scenario->points; not of a failed row */
    int64_t batch;           /* as measured */
    double throughput_per_s; /* NaN of a failed row */
    char *source;            /* "" if there is none */
    int *gpus;               /* [gpu_count] of its placement; NULL: none is given */
    int gpu_count;
} dl_table_row;

/* Owns everything; zero before use, release with dl_table_rows_free. */
typedef struct dl_table_rows {
    char *path;
    dl_table_row *rows; /* [count], in the order of the table */
    size_t count;
    size_t used; /* those that have not failed */
} dl_table_rows;

/* Reads a scenario for a table: as dl_scenario_read, but [machine] placement may be a list, of which
 * the first is taken, since the rows tell theirs; without noise. Zero `scenario` before. */
dl_status dl_table_scenario_read(dl_scenario *scenario, const char *path,
                                 dl_error *err) DL_MUST_CHECK;

/* Reads the table. scenario->points become those of the rows, each once. Errors name file:line:
 * DL_ERR_NAME (unknown column, no such point), DL_ERR_DATA (several such points, no value, no row
 * that has not failed), DL_ERR_RANGE (a number; more workers than GPUs, fewer samples than
 * workers), DL_ERR_PARSE. Then the scenario is unchanged. */
dl_status dl_table_rows_read(dl_table_rows *rows, const char *path, dl_scenario *scenario,
                             dl_error *err) DL_MUST_CHECK;

void dl_table_rows_free(dl_table_rows *rows);

#endif
