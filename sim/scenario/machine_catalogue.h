/* Machines that come with the program, by name:
 *
 *   dgx_a100         a machine file of the folder scenarios/machines (common/install.h);
 *                    2xdgx_a100: two of its nodes; dgx_a100@100ib: nodes with only that port
 *   4xrtx3090        a box of 4 GPUs of machines/gpus.csv; 2xt4+1xv100: a box of different GPUs
 *   4xrtx3090+nvlink NVLink bridges between 0 and 1, 2 and 3
 *   8xh100@8x400ib   a port for each GPU
 *   4x2xrtx3090@1gbe four boxes of 2 GPUs on 1 Gb/s Ethernet with TCP (200ib: InfiniBand); a single
 *                    box, 2xrtx3090@1gbe, has the port too, so that nodes can be added
 *   1xrtx3090@1gbe+2x2xt4@10gbe
 *                    nodes of several kinds, each ending with its network; added nodes are of the
 *                    last kind
 *   g5.12xlarge      an instance of machines/instances.csv; 4xg5.12xlarge: four such nodes
 *
 * Case, '_', '-' and a brand before a GPU's name are ignored (RTX-3090, v100pcie). For boxes and
 * instances the text of a machine file is generated from the tables' rows. Rates of GPUs are those
 * of their data sheets. Everything else is assumed, and marked so in the text: each GPU in its own
 * slot below a processor, two processors for more than four GPUs, links as fast as measured ones of
 * their kind, host memory typical of the time of the newest bus. GPUs with an NVSwitch or a mesh of
 * links are connected by it, and an NVSwitch of H100 or later reduces in the switch; other
 * instances are assumed to copy through host memory, as most virtual machines do. */
#ifndef DL_SIM_MACHINE_CATALOGUE_H
#define DL_SIM_MACHINE_CATALOGUE_H

#include <stdbool.h>
#include <stdio.h>

#include "common/machine.h"

/* Reads the machine file `path`; if there is none and `path` does not end in ".ini", reads the
 * machine named by its last part. Errors as dl_machine_read and dl_machine_make_text. */
dl_status dl_machine_open(dl_machine *machine, const char *path, dl_error *err) DL_MUST_CHECK;

/* Writes the machine file of a machine that dl_machine_open has read, with its number of nodes.
 * DL_ERR_IO. */
dl_status dl_machine_save(const dl_machine *machine, const char *file, dl_error *err) DL_MUST_CHECK;

/* Returns the path of the program's own machine file of this name, freed by the caller; NULL if
 * there is none. */
char *dl_machine_file(const char *name);

/* Returns the name of the program's own machine file at `path`, freed by the caller; NULL if it is
 * none of these. */
char *dl_machine_own_name(const char *path);

/* Returns the default machine for GPUs of this name: the board on which they are sold, with all its
 * GPUs; if there is none, a box of `count` of them, "8xa100". The caller frees it. */
char *dl_machine_usual(const char *gpu, int count);

/* Whether `path` is not a file and dl_machine_open knows its last part by name. */
bool dl_machine_is_known(const char *path);

/* Whether the name of the machine (dl_machine_is_known) contains its number of nodes, such as
 * 2xdgx_a100 or 4x2xrtx3090@1gbe, and all are of one kind. Nodes are not added to such a
 * machine. */
bool dl_machine_counts_nodes(const char *path);

/* Generates the text of the machine file of boxes, of an instance, or of several nodes of a machine
 * file, freed by the caller. DL_ERR_NAME, with the nearest name, for an unknown `name`;
 * DL_ERR_RANGE for its counts; errors of reading the tables and the machine file. */
dl_status dl_machine_make_text(const char *name, char **text, dl_error *err) DL_MUST_CHECK;

/* Prints a table of all machines: files, instances, and the GPUs of boxes. */
dl_status dl_machines_print(FILE *out, dl_error *err) DL_MUST_CHECK;

/* Prints the names that complete `typed` after its first `kept` bytes (dl_complete_word): names of
 * files and instances and, after COUNTx and '+', names of GPUs. */
void dl_machines_complete(FILE *out, const char *typed, size_t kept);

#endif
