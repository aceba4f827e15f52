/* Membership in the averages of mode average, if workers fail, leave, join and return
 * (sim/absence.h).
 *
 * Leaving. A computing worker stops immediately and loses its steps since the last average (with
 * fragments, the mean over the fragments, in whole steps). A worker that has reached an average,
 * perhaps waiting there, leaves when the average is over, as does one whose communication thread is
 * in an average. From then on the others average without it: those that wait for it continue, and
 * the mean is over the workers present.
 *
 * Joining or returning. A worker first waits until no average is in progress, fetches the
 * parameters of the last one over its link (from the server, or from another worker's GPU) while
 * the others continue, waits again if they have reached an average meanwhile, and then takes part:
 * at the interval position of the least advanced worker, so that nobody waits longer for it than
 * for that worker. If no other worker is present, it fetches nothing. If communication threads
 * average without a pause, the next average starts once the new worker has fetched the parameters;
 * if the others have already handed over theirs, they wait for one step of the new worker.
 *
 * With gradients reduced inside sites, sites fail as a whole, at the end of their current step;
 * each worker of a returning site fetches the parameters separately.
 *
 * A worker that never returns counts as having done its steps. Not modelled: averages that fail
 * halfway, and the time until others notice a failure: they know of it immediately. */
#ifndef DL_SIM_MEMBERS_H
#define DL_SIM_MEMBERS_H

#include "sim/team.h"

/* Team companion for workers that leave and join; used together with dl_absences_companion. */
extern const dl_team_companion dl_members_companion;

/* Called first in each advance of a worker, at `stage`: true if the worker is leaving or joining
 * and its next action has been started. `in_average`: it has reached an average, or takes part in
 * one. */
bool dl_members_advance(dl_team *team, int worker, int stage, bool in_average);

/* Records that the worker reaches an average (+1) or leaves it (-1). */
void dl_members_count(dl_team *team, int change);

/* If the workers of a site reduce gradients in each step: the worker starts a step's reduction
 * (reduces), or has its sum. */
void dl_members_reduce(dl_team *team, int worker, bool reduces);

/* Whether a communication thread may start an average; if false, it must wait for workers to join
 * or continue, and its advance is called again then. */
bool dl_members_start(dl_team *team, int comm);

/* The worker's position in steps since the start of the run, from which its intervals are counted:
 * steps it has done, and those counted as done when it joined. */
int64_t dl_members_position(const dl_team *team, int worker);

/* Number of exchanges (of all parameters, or of a fragment each) due within `steps` steps since the
 * start of an interval. */
int64_t dl_members_due(const dl_team *team, int worker, int64_t steps);

/* dl_members_has: whether the worker takes part (always true without [failures]). dl_members_rank:
 * number of workers before it that take part. */
bool dl_members_has(const dl_team *team, int worker);
int dl_members_rank(const dl_team *team, int worker);

#endif
