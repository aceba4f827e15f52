/* Assumptions about collectives through host memory, depending on the rate of the GPUs' slots:
 * sections [shm] and [overlap] of a machine file, with bounds and sources. */
#ifndef DL_COMMON_MACHINE_SHM_H
#define DL_COMMON_MACHINE_SHM_H

#include <stdbool.h>
#include <stdio.h>

/* Wire rates of a PCIe slot in each direction. */
#define DL_PCIE3_X8_BYTES_PER_S 7.88e9
#define DL_PCIE3_X16_BYTES_PER_S 15.75e9
#define DL_PCIE4_X8_BYTES_PER_S 15.75e9
#define DL_PCIE4_X16_BYTES_PER_S 31.5e9
#define DL_PCIE5_X8_BYTES_PER_S 31.5e9
#define DL_PCIE5_X16_BYTES_PER_S 63e9
#define DL_PCIE6_X16_BYTES_PER_S 128e9 /* excluding the overhead of its 256-byte units */

/* Writes [shm]: the rate at which a GPU sends and receives together, in slots of about
 * wire_bytes_per_s > 0. `seen`: the slots are known, not only the GPU's specification. `of`: suffix
 * of section names, "" or " of box2". */
void dl_machine_write_shm(FILE *out, double wire_bytes_per_s, bool seen, const char *of);

/* Writes [overlap]: the slowdown of computation on GPUs during collectives through host memory. */
void dl_machine_write_overlap(FILE *out, const char *of);

#endif
