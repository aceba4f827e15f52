/* The orders in which ranks form rings, and functions shared with other algorithms. */
#ifndef DL_SIM_COLLECTIVE_RINGS_H
#define DL_SIM_COLLECTIVE_RINGS_H

#include "sim/collective/collective.h"

/* Rings over the same ranks; each carries an equal part of the bytes. */
typedef struct dl_rings {
    int count, size;
    dl_place *order; /* [count][size] */
} dl_rings;

/* Finds rings over ranks[count], count >= 2. In one node, for 3 to 16 ranks with NVLinks between
 * GPUs: as many cycles with a separate lane on each edge as a bounded search finds, each in both
 * directions. Over several nodes whose ranks are consecutive: as many rings as the fewest NICs, or
 * ranks, of any node; they enter and leave by different NICs if possible and follow the rings found
 * in each node, in turn. Otherwise one ring in the given order. */
void dl_rings_init(dl_rings *rings, const dl_links *links, const dl_place *ranks, int count);
void dl_rings_free(dl_rings *rings);

/* Whether the ranks of each node are consecutive. */
bool dl_ranks_stand_by_nodes(const dl_place *ranks, int count);

/* Number of ranks of each node if it is the same for all nodes and each node's ranks are
 * consecutive; otherwise 0. */
int dl_ranks_per_node(const dl_place *ranks, int count);

/* Number of chunks of a pipeline for `bytes`, each at most chunk_bytes; at least DL_CHUNKS_WANTED
 * unless chunks would be smaller than DL_CHUNK_MIN_BYTES; at most DL_CHUNKS_MAX. */
int dl_chunk_count(double bytes, double chunk_bytes);

#endif
