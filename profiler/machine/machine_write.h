/* Writes a machine file (common/machine.h) from what was found out about this machine.
 *
 * Sizes that system or driver report are marked measured, rates of hardware that follow from clocks
 * and widths catalogue, and everything else assumed; a comment says from what each was taken. A key
 * that cannot be known stands in a comment that says what to fill in and where to find it; if the
 * format requires it, it is also a gap: dlsim reads the file when all gaps are filled.
 *
 *   fp32_flop_per_s    = 2 flop x cores x highest clock
 *   fp16, tf32         = fp32 x the ratio of the compute capability (tensor cores, dense)
 *   memory_bytes_per_s = 2 x highest memory clock x bus width / 8 (two transfers a clock)
 *   link bytes_per_s   = rate on the wire x the part that copies were seen to reach
 *
 * What it leaves out: [protocol], and root_bytes_per_s, which only measurements give. */
#ifndef DL_PROFILER_MACHINE_WRITE_H
#define DL_PROFILER_MACHINE_WRITE_H

#include <stdio.h>

#include "profiler/machine/machine_box.h"

/* "[host] memory_bytes_per_s": what is missing in a file. Release with dl_machine_gaps_free. */
typedef struct dl_machine_gaps {
    char **keys;
    size_t count;
} dl_machine_gaps;

/* Writes the file to `out` (whose errors the caller sees to) and appends its gaps. */
void dl_machine_write(const dl_box *box, FILE *out, dl_machine_gaps *gaps);

void dl_machine_gaps_free(dl_machine_gaps *gaps);

#endif
