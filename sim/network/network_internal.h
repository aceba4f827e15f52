/* Internal interface of the network: bundles of classes (network_bundles.c) and their rates
 * (network_share.c). Only network.c schedules events. */
#ifndef DL_SIM_NETWORK_INTERNAL_H
#define DL_SIM_NETWORK_INTERNAL_H

#include "sim/network/network.h"

/* dl_network_enqueue inserts a class with flows into its bundle's heap, keyed by the mark of its
 * first flow, in O(1). dl_network_dequeue removes it, in O(log n) amortised. */
void dl_network_enqueue(dl_network *network, int class);
void dl_network_dequeue(dl_network *network, int class);

/* Heaps over arrays: the node is the first member of each element of `stride` bytes. A heap is
 * identified by the index of its root, -1 = empty. */
static inline dl_heap_node *dl_heap_node_at(void *array, size_t stride, int i)
{
    return (dl_heap_node *)(void *)((char *)array + (size_t)i * stride);
}

/* Melds two heaps, O(1). Returns the root. */
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

/* Detaches a node from its siblings; returns its former next sibling. */
static inline int dl_heap_part(void *array, size_t stride, int i)
{
    dl_heap_node *node = dl_heap_node_at(array, stride, i);
    const int sibling = node->sibling;
    node->sibling = node->before = -1;
    return sibling;
}

/* Melds all children of a node that is being removed, O(log n) amortised. Returns the root. */
static inline int dl_heap_meld_children(void *array, size_t stride, int i)
{
    int pairs = -1, rest = dl_heap_node_at(array, stride, i)->child, root = -1;
    while (rest >= 0) { /* melds pairs, from the first to the last */
        int a = rest, b = dl_heap_part(array, stride, a);
        rest = b >= 0 ? dl_heap_part(array, stride, b) : -1;
        int pair = dl_heap_meld(array, stride, a, b);
        dl_heap_node_at(array, stride, pair)->sibling = pairs;
        pairs = pair;
    }
    while (pairs >= 0) { /* then melds the pairs, from the last to the first */
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

/* dl_network_activate puts a class, which has no flows, into a bundle; dl_network_deactivate
 * removes it. If another class thereby stops or starts being the only user of a link, its bundle,
 * or the bundle's set of shared links, changes too. dl_network_deactivate returns whether the
 * component may have split: the class was the only one of its bundle, and more than one of its
 * links is still in use. */
void dl_network_activate(dl_network *network, int class);
bool dl_network_deactivate(dl_network *network, int class);

/* Faster versions of dl_network_activate and dl_network_deactivate for a class that shares no link
 * with others. Activating returns false, without effect, if the class does share a link. */
bool dl_network_activate_alone(dl_network *network, int class);
void dl_network_deactivate_alone(dl_network *network, int class);

/* Tells the observer of a watched link (dl_network_watch) that the link is idle now. */
void dl_network_set_idle(dl_network *network, int link);

/* Moves a class out of a bundle of several classes to a new bundle, and returns its number. */
int dl_network_expel(dl_network *network, int class);

/* Closes the bundle: no other class can join. */
void dl_network_close(dl_network *network, int bundle);

/* Reopens a bundle of one class: joins it to the bundle with the same links, if there is one. Both
 * must have the same rate. */
void dl_network_rejoin(dl_network *network, int bundle);

/* Whether more than one active class uses the link. */
static inline bool dl_network_is_shared(const dl_network *network, int link)
{
    return network->users[link] > 1;
}

/* The unshared link of a crowd's flows; -1: the class is not a crowd. */
static inline int dl_network_own_link(const dl_network *network, const dl_flow_class *c)
{
    return c->crowd >= 0 ? network->crowds[c->crowd].own : -1;
}

/* Highest rate of a flow that the active class's unshared links allow; INFINITY: no limit. */
double dl_network_class_cap(const dl_network *network, const dl_flow_class *c);

/* Breaks the claim on the link, if any. At least one claim must be in force. */
void dl_network_break_claim(dl_network *network, int link);

/* Sets the max-min fair rates of the current component's bundles. May split and join bundles. */
void dl_network_share(dl_network *network);

/* As dl_network_share, for a component of one bundle. Returns false if it may be limited by a link
 * that only one class uses. */
bool dl_network_share_alone(const dl_network *network, dl_flow_bundle *b);

#endif
