/* Folding of equivalent lines of a collective: of eight equal rings through the GPUs and NICs of
 * each node only the first is simulated.
 *
 * The edges of all lines at one position in their order are a kind, one edge per line. The links of
 * a node are divided into classes of links that the lines use equally. Each line's time and bytes
 * are exactly those of the first if
 *
 *     all links of a class have equal capacity,
 *     the edges of a kind together cross each link of a class equally often, and
 *     each edge of a kind crosses links of the class equally often.
 *
 * The reason: while max-min fair rates are computed (sim/network/network.h) all links of a class
 * are full at the same level, which fixes all lines' edges of a kind together. In the folded
 * network a class is one link, which an edge of the first line crosses as often as the edges of all
 * lines cross each link of the class. */
#ifndef DL_SIM_COLLECTIVE_FOLD_H
#define DL_SIM_COLLECTIVE_FOLD_H

#include "sim/network/links.h"

typedef struct dl_fold {
    int lines;    /* number of lines, >= 2 */
    int nodes;    /* number of nodes; links other than those of nodes are not folded */
    int per_node; /* link numbers per node */
    int *like;    /* [per_node] first link of the link's class */
    int *size;    /* [per_node] number of links of a class, at its first link */
    int *members; /* [per_node] next link of the class, -1 = end */
} dl_fold;

/* Folds lines whose edges have the routes routes[kinds * lines], grouped by kind; each route
 * represents those between all pairs of nodes. NULL if there is only one line, if the fold would
 * not be exact, if the nodes differ, or if routes between nodes have other links than those of
 * nodes. The caller owns the result. */
dl_fold *dl_fold_make(const dl_links *links, const dl_route *routes, int kinds, int lines);
void dl_fold_free(dl_fold *fold); /* accepts NULL */

/* Changes a route of the first line to one over the folded network. */
void dl_fold_route(const dl_fold *fold, dl_route *route);

#endif
