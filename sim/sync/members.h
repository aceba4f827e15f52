/* Who takes part in the averages of mode average, where workers fail, leave, join and come back
 * (sim/absence.h).
 *
 * Leaving. A worker that computes stops at once, and its steps since the last average are lost (of
 * fragments the mean over them, in whole steps); one that has come to an average, and perhaps waits
 * for others there, leaves when that is over, as one does whose communication thread is in it. The
 * others average without it from then on: those that wait for it go on, and the mean is of those
 * that are there.
 *
 * Coming (back). A worker first waits until no average is under way, fetches the parameters of the
 * last one over its link (from the server, or from another worker's GPU), while the others go on,
 * waits again if they have come to an average meanwhile, and then takes part: as far in its
 * interval as the one that is least far, so that nobody waits longer for it than for its own steps.
 * Alone, it has nothing to fetch. Where communication threads average without a pause, the next
 * average starts when it has taken what it waits for; if the others have handed it over already,
 * one step of its own is what they wait for.
 *
 * With gradients that are reduced inside sites, sites fail as a whole, at the end of the step that
 * they are in; each worker of one that is back fetches the parameters for itself.
 *
 * A worker that never comes back counts as having done its steps. Left out are averages that fail
 * half done, and the time until others notice: to them, a failure is known at once. */
#ifndef DL_SIM_MEMBERS_H
#define DL_SIM_MEMBERS_H

#include "sim/team.h"

/* The companion of teams whose workers come and go, beside dl_absences_companion. */
extern const dl_team_companion dl_members_companion;

/* Called first in each advance of a worker, at `stage`: true if the worker is coming or going, and
 * what it does next has been started. `in_average`: it has come to one, or is in it. */
bool dl_members_advance(dl_team *team, int worker, int stage, bool in_average);

/* The worker has come to an average (+1), or is through (-1). */
void dl_members_count(dl_team *team, int change);

/* Where the workers of a site reduce gradients in each step: it starts one, or has its sum. */
void dl_members_reduce(dl_team *team, int worker, bool reduces);

/* A communication thread is to start an average: false if it waits for others to come in or go on,
 * and its advance is called again. */
bool dl_members_start(dl_team *team, int comm);

/* Steps since the start of the run as the worker counts them for its intervals: those that it has
 * ended, and the ones that counted as done when it joined. */
int64_t dl_members_position(const dl_team *team, int worker);

/* Of `steps` since the start of an interval, the exchanges that are due, of all parameters or of a
 * fragment each. */
int64_t dl_members_due(const dl_team *team, int worker, int64_t steps);

/* Whether the worker takes part, as all do without [failures]; how many before it do. */
bool dl_members_has(const dl_team *team, int worker);
int dl_members_rank(const dl_team *team, int worker);

#endif
