#include "sim/network/network_parts.h"

static bool before(const dl_flow *a, const dl_flow *b)
{
    if (a->mark < b->mark) return true;
    return !(b->mark < a->mark) && a->sequence < b->sequence;
}

/* A pairing heap: `child` is a node's first child, `next` its next sibling. */
static int meld(dl_network *network, int a, int b)
{
    if (a < 0) return b;
    if (b < 0) return a;
    if (before(&network->flows[b], &network->flows[a])) {
        int swap = a;
        a = b;
        b = swap;
    }
    network->flows[b].next = network->flows[a].child;
    network->flows[a].child = b;
    return a;
}

void dl_network_heap_push(dl_network *network, dl_flow_class *c, int flow)
{
    network->flows[flow].child = network->flows[flow].next = -1;
    c->head = meld(network, c->head, flow);
}

int dl_network_heap_pop(dl_network *network, dl_flow_class *c)
{
    dl_flow *flows = network->flows;
    int least = c->head, pairs = -1, rest = flows[least].child;
    while (rest >= 0) { /* melds the children in pairs, from the first to the last */
        int a = rest, b = flows[a].next;
        rest = b >= 0 ? flows[b].next : -1;
        flows[a].next = -1;
        if (b >= 0) flows[b].next = -1;
        int pair = meld(network, a, b);
        flows[pair].next = pairs;
        pairs = pair;
    }
    int root = -1;
    while (pairs >= 0) { /* and the pairs from the last to the first */
        int pair = pairs;
        pairs = flows[pair].next;
        flows[pair].next = -1;
        root = meld(network, root, pair);
    }
    c->head = root;
    return least;
}

static void mark_link(dl_network *network, int link)
{
    if (network->is_dirty[link]) return;
    network->is_dirty[link] = true;
    network->dirty[network->dirty_count++] = link;
}

void dl_network_mark_dirty(dl_network *network, int class)
{
    mark_link(network, network->uses[network->classes[class].first_use].link);
}

static void see_link(dl_network *network, int link)
{
    if (network->link_stamp[link] >= network->stamp) return;
    network->link_stamp[link] = network->stamp;
    network->part_links[network->part_link_count++] = link;
    mark_link(network, link);
}

static void see_bundle(dl_network *network, int bundle)
{
    dl_flow_bundle *b = &network->bundles[bundle];
    if (b->stamp >= network->stamp) return;
    b->stamp = network->stamp;
    network->part_bundles[network->part_bundle_count++] = bundle;
    const dl_flow_class *c = &network->classes[b->first];
    for (int u = c->first_use; u < c->first_use + c->use_count; u++) {
        if (network->uses[u].bundle >= 0) see_link(network, network->uses[u].link);
    }
}

void dl_network_find_component(dl_network *network, int link)
{
    network->part_link_count = network->part_bundle_count = 0;
    if (network->users[link] == 1) {
        see_bundle(network, network->classes[network->user[link]].bundle);
    } else {
        see_link(network, link);
    }
    for (int i = 0; i < network->part_link_count; i++) {
        int u = network->first_use[network->part_links[i]];
        for (; u >= 0; u = network->uses[u].next)
            see_bundle(network, network->uses[u].bundle);
    }
}
