/* What workers exchange: pieces of work that a sync mode asks for by their meaning, whatever
 * machine the workers are on. Each ends with a call of the mode's advance, as all that sim/team.h
 * starts.
 *
 *   push, pull   the worker's vectors to the server, the server's to the worker
 *   average      all workers' vectors are averaged, in `parts` slices by as many workers; all
 *                start it between two barriers, and those that have no part are done at once
 *   serve_all    the server adds up all workers' gradients and applies the sum, in slices as above
 *   serve_one    the server applies the gradient of one worker, which has the lock
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

/* 1 <= parts <= workers. */
void dl_team_average(dl_team *team, int worker, dl_content content, int parts);
void dl_team_serve_all(dl_team *team, int worker, int parts);
void dl_team_serve_one(dl_team *team, int worker);

#endif
