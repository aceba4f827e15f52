/* Absences of workers ([failures] away, worker_mtbf_s): they fail, leave or join late, while the
 * others go on. The mode determines a worker's losses and its return (sim/sync/members.h,
 * sim/sync/syncer.h).
 *
 * Drawn failures hit each worker, or each site with all its workers at once: it is up for a time
 * from an exponential distribution, away for away_s, and so on, so that in the long run it is away
 * for the share away_s / (mtbf_s + away_s) of the time. The times come from a separate random
 * stream and do not depend on the run: points with the same seed and replicate have the same
 * failures.
 *
 * A worker that loses its work of an interval T when it fails takes (Daly, FGCS 22 (2006), equation
 * 20, without failures while it is away)
 *
 *   (mtbf_s + away_s) (e^(T / mtbf_s) - 1)   per interval that counts. */
#ifndef DL_SIM_ABSENCE_H
#define DL_SIM_ABSENCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct dl_team;

/* An absence of a worker. One that never comes back counts as having done its steps. */
typedef struct dl_absence {
    int worker;
    double from_s, to_s; /* to_s > from_s; INFINITY: it does not come back, from_s > 0 then */
} dl_absence;

/* Absences of a run: listed, or drawn where mtbf_s > 0. */
typedef struct dl_absences {
    dl_absence *listed; /* [count] those of one worker ordered by time */
    size_t count;
    double mtbf_s, away_s; /* mtbf_s: mean time from start or return to the next failure */
    int together;          /* dl_together_names: unit that fails at once */
} dl_absences;

enum { DL_TOGETHER_WORKER, DL_TOGETHER_SITE };
extern const char *const dl_together_names[];

static inline bool dl_absences_given(const dl_absences *absences)
{
    return absences->count > 0 || absences->mtbf_s > 0;
}

/* The companion of teams with absences: begins and ends them. */
extern const struct dl_team_companion dl_absences_companion;

/* Whether an absence of the worker has begun but dl_absence_begin has not been called for it yet.
 * The worker's current action has been aborted, or goes on to its normal end. */
bool dl_absence_is_due(const struct dl_team *team, int worker);

/* The worker has ended a step. */
void dl_absence_step_ended(struct dl_team *team, int worker);

/* Called by the mode when the worker has no action in progress: pauses the worker until its return,
 * when its advance() is called, or retires it. */
void dl_absence_begin(struct dl_team *team, int worker);

/* After the run: fractions of the total time of all workers from the end of the warm-up to the end
 * of the last step. Goodput: spent computing steps that were not dropped (as those of unmerged
 * uploads are); away: spent absent. */
double dl_absences_goodput(const struct dl_team *team);
double dl_absences_away(const struct dl_team *team);

#endif
