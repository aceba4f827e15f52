/* A machine as a drawing: Graphviz text (dot -Tsvg machine.dot -o machine.svg).
 *
 *     memory 0 --76.8 GB/s-- socket 0 --qpi 19.2 GB/s-- socket 1 ...
 *                               |  pcie3x16 12.4 GB/s
 *                             plx0
 *                            /    \
 *                        gpu 0    gpu 1       an edge is a link: its class, and GB/s of a direction
 *
 * One node of each kind is drawn, whatever their number; the network stands beside it. Values that
 * are assumed, neither measured nor from a catalogue, are dashed.
 */
#ifndef DL_SIM_MACHINE_GRAPH_H
#define DL_SIM_MACHINE_GRAPH_H

#include <stdio.h>

#include "common/machine.h"

/* Writes the machine to `out`; ferror(out) shows whether it succeeded. */
void dl_machine_graph_write(const dl_machine *machine, FILE *out);

/* The same to a file. Errors of dl_output_open and dl_output_close. */
dl_status dl_machine_graph_save(const dl_machine *machine, const char *path,
                                dl_error *err) DL_MUST_CHECK;

#endif
