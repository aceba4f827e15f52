/* The heap of classes of a bundle. */
#include "sim/network/network_parts.h"

static bool before(const dl_network *network, int a, int b)
{
    const dl_flow_class *x = &network->classes[a], *y = &network->classes[b];
    if (x->key < y->key) return true;
    return !(y->key < x->key) &&
           network->flows[x->head].sequence < network->flows[y->head].sequence;
}

/* A pairing heap: `child` is a class's first child, `sibling` its next one, `before` the one in
 * front of it or else its parent. */
static int meld(dl_network *network, int a, int b)
{
    if (a < 0) return b;
    if (b < 0) return a;
    if (before(network, b, a)) {
        int swap = a;
        a = b;
        b = swap;
    }
    dl_flow_class *parent = &network->classes[a];
    network->classes[b].sibling = parent->child;
    network->classes[b].before = a;
    if (parent->child >= 0) network->classes[parent->child].before = b;
    parent->child = b;
    return a;
}

/* A class as the root of its own heap; returns what was its next sibling. */
static int set_apart(dl_network *network, int class)
{
    dl_flow_class *c = &network->classes[class];
    int sibling = c->sibling;
    c->sibling = c->before = -1;
    return sibling;
}

/* One heap of all children of a class that leaves. */
static int meld_children(dl_network *network, int class)
{
    int pairs = -1, rest = network->classes[class].child;
    while (rest >= 0) { /* in pairs, from the first to the last */
        int a = rest, b = set_apart(network, a);
        rest = b >= 0 ? set_apart(network, b) : -1;
        int pair = meld(network, a, b);
        network->classes[pair].sibling = pairs;
        pairs = pair;
    }
    int root = -1;
    while (pairs >= 0) { /* and the pairs from the last to the first */
        int pair = pairs;
        pairs = set_apart(network, pair);
        root = meld(network, root, pair);
    }
    return root;
}

void dl_network_enqueue(dl_network *network, int class)
{
    dl_flow_class *c = &network->classes[class];
    dl_flow_bundle *b = &network->bundles[c->bundle];
    c->key = network->flows[c->head].mark + c->base;
    c->child = c->sibling = c->before = -1;
    b->top = meld(network, b->top, class);
}

void dl_network_dequeue(dl_network *network, int class)
{
    dl_flow_class *c = &network->classes[class];
    dl_flow_bundle *b = &network->bundles[c->bundle];
    int children = meld_children(network, class);
    if (b->top == class) {
        b->top = children;
        return;
    }
    dl_flow_class *front = &network->classes[c->before];
    if (front->child == class) {
        front->child = c->sibling;
    } else {
        front->sibling = c->sibling;
    }
    if (c->sibling >= 0) network->classes[c->sibling].before = c->before;
    b->top = meld(network, b->top, children);
}
