/* What the modes whose server updates after a number of gradients have in common. Gradients wait in
 * the server's memory and are added up by the update (an [update] over as many vectors).
 *
 * Asynchronous, under the server's lock: a worker that has pushed contributes its gradient; the
 * one whose gradient is the last that is needed has the server update; then it pulls what there is.
 *
 * Synchronous: only gradients of the newest parameters count. When enough are there, one worker has
 * the server update, what the others compute is cut short at once, and all pull and begin anew.
 * What is cut, or comes too late, is dropped: it cost time, and no update has it in it. */
#ifndef DL_SIM_SYNC_SERVER_H
#define DL_SIM_SYNC_SERVER_H

#include "sim/team_exchange.h"

/* The update waits for gradients that it would make staler than `bound` (INFINITY: none), and who
 * comes meanwhile waits for the update. With `waits`, everybody waits for the update with its
 * gradient in it; else it goes on with the parameters of the moment. */
typedef struct dl_server_rule {
    int64_t gradients; /* that an update needs, >= 1 */
    double bound;
    bool waits;
} dl_server_rule;

/* The advance of such a mode. */
void dl_server_async(dl_team *team, int worker, const dl_server_rule *rule);

/* The same; rule->bound is not used. Without `waits`, a worker that has pushed goes on with the
 * parameters that it has. */
void dl_server_sync(dl_team *team, int worker, const dl_server_rule *rule);

#endif
