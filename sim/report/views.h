/* Readable tables of results on a terminal and in pages: the rows and columns of each. */
#ifndef DL_SIM_VIEWS_H
#define DL_SIM_VIEWS_H

#include "sim/report/columns.h"

#define DL_VIEW_PAGE_ONLY (-1)

/* A column of a table. If lines are too long, columns of the highest rank are dropped first; rank 0
 * is never dropped. DL_VIEW_PAGE_ONLY: not shown on a terminal. */
typedef struct dl_view_column {
    const char *heading;
    int rank;
    double least; /* shown only if some row has at least this value */
} dl_view_column;

typedef struct dl_view {
    const char *title;
    bool (*has)(const dl_result *result); /* selects rows among those that ran; NULL: all rows */
    const dl_view_column *columns;
    size_t count;
} dl_view;

/* Returns the main table, which has all rows; it has the columns of generators or layouts if the
 * rows have these. */
const dl_view *dl_view_main(const dl_results *results);

/* Further tables: outer steps (from one average to the next), uploads to the syncer, failures,
 * absences. */
#define DL_VIEWS_FURTHER 4
extern const dl_view dl_views_further[DL_VIEWS_FURTHER];

extern const dl_view dl_view_staleness; /* predicted and measured staleness */

/* Whether the table of these results has the column. */
bool dl_view_shows(const dl_results *results, const dl_view_column *column);

/* Puts the table's rows into *some, which borrows from `all`; release some->results with free(). */
void dl_view_rows(dl_results *some, const dl_results *all, const dl_view *view);

/* Writes the table as HTML, folded if it has many rows and none of them is measured; writes nothing
 * if it has no rows. A row's class is the use of its measurement ("fitted", "unseen", ...). */
void dl_view_html(FILE *out, const char *caption, const dl_results *all, const dl_view *view);

/* Callbacks of dl_column_table: the reason why the row did not run, its marks, a remark on it. */
const char *dl_result_failure(const void *row);
const char *dl_result_mark(const void *row);
char *dl_result_remark(const void *row);

/* Whether `a` ranks before `b`, by these criteria in order: has an exchange; reaches the target
 * sooner; has the higher throughput. */
bool dl_result_is_better(const dl_result *a, const dl_result *b);

/* Returns the row that reaches the target first, else the one with the highest throughput; a row
 * without exchange only if there is no other. NULL: no row ran. */
const dl_result *dl_results_best(const dl_results *results);

/* Returns the best row in a sentence or two: "Fastest: 4 GPUs, average, interval 100: 167 samples/s
 * (95 %: 125 to 223), 3.86 times one without exchange. Communication takes 97 % of a step, bound by
 * node0 port0 up." NULL: no row ran. The caller frees it. */
char *dl_report_answer(const dl_results *results);

#endif
