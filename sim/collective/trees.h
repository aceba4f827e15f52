/* Binary trees of ranks, for algorithms that pass pieces up and down them. */
#ifndef DL_SIM_COLLECTIVE_TREES_H
#define DL_SIM_COLLECTIVE_TREES_H

#include "sim/collective/rings.h"

/* A tree; place 0 is its root, and edge i connects place i and its parent. */
typedef struct dl_tree {
    int size;
    dl_place *places; /* [size] */
    int *parents;     /* [size] parent of each place; -1 for the root */
    double bytes;
    int chunks;
    double *below_ns, *above_ns; /* tree.c's, [size]; NULL: not measured */
} dl_tree;

/* A binary tree over nodes that connects each node's first rank, with a chain down each node's
 * other ranks (NCCL: ncclGetDtree in src/graph/trees.cc, connectTrees in src/graph/connect.cc).
 * order[size] has the ranks node by node, at least one per node. Nodes that are inner in the first
 * of two trees are leaves of the second (`second`). Release with dl_tree_free. */
dl_tree dl_tree_over_nodes(const dl_place *order, int size, bool second, double bytes, int chunks);
void dl_tree_free(dl_tree *tree);

/* Sets sender and receiver of edge i > 0, for data sent up to the root or down from it. */
void dl_tree_edge(const dl_tree *tree, bool up, int i, dl_place *from, dl_place *to);

/* Whether the collective is an all-reduce over several nodes with the same number of ranks, at
 * least 2. */
bool dl_allreduces_over_nodes(const dl_collective_config *config);

#endif
