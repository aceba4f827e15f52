/* Synchronous exchange that may lag: with `lag` = 1 a worker's helper exchanges the gradients of a
 * step while the worker computes the next one, with parameters that lack that step's update (staged
 * variables, relaxed consistency). A worker hands its gradients over as soon as the exchange before
 * is done. Where workers update their own parameters, they do so themselves, with what came of that
 * exchange, as part of their next step. So a step takes as long as the slower of computing, with
 * that update, and exchange. */
#ifndef DL_SIM_SYNC_LAG_H
#define DL_SIM_SYNC_LAG_H

#include "sim/team.h"

/* Starts stage `stage` of an exchange; returns false, and starts nothing, behind the last one. The
 * worker's own update is its last stage, but not for helpers. */
typedef bool (*dl_exchange_fn)(dl_team *team, int agent, int stage);

/* The advance of a mode that computes, then exchanges. updates: every worker updates its own
 * parameters. */
void dl_lag_advance(dl_team *team, int agent, dl_exchange_fn exchange, bool updates);

#endif
