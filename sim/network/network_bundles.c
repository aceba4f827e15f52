/* Flow classes of a network, and their bundles. */
#include "sim/network/network_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/status.h"

double dl_network_class_cap(const dl_network *network, const dl_flow_class *c)
{
    const int own = dl_network_own_link(network, c);
    double cap = INFINITY;
    for (int u = c->first_use; u < c->first_use + c->use_count; u++) {
        const dl_use *use = &network->uses[u];
        if (dl_network_is_shared(network, use->link)) continue;
        const double flows = use->link == own ? 1 : c->flows;
        const double rate = network->capacity[use->link] / (flows * use->times);
        cap = rate < cap ? rate : cap;
    }
    return cap;
}

/* --- classes, found by their links ---------------------------------------------------------- */

static int *chain_of(const dl_network *network, uint64_t hash)
{
    return &network->chains[hash & (uint64_t)(network->class_room - 1)]; /* class_room is a power of
                                                                          * two */
}

static void put_in_chain(dl_network *network, int bundle)
{
    dl_flow_bundle *b = &network->bundles[bundle];
    int *chain = chain_of(network, b->hash);
    b->hashed = true;
    b->next = *chain;
    *chain = bundle;
}

static void grow_bundles(dl_network *network, int room)
{
    size_t n = (size_t)room;
    network->bundles = dl_realloc(network->bundles, n, sizeof *network->bundles, "flow bundles");
    network->chains = dl_realloc(network->chains, n, sizeof(int), "bundles by links");
    network->part_bundles =
        dl_realloc(network->part_bundles, n, sizeof(int), "bundles of a component");
    network->bundle_stamp =
        dl_realloc(network->bundle_stamp, n, sizeof(int64_t), "searches of bundles");
    network->is_fixed = dl_realloc(network->is_fixed, n, sizeof(bool), "bundles with a rate");
    network->emptied = dl_realloc(network->emptied, n, sizeof(int), "emptied classes");
    network->class_room = room;
    memset(network->chains, -1, n * sizeof(int));
    for (int b = 0; b < network->bundle_used; b++) {
        if (network->bundles[b].members > 0 && network->bundles[b].hashed) put_in_chain(network, b);
    }
}

static uint64_t hash_use(uint64_t hash, int link, int times)
{
    hash = (hash ^ (uint64_t)link) * 0x100000001b3; /* FNV-1a, one link at a time */
    return (hash ^ (uint64_t)times) * 0x100000001b3;
}

static uint64_t hash_class(const dl_network *network, const dl_flow_class *c)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (int u = c->first_use; u < c->first_use + c->use_count; u++)
        hash = hash_use(hash, network->uses[u].link, network->uses[u].times);
    return hash ^ hash >> 29;
}

static bool is_class(const dl_network *network, const dl_flow_class *c, const int *links,
                     const unsigned char *times, int count)
{
    if (c->use_count != count) return false;
    for (int i = 0; i < count; i++) {
        const dl_use *use = &network->uses[c->first_use + i];
        if (use->link != links[i] || use->times != times[i]) return false;
    }
    return true;
}

/* Grows the hash table, which is at most half full. */
static void grow_table(dl_network *network)
{
    int size = 64;
    while (size < 2 * (network->class_count + 1))
        size *= 2;
    free(network->table);
    network->table = dl_calloc((size_t)size, sizeof(int), "classes by links");
    network->table_size = size;
    memset(network->table, -1, (size_t)size * sizeof(int));
    for (int c = 0; c < network->class_count; c++) {
        size_t at = hash_class(network, &network->classes[c]) % (size_t)size;
        while (network->table[at] >= 0)
            at = (at + 1) % (size_t)size;
        network->table[at] = c;
    }
}

static int add_class(dl_network *network, const int *links, const unsigned char *times, int count)
{
    if (network->class_count == network->class_room) {
        int room = network->class_room ? 2 * network->class_room : 32;
        network->classes =
            dl_realloc(network->classes, (size_t)room, sizeof *network->classes, "flow classes");
        dl_ask_for_huge_pages(network->classes, (size_t)room * sizeof *network->classes);
        grow_bundles(network, room);
    }
    if (network->use_count + count > network->use_room) {
        network->use_room = 2 * network->use_room + count;
        network->uses = dl_realloc(network->uses, (size_t)network->use_room, sizeof *network->uses,
                                   "links of flow classes");
        dl_ask_for_huge_pages(network->uses, (size_t)network->use_room * sizeof *network->uses);
    }
    int class = network->class_count++;
    network->classes[class] = (dl_flow_class){
        .first_use = network->use_count, .use_count = count, .head = -1, .bundle = -1, .crowd = -1};
    for (int i = 0; i < count; i++) {
        DL_ASSERT(links[i] >= 0 && links[i] < network->link_count && times[i] >= 1,
                  "link %d of %d, %d times", links[i], network->link_count, times[i]);
        network->uses[network->use_count++] = (dl_use){links[i], class, times[i], -1, -1, -1};
    }
    return class;
}

int dl_network_class(dl_network *network, const int *links, const unsigned char *times, int count)
{
    if (2 * (network->class_count + 1) > network->table_size) grow_table(network);
    uint64_t hash = 0xcbf29ce484222325;
    for (int i = 0; i < count; i++)
        hash = hash_use(hash, links[i], times[i]);
    hash ^= hash >> 29;
    size_t at = hash % (size_t)network->table_size;
    for (; network->table[at] >= 0; at = (at + 1) % (size_t)network->table_size) {
        int class = network->table[at];
        if (is_class(network, &network->classes[class], links, times, count)) return class;
    }
    return network->table[at] = add_class(network, links, times, count);
}

int dl_network_route_class(dl_network *network, const dl_route *route)
{
    return dl_network_class(network, route->links, route->uses, route->count);
}

int dl_network_crowd(dl_network *network, const int *links, const unsigned char *times, int count,
                     int own, int own_at)
{
    int all[DL_ROUTE_MAX];
    unsigned char all_times[DL_ROUTE_MAX];
    DL_ASSERT(own_at >= 0 && own_at <= count && count < DL_ROUTE_MAX, "%d links", count);
    for (int i = 0; i < count; i++) {
        const int at = i < own_at ? i : i + 1;
        all[at] = links[i];
        all_times[at] = times[i];
    }
    all[own_at] = own;
    all_times[own_at] = 1;
    const int class = add_class(network, all, all_times, count + 1), crowd = network->crowd_count++;
    network->crowds = dl_grow(network->crowds, (size_t)crowd, sizeof *network->crowds, "crowds");
    network->crowds[crowd] = (dl_flow_crowd){.own = own, .last = -1};
    network->classes[class].crowd = crowd;
    return class;
}

/* --- the heap of classes of a bundle -------------------------------------------------------- */

void dl_network_enqueue(dl_network *network, int class)
{
    dl_flow_class *c = &network->classes[class];
    dl_flow_bundle *b = &network->bundles[c->bundle];
    const dl_flow *first = &network->flows[c->head];
    double key = first->node.key + c->base;
    if (c->crowd >= 0) key += first->bytes;
    c->node = (dl_heap_node){key, first->node.sequence, -1, -1, -1};
    b->top = dl_heap_meld(network->classes, sizeof *c, b->top, class);
}

void dl_network_dequeue(dl_network *network, int class)
{
    dl_flow_class *c = &network->classes[class];
    dl_flow_bundle *b = &network->bundles[c->bundle];
    int children = dl_heap_meld_children(network->classes, sizeof *c, class);
    if (b->top == class) {
        b->top = children;
        return;
    }
    dl_heap_node *front = &network->classes[c->node.before].node;
    if (front->child == class) {
        front->child = c->node.sibling;
    } else {
        front->sibling = c->node.sibling;
    }
    if (c->node.sibling >= 0) network->classes[c->node.sibling].node.before = c->node.before;
    b->top = dl_heap_meld(network->classes, sizeof *c, b->top, children);
}

/* --- bundles -------------------------------------------------------------------------------- */

/* The first use, at or after u, of a link that other classes use too; -1 = none. */
static int shared_use(const dl_network *network, const dl_flow_class *c, int u)
{
    for (; u < c->first_use + c->use_count; u++) {
        if (dl_network_is_shared(network, network->uses[u].link)) return u;
    }
    return -1;
}

static uint64_t hash_shared(const dl_network *network, const dl_flow_class *c)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (int u = c->first_use; (u = shared_use(network, c, u)) >= 0; u++)
        hash = hash_use(hash, network->uses[u].link, network->uses[u].times);
    return hash ^ hash >> 29;
}

static bool same_shared(const dl_network *network, const dl_flow_class *a, const dl_flow_class *b)
{
    int u = shared_use(network, a, a->first_use), v = shared_use(network, b, b->first_use);
    while (u >= 0 && v >= 0) {
        const dl_use *x = &network->uses[u], *y = &network->uses[v];
        if (x->link != y->link || x->times != y->times) return false;
        u = shared_use(network, a, u + 1);
        v = shared_use(network, b, v + 1);
    }
    return u < 0 && v < 0;
}

/* The bundle that the class can join; -1 = none. */
static int find_bundle(const dl_network *network, const dl_flow_class *c, uint64_t hash)
{
    for (int i = *chain_of(network, hash); i >= 0; i = network->bundles[i].next) {
        const dl_flow_bundle *b = &network->bundles[i];
        if (b->hash == hash && same_shared(network, &network->classes[b->first], c)) return i;
    }
    return -1;
}

static void list_use(dl_network *network, int u)
{
    dl_use *use = &network->uses[u];
    int *first = &network->first_use[use->link];
    use->bundle = network->classes[use->class].bundle;
    use->prev = -1;
    use->next = *first;
    if (*first >= 0) network->uses[*first].prev = u;
    *first = u;
}

/* Replaces use u by use `by` (-1 = none) in its link's list. */
static void replace_use(dl_network *network, int u, int by)
{
    dl_use *use = &network->uses[u];
    int next = by >= 0 ? by : use->next, prev = by >= 0 ? by : use->prev;
    if (by >= 0) {
        network->uses[by].bundle = use->bundle;
        network->uses[by].next = use->next;
        network->uses[by].prev = use->prev;
    }
    use->bundle = -1;
    if (use->next >= 0) network->uses[use->next].prev = prev;
    if (use->prev >= 0) {
        network->uses[use->prev].next = next;
    } else {
        network->first_use[use->link] = next;
    }
}

/* Removes the class's uses from the lists and inserts those of `heir` (NULL = none) in their
 * place. */
static void unlist_uses(dl_network *network, const dl_flow_class *c, const dl_flow_class *heir)
{
    int v = heir != NULL ? heir->first_use : -1;
    for (int u = c->first_use; (u = shared_use(network, c, u)) >= 0; u++) {
        if (heir != NULL) v = shared_use(network, heir, v);
        replace_use(network, u, v);
        if (heir != NULL) v++;
    }
}

/* Takes a bundle without classes, stamped as found by the current search. */
static int new_bundle(dl_network *network, uint64_t hash)
{
    int bundle = network->free_bundle;
    DL_ASSERT(bundle >= 0 || network->bundle_used < network->class_room,
              "no bundle left for %d classes", network->class_count);
    if (bundle >= 0) {
        network->free_bundle = network->bundles[bundle].next;
    } else {
        bundle = network->bundle_used++;
    }
    network->bundles[bundle] = (dl_flow_bundle){.first = -1,
                                                .top = -1,
                                                .cap = INFINITY,
                                                .since_ns = network->engine->now_ns,
                                                .event = -1,
                                                .hash = hash};
    network->bundle_stamp[bundle] = network->stamp;
    return bundle;
}

void dl_network_close(dl_network *network, int bundle)
{
    dl_flow_bundle *b = &network->bundles[bundle];
    if (!b->hashed) return;
    int *at = chain_of(network, b->hash);
    while (*at != bundle)
        at = &network->bundles[*at].next;
    *at = b->next;
    b->hashed = false;
}

static void free_bundle(dl_network *network, int bundle)
{
    dl_flow_bundle *b = &network->bundles[bundle];
    dl_network_close(network, bundle);
    if (b->event >= 0) dl_engine_cancel(network->engine, b->event);
    b->next = network->free_bundle;
    network->free_bundle = bundle;
}

/* Adds a class that is in no bundle to a bundle with the same shared links. */
static void add_member(dl_network *network, int bundle, int class)
{
    dl_flow_class *c = &network->classes[class];
    dl_flow_bundle *b = &network->bundles[bundle];
    dl_network_advance(network, b);
    c->bundle = bundle;
    c->base += b->served;
    if (b->members == 0) {
        b->first = class;
        c->next = c->prev = -1;
        for (int u = c->first_use; (u = shared_use(network, c, u)) >= 0; u++)
            list_use(network, u);
    } else { /* inserts it after the first class, whose uses stay listed */
        const dl_flow_class *first = &network->classes[b->first];
        /* A single class does not set the bundle's cap; set it now. */
        if (b->members == 1) b->cap = fmin(b->cap, dl_network_class_cap(network, first));
        c->prev = b->first;
        c->next = network->classes[b->first].next;
        if (c->next >= 0) network->classes[c->next].prev = class;
        network->classes[b->first].next = class;
    }
    b->members++;
    b->flows += c->flows;
    if (c->flows > 0) b->cap = fmin(b->cap, dl_network_class_cap(network, c));
    if (c->head >= 0) dl_network_enqueue(network, class);
}

/* Puts the class into the bundle with the same shared links; without shared links, into a new
 * one. */
static void enter(dl_network *network, int class)
{
    const dl_flow_class *c = &network->classes[class];
    if (shared_use(network, c, c->first_use) < 0) {
        add_member(network, new_bundle(network, 0), class);
        return;
    }
    uint64_t hash = hash_shared(network, c);
    int bundle = find_bundle(network, c, hash);
    if (bundle < 0) {
        bundle = new_bundle(network, hash);
        put_in_chain(network, bundle);
    }
    add_member(network, bundle, class);
}

/* Removes the class from its bundle, while its shared links are still those with which it
 * joined. */
static void leave(dl_network *network, int class)
{
    dl_flow_class *c = &network->classes[class];
    int bundle = c->bundle;
    dl_flow_bundle *b = &network->bundles[bundle];
    dl_network_advance(network, b);
    if (c->head >= 0) dl_network_dequeue(network, class);
    c->base -= b->served;
    c->bundle = -1;
    b->flows -= c->flows;
    if (b->first == class) {
        unlist_uses(network, c, c->next >= 0 ? &network->classes[c->next] : NULL);
        b->first = c->next;
    }
    if (c->next >= 0) network->classes[c->next].prev = c->prev;
    if (c->prev >= 0) network->classes[c->prev].next = c->next;
    b->members--;
    if (b->members == 0) free_bundle(network, bundle);
}

/* The class's use of the link. */
static int use_of(const dl_network *network, int class, int link)
{
    int u = network->classes[class].first_use;
    while (network->uses[u].link != link)
        u++;
    return u;
}

/* Another class now uses a link of this class. If this class is in no bundle, it enters one;
 * otherwise its bundle, which has no other class, gets this shared link and is closed. */
static void become_shared(dl_network *network, int class, int link)
{
    int bundle = network->classes[class].bundle;
    if (bundle < 0) {
        enter(network, class);
        return;
    }
    int u = use_of(network, class, link);
    if (network->uses[u].bundle >= 0) return; /* listed when it joined its bundle */
    list_use(network, u);
    dl_network_close(network, bundle);
}

static void set_busy(dl_network *network, int link)
{
    if (link >= network->watched) return;
    network->bytes_before[link] = network->bytes[link];
    network->busy_ns[link] = network->engine->now_ns;
}

void dl_network_set_idle(dl_network *network, int link)
{
    if (link >= network->watched) return;
    network->idle(network->idle_user, link, network->bytes[link] - network->bytes_before[link],
                  network->busy_ns[link], network->engine->now_ns);
}

bool dl_network_activate_alone(dl_network *network, int class)
{
    dl_flow_class *c = &network->classes[class];
    const int first = c->first_use, end = first + c->use_count;
    for (int u = first; u < end; u++) {
        if (network->users[network->uses[u].link] > 0) return false;
    }
    for (int u = first; u < end; u++) {
        network->users[network->uses[u].link] = 1;
        network->user[network->uses[u].link] = class;
        set_busy(network, network->uses[u].link);
    }
    const int bundle = new_bundle(network, 0);
    network->bundles[bundle].first = class;
    network->bundles[bundle].members = 1;
    c->bundle = bundle;
    c->base = 0;
    c->next = c->prev = -1;
    return true;
}

void dl_network_deactivate_alone(dl_network *network, int class)
{
    const dl_flow_class *c = &network->classes[class];
    for (int u = c->first_use; u < c->first_use + c->use_count; u++) {
        network->users[network->uses[u].link] = network->user[network->uses[u].link] = 0;
        dl_network_set_idle(network, network->uses[u].link);
    }
    free_bundle(network, c->bundle);
    network->bundles[c->bundle].members = 0;
    network->classes[class].bundle = -1;
}

void dl_network_activate(dl_network *network, int class)
{
    if (dl_network_activate_alone(network, class)) return;
    dl_flow_class *c = &network->classes[class];
    int first = c->first_use, end = first + c->use_count;
    bool met = false; /* some link was used by a single other class */
    for (int u = first; u < end; u++) {
        int link = network->uses[u].link, other = network->user[link];
        if (network->users[link] != 1) continue;
        met = true;
        int bundle = network->classes[other].bundle;
        if (bundle >= 0 && network->bundles[bundle].members > 1) leave(network, other);
    }
    for (int u = first; u < end; u++) {
        int link = network->uses[u].link;
        if (network->users[link]++ == 0) set_busy(network, link);
        network->user[link] ^= class;
    }
    for (int u = first; met && u < end; u++) {
        int link = network->uses[u].link;
        if (network->users[link] == 2) become_shared(network, network->user[link] ^ class, link);
    }
    c->base = 0;
    enter(network, class);
}

bool dl_network_deactivate(dl_network *network, int class)
{
    const dl_flow_class *c = &network->classes[class];
    bool last = network->bundles[c->bundle].members == 1;
    int still_used = 0;
    leave(network, class);
    for (int u = c->first_use; u < c->first_use + c->use_count; u++) {
        int link = network->uses[u].link;
        network->user[link] ^= class;
        still_used += --network->users[link] > 0;
        if (network->users[link] == 0) dl_network_set_idle(network, link);
        if (network->users[link] != 1) continue;
        /* The remaining class is alone in its bundle, as other members would use this link too. */
        int other = network->user[link];
        replace_use(network, use_of(network, other, link), -1);
        dl_network_close(network, network->classes[other].bundle);
    }
    return last && still_used > 1;
}

int dl_network_expel(dl_network *network, int class)
{
    leave(network, class);
    int bundle = new_bundle(network, 0);
    add_member(network, bundle, class);
    return bundle;
}

void dl_network_rejoin(dl_network *network, int bundle)
{
    dl_flow_bundle *b = &network->bundles[bundle];
    int class = b->first;
    b->hash = hash_shared(network, &network->classes[class]);
    int into = find_bundle(network, &network->classes[class], b->hash);
    if (into < 0) {
        put_in_chain(network, bundle);
        return;
    }
    leave(network, class);
    add_member(network, into, class);
}
