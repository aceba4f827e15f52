/* Costs switched off, to see what each of them is worth: `dlsim --without LIST`.
 *
 *   dispatch   issuing operations and GPU steps     input    the batch made ready
 *   copy       copies of workers on cores; on GPUs, links and GPU memory (launches of
 *              collectives stay)
 *   contention flows of GPUs share no link and no memory: each has the rate of its narrowest one
 *   average    averaging, adding up micro-batches   update   the server's
 *   sharing    slowing each other on one machine    memory   the limit of its bandwidth
 *   overlap    computing slower beside a collective
 *   noise      variation of steps, and of exchange from run to run
 *   slow       slow workers                         lock, barrier, wakeup
 *
 *   of models split over GPUs (sim/island/island.h):
 *   activations    what crosses between stages      micro_batches  fixed costs paid by each of them
 *   imbalance      stages that take unequally long  bubble         stages waiting for each other
 *
 * What is switched off takes no time, or limits nothing, and need not be known. */
#ifndef DL_SIM_WITHOUT_H
#define DL_SIM_WITHOUT_H

#include "sim/scenario/scenario.h"

/* Reads "copy, noise" into *without, a set of bits, one for each of the names above. DL_ERR_USAGE
 * for an unknown name (with the nearest), an empty or repeated one. */
dl_status dl_without_parse(const char *list, unsigned *without, dl_error *err) DL_MUST_CHECK;

/* The names that the last of the list `typed` may become (dl_complete_word). */
void dl_without_complete(FILE *out, const char *typed);

/* Switches the costs of the set off. */
void dl_without_apply(unsigned without, dl_scenario *scenario, dl_costs *costs);

/* The costs of the set that can be had in part: not contention, noise, slow, and those of split
 * models. */
unsigned dl_without_graded(unsigned without);

/* Makes the graded costs of the set take `factor` of their time, 0 < factor < 1; those that only
 * slow others down (sharing, overlap), of what they add to it. */
void dl_without_lessen(unsigned without, double factor, dl_scenario *scenario, dl_costs *costs);

#define DL_WITHOUT_TEXT_BYTES 192

/* "copy+noise" in text[DL_WITHOUT_TEXT_BYTES]; returns text. */
const char *dl_without_text(char *text, unsigned without);

#endif
