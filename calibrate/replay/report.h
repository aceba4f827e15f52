/* What a replay shows: steps as recorded and replayed, the critical path, what is not explained. */
#ifndef DL_CALIBRATE_REPLAY_REPORT_H
#define DL_CALIBRATE_REPLAY_REPORT_H

#include <stdio.h>

#include "calibrate/replay/critical.h"
#include "calibrate/replay/step_times.h"

/* Works that begin later than the graph explains by more than DL_REPLAY_SPREAD_NS. Replay begins
 * them earlier: nothing of these gaps is kept. */
typedef struct dl_replay_gaps {
    size_t count;
    int64_t total_ns; /* over all streams */
    int64_t longest_ns;
    double share; /* of the time from the first work to the last end, of each stream; 0..1 */
} dl_replay_gaps;

/* Owns all but the run; release with dl_replay_report_free. */
typedef struct dl_replay_report {
    const dl_replay_run *run; /* borrowed */
    dl_replay_steps steps;
    size_t regular;                 /* steps that count below: regular ones, or `whole` ones */
    double mean_error, worst_error; /* of their |errors|, as fractions */
    double total_error;             /* of the sum of their times, with sign */
    double path_ns[DL_PATH_END];    /* mean critical path of a step that counts */
    size_t edges[DL_REPLAY_EDGE_KIND_END][DL_REPLAY_ORIGIN_END];
    dl_replay_gaps gaps;
    dl_replay_steps changed; /* what-if: the same steps; count 0 = none was asked for */
} dl_replay_report;

/* Sums up a replay of `run` at `times`; steps[run->rank_count] are those of its ranks. Zero
 * `report` before. */
void dl_replay_report_init(dl_replay_report *report, const dl_replay_run *run,
                           const dl_activity_steps *steps, const dl_replay_time *times);

/* Adds the replay of the same run after a change. */
void dl_replay_report_change(dl_replay_report *report, const dl_activity_steps *steps,
                             const dl_replay_time *times);
void dl_replay_report_free(dl_replay_report *report);

/* Whether the step counts in the means: regular, or the only one of a device without steps. */
bool dl_replay_step_counts(const dl_replay_step *step);

/* Prints it for people, at most `rows` steps. Write errors: ferror(out). */
void dl_replay_report_print(const dl_replay_report *report, size_t rows, FILE *out);

/* Prints a line of its most important figures, and the heading of such lines. */
void dl_replay_report_print_line(const dl_replay_report *report, FILE *out);
void dl_replay_report_print_heading(FILE *out);

/* Writes all of it as one JSON object; units are in the names of the members. */
void dl_replay_report_write_json(const dl_replay_report *report, FILE *out);

#endif
