/* How exchange varies from run to run: each bench trace's copies, averages and updates over the
 * lines that were fitted to all of them.
 *
 * What one core has written and another reads costs several times more while the two are far apart,
 * and where threads run a host may change every few seconds. A robust line through all runs shows
 * the usual state; these factors keep the others. Taken are the samples of the model's size that
 * one thread works on: copies, averages of DL_CHARGE_VECTORS_AVERAGE vectors, updates by
 * DL_CHARGE_VECTORS_UPDATE; of each case the mean without the least and greatest tenth of them
 * (preemptions), then the mean over cases. */
#ifndef DL_CALIBRATE_EXCHANGE_RUNS_H
#define DL_CALIBRATE_EXCHANGE_RUNS_H

#include "calibrate/charges.h"
#include "calibrate/dataset.h"
#include "sim/costs/costs.h"

/* Fills costs->exchange_runs from the bench traces and the fitted `charges`. Where a trace has no
 * such samples of a kind, its factor is 1; with fewer than two bench traces nothing is filled in.
 */
void dl_exchange_runs_fit(const dl_dataset *dataset, const dl_charges *charges, dl_costs *costs);

#endif
