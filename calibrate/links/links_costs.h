/* The part of a cost file that links' benchmarks tell: [collective ...] sections
 * (sim/collective/collective_cost.h) and [copy] pageable_bytes_per_s. */
#ifndef DL_CALIBRATE_LINKS_COSTS_H
#define DL_CALIBRATE_LINKS_COSTS_H

#include "calibrate/links/links_report.h"

/* Writes the curves of all collectives that the simulator knows; in place or out of place, whichever
 * `place` says, the other where the log has only that. Series of other collectives are left out with
 * a note. Keeps what the cost file `base` holds (NULL: none) but for the sections that are new.
 * DL_ERR_DATA: two logs measured the same, or there is nothing to write; errors of dl_costs_read and
 * dl_costs_write. */
dl_status dl_link_costs_write(dl_link_results *links, dl_link_place place, const char *base,
                              const char *path, dl_error *err) DL_MUST_CHECK;

#endif
