/* Draws a machine as Graphviz text (dot -Tsvg machine.dot -o machine.svg).
 *
 *     memory 0 --76.8 GB/s-- socket 0 --qpi 19.2 GB/s-- socket 1 ...
 *                               |  pcie3x16 12.4 GB/s
 *                             plx0
 *                            /    \
 *                        gpu 0    gpu 1       an edge is a link: its class, and GB/s per direction
 *
 * Draws one node of each kind, whatever their number, and the network beside it. Values that are
 * assumed (neither measured nor from a catalogue) are dashed. */
#ifndef DL_SIM_MACHINE_GRAPH_H
#define DL_SIM_MACHINE_GRAPH_H

#include <stdio.h>

#include "common/machine.h"

/* Writes the machine to `out`; check ferror(out) for errors. */
void dl_machine_graph_write(const dl_machine *machine, FILE *out);

/* Writes the machine to a file. Returns the errors of dl_output_open and dl_output_close. */
dl_status dl_machine_graph_save(const dl_machine *machine, const char *path,
                                dl_error *err) DL_MUST_CHECK;

#endif
