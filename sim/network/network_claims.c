/* Claims on links: the only user of the links computes its transfers itself, without simulating
 * each flow. */
#include "sim/network/network.h"

#include "common/alloc.h"
#include "common/status.h"
#include "common/units.h"
#include "sim/network/network_internal.h"

/* Makes room for claims on all links; new links have no claim. */
static void make_room(dl_network *network)
{
    const size_t links = (size_t)network->link_count;
    if (network->claimed_links == network->link_count) return;
    network->claim_of =
        dl_realloc(network->claim_of, links, sizeof *network->claim_of, "claims on links");
    for (int l = network->claimed_links; l < network->link_count; l++)
        network->claim_of[l] = -1;
    network->claimed_links = network->link_count;
}

static int new_claim(dl_network *network, dl_claim_fn broken, void *user)
{
    int claim = network->free_claim;
    if (claim >= 0) {
        network->free_claim = network->claims[claim].next;
    } else {
        claim = (int)network->claim_room;
        (void)DL_APPEND(network->claims, network->claim_room, "claims");
    }
    network->claims[claim] = (dl_network_claim){broken, user, -1};
    network->claim_count++;
    return claim;
}

void dl_network_break_claim(dl_network *network, int link)
{
    const int claim = link < network->claimed_links ? network->claim_of[link] : -1;
    if (claim < 0) return;
    const dl_network_claim broken = network->claims[claim];
    broken.broken(broken.user);
    DL_ASSERT(network->claim_of[link] < 0, "link %d is still claimed", link);
}

int dl_network_claim_links(dl_network *network, const int *links, int count, dl_claim_fn broken,
                           void *user)
{
    if (network->is_uncontended) return -1;
    make_room(network);
    bool used = false;
    for (int i = 0; i < count; i++) {
        if (network->claim_count > 0) dl_network_break_claim(network, links[i]);
        used |= network->users[links[i]] > 0;
    }
    if (used) return -1;
    const int claim = new_claim(network, broken, user);
    for (int i = 0; i < count; i++)
        network->claim_of[links[i]] = claim;
    return claim;
}

void dl_network_release_links(dl_network *network, int claim, const int *links, int count)
{
    for (int i = 0; i < count; i++)
        network->claim_of[links[i]] = -1;
    network->claims[claim] = (dl_network_claim){.next = network->free_claim};
    network->free_claim = claim;
    network->claim_count--;
}

int64_t dl_network_alone_ns(const dl_network *network, int class, double bytes)
{
    const dl_flow_class *c = &network->classes[class];
    if (bytes <= 0 || c->use_count == 0) return 0;
    const double ns = bytes / dl_network_alone_rate(network, c) * 1e9;
    return dl_ns_ceil(ns > 1 ? ns : 1);
}
