/* What a network has beside time (network.c): bundles of classes (network_bundles.c) and their
 * shares (network_share.c). */
#ifndef DL_SIM_NETWORK_INTERNAL_H
#define DL_SIM_NETWORK_INTERNAL_H

#include "sim/network/network.h"

/* Puts a class with flows into its bundle's heap, by the mark of its first flow, and takes it out
 * again. O(1), and O(log n) amortised. */
void dl_network_enqueue(dl_network *network, int class);
void dl_network_dequeue(dl_network *network, int class);

/* Heaps are of nodes that come first in the elements of an array, `stride` bytes each; an index
 * into it stands for a heap, -1 = empty. */
static inline dl_heap_node *dl_heap_node_at(void *array, size_t stride, int i)
{
    return (dl_heap_node *)(void *)((char *)array + (size_t)i * stride);
}

/* One heap of two. O(1). */
static inline int dl_heap_meld(void *array, size_t stride, int a, int b)
{
    if (a < 0) return b;
    if (b < 0) return a;
    dl_heap_node *x = dl_heap_node_at(array, stride, a), *y = dl_heap_node_at(array, stride, b);
    if (y->key < x->key || (y->key <= x->key && y->sequence < x->sequence)) {
        dl_heap_node *node = x;
        int swap = a;
        x = y;
        y = node;
        a = b;
        b = swap;
    }
    y->sibling = x->child;
    y->before = a;
    if (x->child >= 0) dl_heap_node_at(array, stride, x->child)->before = b;
    x->child = b;
    return a;
}

/* Makes a node the root of its own heap; returns what was its next sibling. */
static inline int dl_heap_part(void *array, size_t stride, int i)
{
    dl_heap_node *node = dl_heap_node_at(array, stride, i);
    const int sibling = node->sibling;
    node->sibling = node->before = -1;
    return sibling;
}

/* One heap of all children of a node that leaves. O(log n) amortised. */
static inline int dl_heap_meld_children(void *array, size_t stride, int i)
{
    int pairs = -1, rest = dl_heap_node_at(array, stride, i)->child, root = -1;
    while (rest >= 0) { /* in pairs, from the first to the last */
        int a = rest, b = dl_heap_part(array, stride, a);
        rest = b >= 0 ? dl_heap_part(array, stride, b) : -1;
        int pair = dl_heap_meld(array, stride, a, b);
        dl_heap_node_at(array, stride, pair)->sibling = pairs;
        pairs = pair;
    }
    while (pairs >= 0) { /* and the pairs from the last to the first */
        int pair = pairs;
        pairs = dl_heap_part(array, stride, pair);
        root = dl_heap_meld(array, stride, root, pair);
    }
    return root;
}

/* Accounts for the bundle's progress up to now. */
static inline void dl_network_advance(const dl_network *network, dl_flow_bundle *b)
{
    b->served += b->rate * 1e-9 * (double)(network->engine->now_ns - b->since_ns);
    b->since_ns = network->engine->now_ns;
}

/* Enters the class, which has no flows, into a bundle, and takes it out again. Others with which it
 * alone shares a link change their bundles too, or what these share. Deactivating says whether the
 * component may have parted: no other class goes over the same links, and more than one of these is
 * still in use. */
void dl_network_activate(dl_network *network, int class);
bool dl_network_deactivate(dl_network *network, int class);

/* Does the same for a class that shares no link with others, by a shorter way. Activating returns
 * false, and does nothing, where the class is not one. */
bool dl_network_activate_alone(dl_network *network, int class);
void dl_network_deactivate_alone(dl_network *network, int class);

/* Gives one class of a larger bundle a separate bundle, and returns that. */
int dl_network_expel(dl_network *network, int class);

/* Lets no other class into the bundle. */
void dl_network_close(dl_network *network, int bundle);

/* Lets others into a bundle of one class again: joins it to the one with the same
 * links, if there is one. Both must have the same rate. */
void dl_network_rejoin(dl_network *network, int bundle);

/* Whether classes besides this one use the link now. */
static inline bool dl_network_is_shared(const dl_network *network, int link)
{
    return network->users[link] > 1;
}

/* The link of a crowd that each of its flows has to itself; -1: the class is none. */
static inline int dl_network_own_link(const dl_network *network, const dl_flow_class *c)
{
    return c->crowd >= 0 ? network->crowds[c->crowd].own : -1;
}

/* Rate that the links which the active class has to itself allow a flow of it; INFINITY = any. */
double dl_network_class_cap(const dl_network *network, const dl_flow_class *c);

/* Breaks the claim on the link, if there is one: some claim is in force. */
void dl_network_break_claim(dl_network *network, int link);

/* Sets the max-min fair rates of the component's bundles, of which there may be more and others
 * afterwards. */
void dl_network_share(dl_network *network);

/* As dl_network_share, for a bundle that is alone in its component. False if a class may be limited by
 * a link that it alone uses. */
bool dl_network_share_alone(const dl_network *network, dl_flow_bundle *b);

#endif
