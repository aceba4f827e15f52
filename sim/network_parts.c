#include "sim/network_parts.h"

#include <math.h>

#include "common/status.h"

/* Links that would be full this close to one another are taken as full together. */
#define RELATIVE_TOLERANCE 1e-12

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

void dl_network_activate(dl_network *network, int class)
{
    dl_flow_class *c = &network->classes[class];
    c->served = c->rate = 0;
    c->since_ns = network->engine->now_ns;
    for (int u = c->first_use; u < c->first_use + c->use_count; u++) {
        dl_use *use = &network->uses[u];
        int *first = &network->first_use[use->link];
        use->prev = -1;
        use->next = *first;
        if (*first >= 0) network->uses[*first].prev = u;
        *first = u;
    }
}

void dl_network_deactivate(dl_network *network, int class)
{
    dl_flow_class *c = &network->classes[class];
    for (int u = c->first_use; u < c->first_use + c->use_count; u++) {
        const dl_use *use = &network->uses[u];
        if (use->next >= 0) network->uses[use->next].prev = use->prev;
        if (use->prev >= 0) {
            network->uses[use->prev].next = use->next;
        } else {
            network->first_use[use->link] = use->next;
        }
    }
    if (c->event >= 0) dl_engine_cancel(network->engine, c->event);
    c->event = -1;
}

static void mark_link(dl_network *network, int link)
{
    if (network->is_dirty[link]) return;
    network->is_dirty[link] = true;
    network->dirty[network->dirty_count++] = link;
}

void dl_network_mark_dirty(dl_network *network, int class)
{
    const dl_flow_class *c = &network->classes[class];
    for (int u = c->first_use; u < c->first_use + c->use_count; u++)
        mark_link(network, network->uses[u].link);
}

static void see_link(dl_network *network, int link)
{
    if (network->link_stamp[link] >= network->stamp) return;
    network->link_stamp[link] = network->stamp;
    network->part_links[network->part_link_count++] = link;
    mark_link(network, link);
}

/* Whether no other class uses the link now. */
static bool is_private(const dl_use *use)
{
    return use->next < 0 && use->prev < 0;
}

static void see_uses(dl_network *network, const dl_flow_class *c)
{
    for (int u = c->first_use; u < c->first_use + c->use_count; u++) {
        if (!is_private(&network->uses[u])) see_link(network, network->uses[u].link);
    }
}

void dl_network_find_component(dl_network *network, int link)
{
    network->part_link_count = network->part_class_count = 0;
    see_link(network, link);
    for (int i = 0; i < network->part_link_count; i++) {
        int u = network->first_use[network->part_links[i]];
        for (; u >= 0; u = network->uses[u].next) {
            int class = network->uses[u].class;
            dl_flow_class *c = &network->classes[class];
            if (c->stamp >= network->stamp) continue;
            c->stamp = network->stamp;
            network->part_classes[network->part_class_count++] = class;
            see_uses(network, c);
        }
    }
}

/* Sets left and open of the component's links, and the caps of its classes. Links that a cap stands
 * for get values of `open` that nobody reads. */
static void weigh_component(dl_network *network)
{
    for (int i = 0; i < network->part_link_count; i++) {
        int l = network->part_links[i];
        network->left[l] = network->capacity[l];
        network->open[l] = 0;
    }
    for (int i = 0; i < network->part_class_count; i++) {
        dl_flow_class *c = &network->classes[network->part_classes[i]];
        c->fixed = false;
        c->cap = INFINITY;
        for (int u = c->first_use; u < c->first_use + c->use_count; u++) {
            const dl_use *use = &network->uses[u];
            int64_t crossings = (int64_t)c->flows * use->times;
            network->open[use->link] += crossings;
            if (!is_private(use)) continue;
            c->cap = fmin(c->cap, network->capacity[use->link] / (double)crossings);
        }
    }
}

static void fix_class(dl_network *network, dl_flow_class *c, double level)
{
    c->fixed = true;
    c->rate = level;
    for (int u = c->first_use; u < c->first_use + c->use_count; u++) {
        int l = network->uses[u].link;
        int64_t crossings = (int64_t)c->flows * network->uses[u].times;
        network->open[l] -= crossings;
        network->left[l] = fmax(0, network->left[l] - level * (double)crossings);
    }
}

/* The next level at which a link is full or a class at its cap. Links without open flows leave the
 * list of count. */
static double next_level(const dl_network *network, int *links, int *count)
{
    double level = INFINITY;
    for (int i = 0; i < *count;) {
        int l = links[i];
        if (network->open[l] == 0) {
            links[i] = links[--*count];
            continue;
        }
        level = fmin(level, network->left[l] / (double)network->open[l]);
        i++;
    }
    for (int i = 0; i < network->part_class_count; i++) {
        const dl_flow_class *c = &network->classes[network->part_classes[i]];
        if (!c->fixed) level = fmin(level, c->cap);
    }
    return level;
}

/* Progressive filling: the links and caps that are reached first fix the rates of their flows, and
 * the rest of the capacity is shared among the others, until all are fixed. */
void dl_network_share(dl_network *network)
{
    weigh_component(network);
    int *links = network->part_links, count = network->part_link_count;
    for (int open = network->part_class_count; open > 0;) {
        double level = next_level(network, links, &count);
        double limit = level * (1 + RELATIVE_TOLERANCE);
        DL_ASSERT(isfinite(level), "%d classes without a limit", open);
        for (int i = 0; i < network->part_class_count; i++) {
            dl_flow_class *c = &network->classes[network->part_classes[i]];
            if (c->fixed || c->cap > limit) continue;
            fix_class(network, c, level);
            open--;
        }
        for (int i = 0; i < count; i++) {
            int l = links[i];
            if (network->open[l] == 0 || network->left[l] > limit * (double)network->open[l]) {
                continue;
            }
            for (int u = network->first_use[l]; u >= 0; u = network->uses[u].next) {
                dl_flow_class *c = &network->classes[network->uses[u].class];
                if (c->fixed) continue;
                fix_class(network, c, level);
                open--;
            }
        }
    }
}
