/* The columns of results: one table (columns.c) for the CSV and JSON files, the terminal table, the
 * page, and docs/columns.md. */
#ifndef DL_SIM_COLUMNS_H
#define DL_SIM_COLUMNS_H

#include "common/columns.h"
#include "sim/report/measured.h"
#include "sim/report/row_text.h"
#include "sim/sweep.h"

/* The data from which columns are computed. */
typedef struct dl_result {
    const dl_study *study;
    const dl_variant *variant; /* variant of the row */
    const dl_row *row;
    const dl_measured *measured;
    int64_t tokens;    /* tokens per sample of the variant's network; 0: none */
    double model_flop; /* FLOP of a sample's forward and backward pass; NaN without tokens */
    char marks[DL_MARKS_BYTES];
    bool says_fit; /* the cell of a row that does not fit into memory shows settings that would
                    * fit */
} dl_result;

/* Returns the column with this table heading, which must exist. */
const dl_column *dl_result_column(const char *heading);

/* Columns of rows with [generators] (generator_columns.c), appended by columns.c. */
#define DL_COLUMNS_OF_GENERATORS 0
extern const dl_column dl_generator_columns[];
extern const size_t dl_generator_column_count;

/* dl_generators_bound: the side that limits the updates of a row with generators, as in column
 * bound_side. dl_generators_answer: "16 GPUs generate, 48 train, bound 1: 62.1 s an update, ...",
 * freed by the caller. */
const char *dl_generators_bound(const dl_row *row);
char *dl_generators_answer(const dl_result *best, bool among_several);

#define DL_BOUND_TEXT_BYTES 64

/* (bound.c) Returns the bottleneck of a row that ran: "host" if the host's thread launches all the
 * time, else the part that takes most of the time, or a link, resource or stage that is busy during
 * that part: "compute", "input", "server", "slowest worker", "node0 gpu1 up", "stage 2". The string
 * is in `text` or borrowed from the row. */
const char *dl_result_bound(const dl_result *result, char text[DL_BOUND_TEXT_BYTES]);

/* Whether failures or checkpoints delay the row's job; with a syncer the job continues without a
 * failed worker. */
bool dl_result_may_fail(const dl_result *result);

/* Duration and price of the training until its target ([target]), in seconds and US dollars; NaN:
 * unknown. */
double dl_result_target_s(const dl_result *result);
double dl_result_target_usd(const dl_result *result);

/* Columns of tables and pages only (table_columns.c); those of a layout (layout_columns.c). */
extern const dl_column dl_table_columns[], dl_layout_columns[];
extern const size_t dl_table_column_count, dl_layout_column_count;

/* The results of a sweep as a table. */
typedef struct dl_results {
    dl_result *results; /* [count] in the order of the sweep's rows */
    size_t count;
    const dl_column **columns; /* [column_count] columns in use */
    size_t column_count;
    size_t key_count;   /* number of leading columns that identify the point */
    dl_column *of_keys; /* owned columns for the point's options and the study's swept keys */
    dl_column *options; /* [option_count] the same columns with headings for tables */
    size_t option_count;
} dl_results;

/* Creates the table of the sweep's rows and measured[sweep->row_count], which may be NULL if only
 * the point's columns are written. `explained` adds the columns of --explain. Borrows all
 * arguments; release with dl_results_free. */
void dl_results_make(dl_results *results, const dl_study *study, const dl_sweep *sweep,
                     const dl_measured *measured, bool explained);
void dl_results_free(dl_results *results);

/* Writes the reference of all columns, docs/columns.md. */
void dl_columns_reference(FILE *out);

#endif
