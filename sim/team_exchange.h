/* What workers exchange: pieces of work that a sync mode asks for by their meaning, whatever
 * machine the workers are on. Each ends with a call of the mode's advance, as all that sim/team.h
 * starts.
 *
 *   push, pull   the worker's vectors to the server, the server's to the worker
 *   average      all workers' vectors are averaged, in `parts` slices by as many workers; all
 *                start it between two barriers, and those that have no part are done at once
 *   serve_all    the server adds up all workers' gradients and applies the sum, in slices as above
 *   serve        the server adds up so many gradients and applies the sum, for one worker, which
 * alone does so blend        the server averages its vector with one worker's, which has the lock
 *   blend_own    the worker averages its vector with one that it has pulled
 *   filter       behind an average, in the same slices: the average and the block momentum make the
 *                new parameters
 *
 * On a CPU box the server is memory, copies and averages are done by the workers' own threads
 * (sim/workload.h says what they cost).
 */
#ifndef DL_SIM_TEAM_EXCHANGE_H
#define DL_SIM_TEAM_EXCHANGE_H

#include "sim/team.h"

/* What is moved or averaged. */
typedef enum dl_content {
    DL_CONTENT_GRADIENTS,
    DL_CONTENT_PARAMETERS,
    DL_CONTENT_PARAMETERS_AND_STATE /* the optimizer's state too */
} dl_content;

void dl_team_push(dl_team *team, int worker, dl_content content);
void dl_team_pull(dl_team *team, int worker, dl_content content);

/* Ends the turn of a worker that has the lock: it pulls the parameters as they are now, and leaves
 * when it has them. The lock is free after that, or, where the platform serves while others pull,
 * when the pull begins. */
void dl_team_pull_locked(dl_team *team, int worker);
void dl_team_leave(dl_team *team, int worker);

/* 1 <= parts <= workers. */
void dl_team_average(dl_team *team, int worker, dl_content content, int parts);
void dl_team_serve_all(dl_team *team, int worker, int parts);
void dl_team_serve(dl_team *team, int worker, int64_t gradients);
void dl_team_blend(dl_team *team, int worker);
void dl_team_blend_own(dl_team *team, int worker);
void dl_team_filter(dl_team *team, int worker, int parts);

#endif
