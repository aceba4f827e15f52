/* Max-min fair rates of a component, bundle by bundle. */
#include <math.h>

#include "common/status.h"
#include "sim/network/network_internal.h"

/* Links whose levels differ by less than this become full together. */
#define RELATIVE_TOLERANCE 1e-12
/* A separated class rejoins its bundle when its unshared links have this relative reserve. */
#define RELATIVE_ROOM 1e-9

static double lesser(double a, double b) /* fmin without its slow NaN check */
{
    return a < b ? a : b;
}

/* State of progressive filling. Bundles not yet fixed come first in part_bundles. */
typedef struct filling {
    int links, bundles;           /* links with open flows are first in part_links */
    double link_level, cap_level; /* levels of the next full link and of the next capped bundle */
} filling;

/* Sets `left` and `open` of the component's links. The cap of a bundle is exact for one class, and
 * may be too low for several. */
static void weigh_component(dl_network *network)
{
    for (int i = 0; i < network->part_link_count; i++) {
        int l = network->part_links[i];
        network->left[l] = network->capacity[l];
        network->open[l] = 0;
    }
    for (int i = 0; i < network->part_bundle_count; i++) {
        dl_flow_bundle *b = &network->bundles[network->part_bundles[i]];
        network->is_fixed[network->part_bundles[i]] = false;
        if (b->members == 1) b->cap = dl_network_class_cap(network, &network->classes[b->first]);
        const dl_flow_class *c = &network->classes[b->first];
        for (int u = c->first_use; u < c->first_use + c->use_count; u++) {
            const dl_use *use = &network->uses[u];
            if (use->bundle >= 0) network->open[use->link] += (int64_t)b->flows * use->times;
        }
    }
}

static void fix_bundle(dl_network *network, int bundle, double level)
{
    dl_flow_bundle *b = &network->bundles[bundle];
    network->is_fixed[bundle] = true;
    b->rate = level;
    const dl_flow_class *c = &network->classes[b->first];
    for (int u = c->first_use; u < c->first_use + c->use_count; u++) {
        const dl_use *use = &network->uses[u];
        if (use->bundle < 0) continue;
        int64_t crossings = (int64_t)b->flows * use->times;
        double left = network->left[use->link] - level * (double)crossings;
        network->open[use->link] -= crossings;
        network->left[use->link] = left > 0 ? left : 0;
    }
}

static void swap_bundles(dl_network *network, int i, int j)
{
    int bundle = network->part_bundles[i];
    network->part_bundles[i] = network->part_bundles[j];
    network->part_bundles[j] = bundle;
}

/* Finds the next levels among open links and bundles. */
static void find_levels(dl_network *network, filling *f)
{
    int *links = network->part_links;
    f->link_level = f->cap_level = INFINITY;
    for (int i = 0; i < f->links;) {
        int l = links[i];
        if (network->open[l] == 0) {
            links[i] = links[--f->links];
            continue;
        }
        f->link_level = lesser(f->link_level, network->left[l] / (double)network->open[l]);
        i++;
    }
    for (int i = 0; i < f->bundles;) {
        const int bundle = network->part_bundles[i];
        if (network->is_fixed[bundle]) {
            swap_bundles(network, i, --f->bundles);
            continue;
        }
        f->cap_level = lesser(f->cap_level, network->bundles[bundle].cap);
        i++;
    }
}

/* Moves the classes whose unshared links are full at `limit` out of the bundle, except that one
 * class always stays, and makes the bundle's cap exact. */
static void split_bundle(dl_network *network, filling *f, int bundle, double limit)
{
    dl_flow_bundle *b = &network->bundles[bundle];
    b->cap = INFINITY;
    for (int class = b->first, next; class >= 0; class = next) {
        next = network->classes[class].next;
        double cap = dl_network_class_cap(network, &network->classes[class]);
        if (cap > limit || b->members == 1) {
            b->cap = lesser(b->cap, cap);
            continue;
        }
        int alone = dl_network_expel(network, class);
        network->bundles[alone].cap = cap;
        network->is_fixed[alone] = false;
        network->part_bundles[network->part_bundle_count] = alone;
        swap_bundles(network, f->bundles++, network->part_bundle_count++);
    }
}

/* Fixes the bundles that have reached their cap. Bundles of several classes are split instead, as
 * their cap may be too low; then returns true, and the levels must be found again. */
static bool fix_capped(dl_network *network, filling *f, double limit)
{
    bool split = false;
    for (int i = 0, count = f->bundles; i < count; i++) {
        const dl_flow_bundle *b = &network->bundles[network->part_bundles[i]];
        if (b->cap > limit || b->members == 1) continue;
        split_bundle(network, f, network->part_bundles[i], limit);
        split = true;
    }
    for (int i = 0; !split && i < f->bundles; i++) {
        const int bundle = network->part_bundles[i];
        const double cap = network->bundles[bundle].cap;
        if (cap <= limit) fix_bundle(network, bundle, cap);
    }
    return split;
}

/* Fixes the bundles on links that are full at `level`. */
static void fix_full(dl_network *network, const filling *f, double level)
{
    double limit = level * (1 + RELATIVE_TOLERANCE);
    for (int i = 0; i < f->links; i++) {
        int l = network->part_links[i];
        if (network->open[l] == 0 || network->left[l] > limit * (double)network->open[l]) continue;
        for (int u = network->first_use[l]; u >= 0; u = network->uses[u].next) {
            const int bundle = network->uses[u].bundle;
            if (!network->is_fixed[bundle]) fix_bundle(network, bundle, level);
        }
    }
}

/* Whether the bundle is one class limited by a link that no other class uses. */
static bool is_capped(const dl_flow_bundle *b)
{
    return b->members == 1 && b->rate >= b->cap * (1 - RELATIVE_ROOM);
}

/* Closes bundles that are at their cap. Separated classes below their cap, limited only by a shared
 * link, rejoin the bundle with the same links. */
static void rejoin_bundles(dl_network *network)
{
    int kept = 0;
    for (int i = 0; i < network->part_bundle_count; i++) {
        int bundle = network->part_bundles[i];
        if (is_capped(&network->bundles[bundle])) dl_network_close(network, bundle);
    }
    for (int i = 0; i < network->part_bundle_count; i++) {
        int bundle = network->part_bundles[i];
        const dl_flow_bundle *b = &network->bundles[bundle];
        if (!b->hashed && !is_capped(b)) dl_network_rejoin(network, bundle);
        if (b->members > 0) network->part_bundles[kept++] = bundle;
    }
    network->part_bundle_count = kept;
}

double dl_network_alone_rate(const dl_network *network, const dl_flow_class *c)
{
    double rate = INFINITY;
    for (int u = c->first_use; u < c->first_use + c->use_count; u++) {
        const dl_use *use = &network->uses[u];
        rate = lesser(rate, network->capacity[use->link] / use->times);
    }
    return rate;
}

bool dl_network_share_alone(const dl_network *network, dl_flow_bundle *b)
{
    const dl_flow_class *c = &network->classes[b->first];
    const int own = dl_network_own_link(network, c);
    double level = INFINITY;
    for (int u = c->first_use; u < c->first_use + c->use_count; u++) {
        const dl_use *use = &network->uses[u];
        if (b->members > 1 && !dl_network_is_shared(network, use->link)) continue;
        const double flows = use->link == own ? 1 : b->flows;
        level = lesser(level, network->capacity[use->link] / (flows * use->times));
    }
    if (b->members > 1 && b->cap <= level) return false;
    b->rate = level;
    return true;
}

/* Progressive filling: the links and caps that are reached first fix the rates of their flows; the
 * remaining capacity is shared among the others, until all are fixed. */
void dl_network_share(dl_network *network)
{
    if (network->part_bundle_count == 1 &&
        dl_network_share_alone(network, &network->bundles[network->part_bundles[0]])) {
        return;
    }
    weigh_component(network);
    filling f = {.links = network->part_link_count, .bundles = network->part_bundle_count};
    for (;;) {
        find_levels(network, &f);
        if (f.bundles == 0) break;
        double level = lesser(f.link_level, f.cap_level), limit = level * (1 + RELATIVE_TOLERANCE);
        DL_ASSERT(isfinite(level), "%d bundles without a limit", f.bundles);
        if (f.cap_level <= limit && fix_capped(network, &f, limit)) continue;
        if (f.link_level <= limit) fix_full(network, &f, level);
    }
    rejoin_bundles(network);
}
