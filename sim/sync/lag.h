/* Synchronous exchange that may lag: with `lag` = 1 a worker's helper exchanges the gradients of a
 * step while the worker computes the next one, with parameters that lack that step's update (staged
 * variables, relaxed consistency). A worker hands its gradients over as soon as the exchange before
 * is done, so a step takes as long as the slower of computing and exchange. */
#ifndef DL_SIM_SYNC_LAG_H
#define DL_SIM_SYNC_LAG_H

#include "sim/team.h"

/* Starts stage `stage` of an exchange; returns false, and starts nothing, behind the last one. */
typedef bool (*dl_exchange_fn)(dl_team *team, int agent, int stage);

/* The advance of a mode that computes, then exchanges. */
void dl_lag_advance(dl_team *team, int agent, dl_exchange_fn exchange);

#endif
