/* Parts of the network that know no time (network.c does): bundles of classes (network_bundles.c)
 * and their rates (network_share.c). */
#ifndef DL_SIM_NETWORK_INTERNAL_H
#define DL_SIM_NETWORK_INTERNAL_H

#include "sim/network/network.h"

/* Inserts a class with flows into its bundle's heap, keyed by the mark of its first flow, O(1);
 * removes it, O(log n) amortised. */
void dl_network_enqueue(dl_network *network, int class);
void dl_network_dequeue(dl_network *network, int class);

/* A heap's nodes are the first member of the elements of an array, `stride` bytes each. A heap is
 * named by the index of its root, -1 = empty. */
static inline dl_heap_node *dl_heap_node_at(void *array, size_t stride, int i)
{
    return (dl_heap_node *)(void *)((char *)array + (size_t)i * stride);
}

/* Melds two heaps. O(1). */
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

/* Detaches a node as a heap of its own; returns its former next sibling. */
static inline int dl_heap_part(void *array, size_t stride, int i)
{
    dl_heap_node *node = dl_heap_node_at(array, stride, i);
    const int sibling = node->sibling;
    node->sibling = node->before = -1;
    return sibling;
}

/* Melds all children of a node that is being removed. O(log n) amortised. */
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

/* Puts a class, which has no flows, into a bundle, and takes it out again. Classes that share a
 * link with it alone change bundle, or their set of shared links, as well. Deactivating returns
 * whether the component may have split: no other class has the same links, and more than one of
 * these is still in use. */
void dl_network_activate(dl_network *network, int class);
bool dl_network_deactivate(dl_network *network, int class);

/* The same for a class that shares no link with others, by a shorter path. Activating returns
 * false, without effect, if the class does share one. */
bool dl_network_activate_alone(dl_network *network, int class);
void dl_network_deactivate_alone(dl_network *network, int class);

/* Moves one class of a bundle of several to a new bundle, and returns the new bundle's number. */
int dl_network_expel(dl_network *network, int class);

/* Lets no other class into the bundle. */
void dl_network_close(dl_network *network, int bundle);

/* Opens a bundle of one class again: joins it to the bundle with the same links, if there is one.
 * Both must have the same rate. */
void dl_network_rejoin(dl_network *network, int bundle);

/* Whether classes besides this one use the link now. */
static inline bool dl_network_is_shared(const dl_network *network, int link)
{
    return network->users[link] > 1;
}

/* The link that each flow of a crowd has to itself; -1: the class is no crowd. */
static inline int dl_network_own_link(const dl_network *network, const dl_flow_class *c)
{
    return c->crowd >= 0 ? network->crowds[c->crowd].own : -1;
}

/* Highest rate of a flow on the links that the active class has to itself; INFINITY: no limit. */
double dl_network_class_cap(const dl_network *network, const dl_flow_class *c);

/* Breaks the claim on the link, if any. Some claim must be in force. */
void dl_network_break_claim(dl_network *network, int link);

/* Sets the max-min fair rates of the component's bundles. May split and join bundles. */
void dl_network_share(dl_network *network);

/* As dl_network_share, for a component of one bundle. False if a link that one class uses alone may
 * be its limit. */
bool dl_network_share_alone(const dl_network *network, dl_flow_bundle *b);

#endif
