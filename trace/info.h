/* What the programs that summarise traces of activities share: options, and the way to a summary. */
#ifndef DL_TRACE_INFO_H
#define DL_TRACE_INFO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/options.h"
#include "common/status.h"
#include "trace/activity/activity_summary.h"
#include "trace/dlt.h"

typedef struct dl_info_settings {
    bool json;
    int64_t top;       /* rows of a table */
    const char *marks; /* of steps; NULL = find out */
    int64_t period;    /* of steps; 0 = find out */
} dl_info_settings;

/* Text, 15 rows, nothing known of the steps. */
dl_info_settings dl_info_settings_default(void);

/* --json, --top, --step-marks, --step-period into table[DL_INFO_OPTION_COUNT]. `json` is the help of
 * the first. */
#define DL_INFO_OPTION_COUNT 4
void dl_info_options(dl_info_settings *settings, const char *json, dl_option *table);

/* Finds the steps and summarises the trace; zero `summary` before. The summary borrows the trace,
 * but not its activities. Errors as dl_activity_steps_init. */
dl_status dl_info_summarise(dl_activity_summary *summary, const dl_trace *trace,
                            const dl_info_settings *settings, dl_error *err) DL_MUST_CHECK;

/* Lets go of the activities: those of many ranks need not lie in memory at once. */
void dl_info_let_go(dl_trace *trace);

/* Prints those with devices beside one another, behind an empty line, if there are several. Zeroed
 * summaries count as without. */
void dl_info_compare(const dl_activity_summary *summaries, size_t count, FILE *out);

#endif
