/* Membership in the averages of mode average, where workers fail, leave, join and come back
 * (sim/absence.h).
 *
 * Leaving. A computing worker stops immediately and loses its steps since the last average (with
 * fragments, their mean, in whole steps); one that has reached an average, perhaps waiting there,
 * leaves when the average is over, as does one whose communication thread is in it. From then on
 * the others average without it: those that wait for it go on, and the mean is over those present.
 *
 * Joining or coming back. A worker first waits until no average is in progress, fetches the
 * parameters of the last one over its link (from the server, or from another worker's GPU) while
 * the others go on, waits again if they have reached an average meanwhile, and then takes part: at
 * the interval position of the worker least far, so that nobody waits longer for it than for its
 * own steps. Alone, it fetches nothing. Where communication threads average without a pause, the
 * next average starts once it has fetched its parameters; if the others have already handed over
 * theirs, they wait for one step of it.
 *
 * With gradients reduced inside sites, sites fail as a whole, at the end of their current step;
 * each worker of a site that is back fetches the parameters for itself.
 *
 * A worker that never comes back counts as having done its steps. Not modelled: averages that fail
 * half done, and the time until others notice: they know of a failure immediately. */
#ifndef DL_SIM_MEMBERS_H
#define DL_SIM_MEMBERS_H

#include "sim/team.h"

/* The companion of teams whose workers leave and join, beside dl_absences_companion. */
extern const dl_team_companion dl_members_companion;

/* Called first in each advance of a worker, at `stage`: true if the worker is leaving or joining
 * and its next action has been started. `in_average`: it has reached an average, or is in it. */
bool dl_members_advance(dl_team *team, int worker, int stage, bool in_average);

/* The worker reaches an average (+1), or leaves it (-1). */
void dl_members_count(dl_team *team, int change);

/* Where the workers of a site reduce gradients in each step: the worker starts a step's reduction,
 * or has its sum. */
void dl_members_reduce(dl_team *team, int worker, bool reduces);

/* A communication thread wants to start an average: false if it must wait for workers to join or go
 * on; its advance is called again then. */
bool dl_members_start(dl_team *team, int comm);

/* Steps since the start of the run as the worker counts them for its intervals: those it has done,
 * and those counted as done when it joined. */
int64_t dl_members_position(const dl_team *team, int worker);

/* Number of exchanges, of all parameters or of a fragment each, due within `steps` since the start
 * of an interval. */
int64_t dl_members_due(const dl_team *team, int worker, int64_t steps);

/* Whether the worker takes part (always without [failures]); number of workers before it that
 * do. */
bool dl_members_has(const dl_team *team, int worker);
int dl_members_rank(const dl_team *team, int worker);

#endif
