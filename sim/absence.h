/* Absences of workers ([failures] away, worker_mtbf_s): workers fail, leave or join late while the
 * others keep training. The sync mode determines what a worker loses and how it returns
 * (sim/sync/members.h, sim/sync/syncer.h).
 *
 * Random failures hit a single worker, or a site with all its workers simultaneously. Up times are
 * exponentially distributed with mean mtbf_s; each failure lasts away_s, so the long-run fraction
 * of time away is away_s / (mtbf_s + away_s). The times come from a separate random stream and do
 * not depend on the run: points with the same seed and replicate have the same failures.
 *
 * If a failure destroys the work of the current interval of length T, a worker takes (Daly, FGCS 22
 * (2006), equation 20, without failures while it is away)
 *
 *   (mtbf_s + away_s) (e^(T / mtbf_s) - 1)   per completed interval. */
#ifndef DL_SIM_ABSENCE_H
#define DL_SIM_ABSENCE_H

#include <stdbool.h>
#include <stddef.h>

struct dl_team;

/* One absence of a worker. A worker that never returns counts as having done all its steps. */
typedef struct dl_absence {
    int worker;
    double from_s, to_s; /* start and end; to_s > from_s; to_s INFINITY: the worker never returns,
                          * then from_s > 0 */
} dl_absence;

/* Absences of a run: a list, or random failures if mtbf_s > 0. */
typedef struct dl_absences {
    dl_absence *listed; /* [count] each worker's absences in order of time */
    size_t count;
    double mtbf_s, away_s; /* mtbf_s: mean time from the start, or a return, to the next failure */
    int together;          /* DL_TOGETHER_*: unit whose workers fail simultaneously */
} dl_absences;

enum { DL_TOGETHER_WORKER, DL_TOGETHER_SITE };
extern const char *const dl_together_names[];

static inline bool dl_absences_given(const dl_absences *absences)
{
    return absences->count > 0 || absences->mtbf_s > 0;
}

/* Team companion that starts and ends absences. */
extern const struct dl_team_companion dl_absences_companion;

/* Whether the worker's absence has begun but dl_absence_begin has not been called for it yet. The
 * worker's current action has been aborted, or runs to its normal end. */
bool dl_absence_is_due(const struct dl_team *team, int worker);

/* Called by the mode when the worker has no action in progress: pauses the worker until its return,
 * when its advance() is called, or retires it. */
void dl_absence_begin(struct dl_team *team, int worker);

/* After the run: fractions of all workers' total time from the end of the warm-up to the end of
 * the last step. Goodput is the time spent computing steps whose result was used (not those of
 * uploads that were dropped unmerged); away is the time spent absent, and requires that absences
 * are given. */
double dl_absences_goodput(const struct dl_team *team);
double dl_absences_away(const struct dl_team *team);

#endif
