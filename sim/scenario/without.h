/* Costs switched off, to see the effect of each: `dlsim --without LIST`.
 *
 *   dispatch   issuing operations and GPU steps     input    making and copying batches
 *   external   waits of a traced GPU step that have no cause in the trace
 *   copy       copies of workers on cores, and exchange between their processes; on GPUs, links and
 *              GPU memory (launches of collectives remain) and collectives measured as a whole
 *   contention sharing of links and memory among flows of GPUs: each has the rate of its slowest
 *   average    averaging, summing micro-batches     update   server updates
 *   sharing    slowdown of workers by each other    memory   limit of memory bandwidth
 *   overlap    slowdown of compute by concurrent collectives
 *   noise      variation of steps, and of exchange from run to run
 *   slow       slow workers, and lasting differences between GPUs of a model
 *   wakeup     start of a blocked thread after a post
 *   lock       hand-over of a spinning lock         barrier  from the last arrival to the release
 *
 *   of models split over GPUs (sim/island/island.h):
 *   activations    transfers between stages         micro_batches  fixed costs of each micro-batch
 *   imbalance      unequal durations of stages      bubble         waits of stages for each other
 *
 * A switched-off cost takes no time, or limits nothing, and may be unknown. */
#ifndef DL_SIM_WITHOUT_H
#define DL_SIM_WITHOUT_H

#include "sim/scenario/scenario.h"

/* Parses "copy, noise" into *without, a bit set with one bit per name above. DL_ERR_USAGE for an
 * unknown name (with the nearest one), an empty or a repeated one. */
dl_status dl_without_parse(const char *list, unsigned *without, dl_error *err) DL_MUST_CHECK;

/* Prints the names that complete the last name of the list `typed` (dl_complete_word). */
void dl_without_complete(FILE *out, const char *typed);

/* Switches off the costs of the set. */
void dl_without_apply(unsigned without, dl_scenario *scenario, dl_costs *costs);

/* Returns the costs of the set that can be reduced in part: all except contention, noise, slow, and
 * those of split models. */
unsigned dl_without_graded(unsigned without);

/* Reduces the graded costs of the set to `factor` of their time, 0 < factor < 1; for costs that
 * slow others down (sharing, overlap), reduces the slowdown to that fraction. */
void dl_without_lessen(unsigned without, double factor, dl_scenario *scenario, dl_costs *costs);

#define DL_WITHOUT_TEXT_BYTES 192

/* Writes "copy+noise" to text[DL_WITHOUT_TEXT_BYTES]; returns text. */
const char *dl_without_text(char *text, unsigned without);

#endif
