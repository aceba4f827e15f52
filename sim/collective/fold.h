/* Lines of a collective that stand for one another: of eight equal rings through the GPUs and NICs
 * of each node only the first is simulated.
 *
 * The edges of all lines at one place of their order are a kind, one of each line. The links of a
 * node fall into classes, in which lines have equal ones. Time and bytes of a line are those of all
 * lines, exactly, if
 *
 *     all links of a class have one capacity,
 *     the edges of a kind together cross each link of a class equally often, and
 *     each edge of a kind crosses links of the class equally often.
 *
 * For while max-min fair rates are filled up (sim/network/network.h) all links of a class are full
 * at the same level, which fixes all lines' edges of a kind together. In the folded network a class
 * is one link, which an edge of the first line crosses as often as the edges of all lines cross
 * each link of the class. */
#ifndef DL_SIM_COLLECTIVE_FOLD_H
#define DL_SIM_COLLECTIVE_FOLD_H

#include "sim/network/links.h"

typedef struct dl_fold {
    int lines;    /* >= 2 */
    int nodes;    /* links beyond theirs are not folded */
    int per_node; /* numbers of a node's links */
    int *like;    /* [per_node] the first link of its class */
    int *size;    /* [per_node] links of a class, at its first */
    int *members; /* [per_node] the next link of the class, -1 = end */
} dl_fold;

/* The fold of lines whose edges have the ways routes[kinds * lines], of a kind one after another;
 * each stands for those of all pairs of nodes. NULL if it is not exact, or if the nodes differ.
 * Owned by the caller. */
dl_fold *dl_fold_make(const dl_links *links, const dl_route *routes, int kinds, int lines);
void dl_fold_free(dl_fold *fold); /* NULL is fine */

/* Makes a way of the first line one over the folded network. */
void dl_fold_route(const dl_fold *fold, dl_route *route);

#endif
