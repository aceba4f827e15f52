/* What was found out about this machine as one JSON object: the facts themselves, before the
 * machine file turns them into rates of links. Keys are those of dl_box; what is not known is null.
 */
#ifndef DL_PROFILER_MACHINE_JSON_H
#define DL_PROFILER_MACHINE_JSON_H

#include <stdio.h>

#include "profiler/machine/machine_box.h"

/* Write errors: ferror(out). */
void dl_box_write_json(const dl_box *box, FILE *out);

#endif
