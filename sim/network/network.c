#include "sim/network/network.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/status.h"
#include "common/units.h"
#include "sim/network/network_internal.h"

#define LINE_BYTES 64
_Static_assert(sizeof(void *) < 8 || sizeof(dl_flow) == LINE_BYTES,
               "a flow has a line of the cache");

void dl_network_init(dl_network *network, dl_engine *engine, int flows)
{
    DL_ASSERT(flows >= 1, "room for %d flows", flows);
    *network = (dl_network){.engine = engine,
                            .free_flow = -1,
                            .free_bundle = -1,
                            .ended = -1,
                            .ended_last = -1,
                            .free_claim = -1};
    dl_network_reserve(network, flows);
}

void dl_network_begin_timed(dl_network *network)
{
    if (network->timed++ == 0) network->timed_since_ns = network->engine->now_ns;
}

void dl_network_end_timed(dl_network *network)
{
    network->timed_ns = dl_network_timed_ns(network);
    network->timed_since_ns = network->engine->now_ns;
    network->timed--;
}

int64_t dl_network_timed_ns(const dl_network *network)
{
    const int64_t now_ns = network->engine->now_ns;
    return network->timed_ns + (network->timed > 0 ? now_ns - network->timed_since_ns : 0);
}

void dl_network_reserve(dl_network *network, int flows)
{
    if (flows <= network->flow_room) return;
    const size_t bytes = (size_t)flows * sizeof *network->flows;
    char *block = dl_calloc(bytes + LINE_BYTES, 1, "flows");
    dl_ask_for_huge_pages(block, bytes);
    dl_flow *grown = (dl_flow *)(void *)(block + (LINE_BYTES - (uintptr_t)block % LINE_BYTES));
    if (network->flow_used > 0)
        memcpy(grown, network->flows, (size_t)network->flow_used * sizeof *grown);
    free(network->flows_block);
    network->flows_block = block;
    network->flows = grown;
    network->flow_room = flows;
}

void dl_network_free(dl_network *network)
{
    free(network->capacity);
    free(network->bytes);
    free(network->bytes_before);
    free(network->busy_ns);
    free(network->first_use);
    free(network->users);
    free(network->user);
    free(network->left);
    free(network->open);
    free(network->link_stamp);
    free(network->number);
    free(network->dirty);
    free(network->is_dirty);
    free(network->part_links);
    free(network->classes);
    free(network->uses);
    free(network->bundles);
    free(network->chains);
    free(network->part_bundles);
    free(network->bundle_stamp);
    free(network->is_fixed);
    free(network->emptied);
    free(network->crowds);
    free(network->table);
    free(network->flows_block);
    free(network->claim_of);
    free(network->claims);
    *network = (dl_network){0};
}

/* Grows an array over links and zeroes the new part. Pages of unused links take no memory. */
static void *grow_zeros(void *array, size_t old, size_t room, size_t size, const char *what)
{
    if (old == 0) return dl_calloc(room, size, what);
    char *grown = dl_realloc(array, room, size, what);
    memset(grown + old * size, 0, (room - old) * size);
    return grown;
}

/* Makes room for `count` links in all arrays over links, at least doubling it. */
static void grow_links(dl_network *network, int count)
{
    if (count <= network->link_room) return;
    const size_t old = (size_t)network->link_room;
    network->link_room = count > 2 * network->link_room ? count : 2 * network->link_room;
    const size_t n = (size_t)network->link_room;
    network->capacity = dl_realloc(network->capacity, n, sizeof(double), "link capacities");
    network->first_use = dl_realloc(network->first_use, n, sizeof(int), "classes on links");
    network->bytes = grow_zeros(network->bytes, old, n, sizeof(double), "link bytes");
    network->users = grow_zeros(network->users, old, n, sizeof(int), "users of links");
    network->user = grow_zeros(network->user, old, n, sizeof(int), "users of links");
    network->left = grow_zeros(network->left, old, n, sizeof(double), "capacities left");
    network->open = grow_zeros(network->open, old, n, sizeof(int64_t), "flows on links");
    network->link_stamp = grow_zeros(network->link_stamp, old, n, sizeof(int64_t), "link stamps");
    network->number = grow_zeros(network->number, old, n, sizeof(int), "numbers of links");
    network->is_dirty = grow_zeros(network->is_dirty, old, n, sizeof(bool), "changed links");
    network->dirty = dl_realloc(network->dirty, n, sizeof(int), "changed links");
    network->part_links = dl_realloc(network->part_links, n, sizeof(int), "links of a component");
}

static void set_link(dl_network *network, int link, double capacity)
{
    DL_ASSERT(capacity > 0, "capacity %g", capacity);
    network->capacity[link] = capacity;
    network->first_use[link] = -1;
}

int dl_network_add_link(dl_network *network, double capacity)
{
    grow_links(network, network->link_count + 1);
    set_link(network, network->link_count, capacity);
    return network->link_count++;
}

void dl_network_add_links(dl_network *network, const dl_links *links)
{
    DL_ASSERT(network->link_count == 0, "%d links before the machine's", network->link_count);
    grow_links(network, links->count);
    for (int l = 0; l < links->count; l++)
        set_link(network, l, dl_links_capacity(links, l));
    network->link_count = links->count;
}

void dl_network_watch(dl_network *network, dl_link_fn idle, void *user)
{
    const size_t links = (size_t)network->link_count;
    network->idle = idle;
    network->idle_user = user;
    network->watched = network->link_count;
    network->bytes_before = dl_calloc(links, sizeof *network->bytes_before, "links");
    network->busy_ns = dl_calloc(links, sizeof *network->busy_ns, "links");
}

void dl_network_watch_end(dl_network *network)
{
    for (int l = 0; l < network->watched; l++)
        if (network->users[l] > 0) dl_network_set_idle(network, l);
}

/* --- flows of a class, and the component at hand -------------------------------------------- */

/* heap_push inserts a flow, with its mark set, into the class's heap or the crowd's list, O(1);
 * heap_pop removes the flow with the smallest mark (there must be one), O(log n) amortised. The
 * class must not be in its bundle's heap, except when a crowd with flows gets another one. */
static void heap_push(dl_network *network, dl_flow_class *c, int flow)
{
    dl_flow *flows = network->flows;
    flows[flow].node.child = flows[flow].node.sibling = flows[flow].node.before = -1;
    if (c->crowd >= 0) {
        int *last = &network->crowds[c->crowd].last;
        if (c->head < 0) {
            c->head = flow;
        } else {
            DL_ASSERT(flows[*last].bytes == flows[flow].bytes, "%g bytes among flows of %g",
                      flows[flow].bytes, flows[*last].bytes);
            flows[*last].node.sibling = flow;
        }
        *last = flow;
        return;
    }
    c->head = dl_heap_meld(flows, sizeof *flows, c->head, flow);
}

static void prefetch_flow(const dl_network *network, int flow)
{
    if (flow >= 0) __builtin_prefetch(&network->flows[flow]);
}

static int heap_pop(dl_network *network, dl_flow_class *c)
{
    const int least = c->head;
    if (c->crowd >= 0) {
        c->head = network->flows[least].node.sibling;
        if (c->head >= 0) prefetch_flow(network, network->flows[c->head].node.sibling);
        return least;
    }
    c->head = dl_heap_meld_children(network->flows, sizeof *network->flows, least);
    return least;
}

static void mark_link(dl_network *network, int link)
{
    if (network->is_dirty[link]) return;
    network->is_dirty[link] = true;
    network->dirty[network->dirty_count++] = link;
}

/* Marks that the flows on the links of an active class have changed. */
static void mark_dirty(dl_network *network, int class)
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

/* Adds a bundle that the search has not found yet. */
static void see_bundle(dl_network *network, int bundle)
{
    network->bundle_stamp[bundle] = network->stamp;
    network->part_bundles[network->part_bundle_count++] = bundle;
    const dl_flow_class *c = &network->classes[network->bundles[bundle].first];
    for (int u = c->first_use; u < c->first_use + c->use_count; u++) {
        if (network->uses[u].bundle >= 0) see_link(network, network->uses[u].link);
    }
}

/* Sets part_links and part_bundles to the component connected to `link` by active classes, and
 * stamps it. Links used by a single class connect nothing and are left out. All links found become
 * dirty, so that parts of a component that splits are found again. */
static void find_component(dl_network *network, int link)
{
    network->part_link_count = network->part_bundle_count = 0;
    if (network->users[link] == 1) {
        const int bundle = network->classes[network->user[link]].bundle;
        if (network->bundle_stamp[bundle] < network->stamp) see_bundle(network, bundle);
    } else {
        see_link(network, link);
    }
    for (int i = 0; i < network->part_link_count; i++) {
        int u = network->first_use[network->part_links[i]];
        for (; u >= 0; u = network->uses[u].next) {
            const int bundle = network->uses[u].bundle;
            if (network->bundle_stamp[bundle] < network->stamp) see_bundle(network, bundle);
        }
    }
}

/* --- time ----------------------------------------------------------------------------------- */

/* Adds the flow to the list of ended flows. */
static void end_flow(dl_network *network, int flow)
{
    const dl_flow *f = &network->flows[flow];
    const dl_flow_class *c = &network->classes[f->class];
    const int own = dl_network_own_link(network, c);
    for (int u = c->first_use; u < c->first_use + c->use_count; u++) {
        const dl_use *use = &network->uses[u];
        if (use->link != own) network->bytes[use->link] += f->bytes * use->times;
    }
    network->flows[flow].node.sibling = -1;
    if (network->ended < 0) {
        network->ended = flow;
    } else {
        network->flows[network->ended_last].node.sibling = flow;
    }
    network->ended_last = flow;
}

/* Calls `done` of ended flows. Each flow is freed before the call, which may start new ones. */
static void report_ended(dl_network *network)
{
    while (network->ended >= 0) {
        int flow = network->ended;
        dl_flow *f = &network->flows[flow];
        dl_flow ended = *f;
        network->ended = f->node.sibling;
        f->node.sibling = network->free_flow;
        network->free_flow = flow;
        network->active_flows--;
        ended.done(ended.user, ended.index);
    }
}

/* A flow that would end within 0.001 ns has ended: the event's time is rounded up, so only rounding
 * of doubles can leave a remainder. */
static bool has_ended(const dl_network *network, const dl_flow_bundle *b)
{
    double mark = network->classes[b->top].node.key;
    return mark - b->served <= b->rate * 1e-12 + mark * 1e-14;
}

/* Ends the bundle's finished flows and lists the classes that become empty. */
static void end_flows_of(dl_network *network, dl_flow_bundle *b)
{
    dl_network_advance(network, b);
    while (b->top >= 0 && has_ended(network, b)) {
        int class = b->top;
        dl_flow_class *c = &network->classes[class];
        dl_network_dequeue(network, class);
        end_flow(network, heap_pop(network, c));
        c->flows--;
        b->flows--;
        if (c->flows > 0) {
            dl_network_enqueue(network, class);
        } else {
            network->emptied[network->emptied_count++] = class;
        }
    }
}

/* Removes the empty classes from their bundles; true if a component may have split. */
static bool deactivate_emptied(dl_network *network)
{
    bool parted = false;
    for (int i = 0; i < network->emptied_count; i++)
        parted |= dl_network_deactivate(network, network->emptied[i]);
    network->emptied_count = 0;
    return parted;
}

/* Ends the finished flows of all bundles of the component; true if it may have split. */
static bool end_flows(dl_network *network)
{
    int kept = 0;
    for (int i = 0; i < network->part_bundle_count; i++)
        end_flows_of(network, &network->bundles[network->part_bundles[i]]);
    const bool parted = deactivate_emptied(network);
    for (int i = 0; i < network->part_bundle_count; i++) {
        int bundle = network->part_bundles[i];
        if (network->bundles[bundle].members > 0) network->part_bundles[kept++] = bundle;
    }
    network->part_bundle_count = kept;
    return parted;
}

static void component_event(void *user, int bundle);

/* Cancels the bundle's event, and returns the time in ns until its first flow ends. */
static double time_left_ns(dl_network *network, dl_flow_bundle *b)
{
    if (b->event >= 0) dl_engine_cancel(network->engine, b->event);
    b->event = -1;
    return (network->classes[b->top].node.key - b->served) / b->rate * 1e9;
}

/* Schedules the component's next event: the first flow of bundle `first` ends in left_ns. */
static void schedule_end(dl_network *network, int first, double left_ns)
{
    const int64_t delay_ns = dl_ns_ceil(left_ns > 1 ? left_ns : 1);
    const dl_flow *next = &network->flows[network->classes[network->bundles[first].top].head];
    const int about = network->number_of_flows > 0 ? next->index : -1;
    dl_engine_prefetch(network->engine, about);
    network->bundles[first].event =
        dl_engine_after_about(network->engine, delay_ns, component_event, network, first, about);
}

/* Schedules the next end of a flow in the component, and cancels its other events. */
static void schedule(dl_network *network)
{
    int first = -1;
    double soonest_ns = INFINITY;
    for (int i = 0; i < network->part_bundle_count; i++) {
        const int bundle = network->part_bundles[i];
        const double left_ns = time_left_ns(network, &network->bundles[bundle]);
        if (left_ns >= soonest_ns) continue;
        soonest_ns = left_ns;
        first = bundle;
    }
    schedule_end(network, first, soonest_ns);
}

static void share_and_schedule(dl_network *network)
{
    if (network->part_bundle_count == 0) return;
    dl_network_share(network);
    schedule(network);
}

/* The only bundle in the link's component; -1 if there may be others. */
static int lone_bundle(const dl_network *network, int link)
{
    if (network->users[link] == 0) return -1;
    const int bundle = network->users[link] == 1 ? network->classes[network->user[link]].bundle
                                                 : network->uses[network->first_use[link]].bundle;
    const dl_flow_class *c = &network->classes[network->bundles[bundle].first];
    for (int u = c->first_use; u < c->first_use + c->use_count; u++) {
        const dl_use *use = &network->uses[u];
        if (use->bundle >= 0 && (use->next >= 0 || use->prev >= 0)) return -1;
    }
    return bundle;
}

/* Handles a change of one link that carries a single bundle; false if work is left. */
static bool synchronize_lone(dl_network *network)
{
    const int link = network->dirty[0];
    const int bundle = network->dirty_count == 1 ? lone_bundle(network, link) : -1;
    if (bundle < 0) return false;
    dl_flow_bundle *b = &network->bundles[bundle];
    end_flows_of(network, b);
    (void)deactivate_emptied(network);
    if (b->members > 0 && !dl_network_share_alone(network, b)) {
        mark_dirty(network, b->first); /* the link may no longer be in use */
        return false;
    }
    if (b->members > 0) schedule_end(network, bundle, time_left_ns(network, b));
    return true;
}

/* Ends flows and recomputes rates in each component with a changed link. Components that may have
 * split are searched again in a second pass; those already handled carry the stamp of that pass. */
static void synchronize_all(dl_network *network)
{
    bool parted = false;
    network->stamp += 2;
    for (int i = 0; i < network->dirty_count; i++) {
        if (network->link_stamp[network->dirty[i]] >= network->stamp) continue;
        find_component(network, network->dirty[i]);
        if (end_flows(network)) {
            parted = true;
            continue;
        }
        for (int l = 0; l < network->part_link_count; l++)
            network->link_stamp[network->part_links[l]] = network->stamp + 1;
        for (int b = 0; b < network->part_bundle_count; b++)
            network->bundle_stamp[network->part_bundles[b]] = network->stamp + 1;
        share_and_schedule(network);
    }
    network->stamp++;
    for (int i = 0; parted && i < network->dirty_count; i++) {
        if (network->link_stamp[network->dirty[i]] == network->stamp) continue;
        find_component(network, network->dirty[i]);
        share_and_schedule(network);
    }
}

static void synchronize(dl_network *network)
{
    if (!synchronize_lone(network)) synchronize_all(network);
    for (int i = 0; i < network->dirty_count; i++)
        network->is_dirty[network->dirty[i]] = false;
    network->dirty_count = 0;
    report_ended(network);
}

/* Whether the bundle is one class that shares no link with others. */
static bool is_alone(const dl_network *network, const dl_flow_bundle *b)
{
    const dl_flow_class *c = &network->classes[b->first];
    if (b->members > 1) return false;
    for (int u = c->first_use; u < c->first_use + c->use_count; u++) {
        if (dl_network_is_shared(network, network->uses[u].link)) return false;
    }
    return true;
}

/* Ends the last flow of a class that shares no link with others; false if there is no such flow, or
 * if changes of other flows have to be handled too. */
static bool end_alone(dl_network *network, int bundle)
{
    dl_flow_bundle *b = &network->bundles[bundle];
    const int class = b->first;
    dl_flow_class *c = &network->classes[class];
    if (network->dirty_count > 0 || b->flows > 1 || !is_alone(network, b)) return false;
    dl_network_advance(network, b);
    if (!has_ended(network, b)) return false;
    b->top = -1;
    end_flow(network, heap_pop(network, c));
    c->flows = 0;
    dl_network_deactivate_alone(network, class);
    report_ended(network);
    return true;
}

static void component_event(void *user, int bundle)
{
    dl_network *network = user;
    network->bundles[bundle].event = -1;
    if (end_alone(network, bundle)) return;
    mark_dirty(network, network->bundles[bundle].first);
    synchronize(network);
}

static void synchronize_event(void *user, int unused DL_UNUSED)
{
    dl_network *network = user;
    network->settling_is_due = false;
    synchronize(network);
}

static void on_alone_ended(void *user, int flow)
{
    dl_network *network = user;
    end_flow(network, flow);
    report_ended(network);
}

/* Resets the byte count of a bundle that consists of one crowd when the crowd gets its second flow,
 * so that counts stay small in a crowd that is never empty. */
static void count_anew(dl_network *network, dl_flow_class *c)
{
    dl_flow_bundle *b = &network->bundles[c->bundle];
    dl_flow *f = &network->flows[c->head];
    f->node.key += c->base - b->served;
    c->base = b->served = 0;
    c->node.key = f->bytes + f->node.key;
}

/* Makes a flow of an active class move its last `bytes` from now on. */
static void put_flow(dl_network *network, int flow, double bytes)
{
    dl_flow *f = &network->flows[flow];
    dl_flow_class *c = &network->classes[f->class];
    dl_flow_bundle *b = &network->bundles[c->bundle];
    dl_network_advance(network, b);
    mark_dirty(network, f->class);
    b->flows++;
    const bool stays = c->crowd >= 0 && c->head >= 0; /* the class's first flow to end remains the
                                                       * same */
    if (stays && c->flows == 1 && b->members == 1) count_anew(network, c);
    f->node.key = b->served - c->base + (c->crowd >= 0 ? 0 : bytes);
    if (c->head >= 0 && !stays) dl_network_dequeue(network, f->class);
    heap_push(network, c, flow);
    if (!stays) dl_network_enqueue(network, f->class);
    c->flows++;
    if (b->members > 1) b->cap = fmin(b->cap, dl_network_class_cap(network, c));
}

static void settle_at_once(dl_network *network)
{
    if (network->settling_is_due) return;
    network->settling_is_due = true;
    dl_engine_after(network->engine, 0, synchronize_event, network, 0);
}

/* Breaks claims on the class's links. Owners of claims may add classes and flows, which invalidates
 * pointers to them. */
static void break_claims(dl_network *network, int class)
{
    const int first = network->classes[class].first_use;
    const int end = first + network->classes[class].use_count;
    for (int u = first; u < end; u++)
        dl_network_break_claim(network, network->uses[u].link);
}

static void start_moving(dl_network *network, int flow)
{
    const dl_flow *f = &network->flows[flow];
    if (network->classes[f->class].flows == 0) dl_network_activate(network, f->class);
    put_flow(network, flow, f->bytes);
}

/* Starts the first flow of a class that shares no link with others, and schedules its end. */
static void start_alone(dl_network *network, int flow)
{
    dl_flow *f = &network->flows[flow];
    dl_flow_class *c = &network->classes[f->class];
    dl_flow_bundle *b = &network->bundles[c->bundle];
    f->node.key = c->crowd >= 0 ? 0 : f->bytes;
    heap_push(network, c, flow);
    dl_network_enqueue(network, f->class);
    c->flows = b->flows = 1;
    b->rate = dl_network_alone_rate(network, c);
    schedule_end(network, c->bundle, f->bytes / b->rate * 1e9);
}

/* Event: the flow has waited for its delay and starts to move bytes. */
static void join(void *user, int flow)
{
    dl_network *network = user;
    const dl_flow *f = &network->flows[flow];
    const dl_flow_class *c = &network->classes[f->class];
    const int class = f->class;
    const double bytes = f->bytes;
    if (bytes <= 0 || c->use_count == 0) {
        end_flow(network, flow);
        report_ended(network);
        return;
    }
    if (network->is_uncontended) {
        const double ns = bytes * DL_NS_PER_S / dl_network_alone_rate(network, c);
        dl_engine_after(network->engine, dl_ns_ceil(ns), on_alone_ended, network, flow);
        return;
    }
    if (network->claim_count > 0) break_claims(network, class);
    if (!dl_engine_goes_on(network->engine)) {
        start_moving(network, flow);
        settle_at_once(network);
    } else if (network->classes[class].flows == 0 && dl_network_activate_alone(network, class)) {
        start_alone(network, flow);
    } else {
        start_moving(network, flow);
        synchronize(network);
    }
}

/* Takes a free flow and sets its members, without starting it. */
static int take_flow(dl_network *network, int class, double bytes, dl_event_fn done, void *user,
                     int index)
{
    int flow = network->free_flow;
    if (flow < 0 && network->flow_used < network->flow_room) {
        flow = network->flow_used++;
        network->flows[flow].node.sibling = -1;
    }
    DL_ASSERT(flow >= 0 && bytes >= 0 && class >= 0 && class < network->class_count,
              "%d of %d flows, %g bytes, class %d of %d", network->active_flows, network->flow_room,
              bytes, class, network->class_count);
    network->free_flow = network->flows[flow].node.sibling;
    network->active_flows++;
    network->flows[flow] = (dl_flow){.class = class,
                                     .bytes = bytes,
                                     .node = {.sequence = network->next_sequence++},
                                     .done = done,
                                     .user = user,
                                     .index = index};
    return flow;
}

void dl_network_start(dl_network *network, int class, double bytes, int64_t delay_ns,
                      dl_event_fn done, void *user, int index)
{
    const int flow = take_flow(network, class, bytes, done, user, index);
    dl_engine_after_about(network->engine, delay_ns, join, network, flow,
                          network->number_of_flows > 0 ? network->number_of_flows + flow : -1);
}

void dl_network_resume(dl_network *network, int class, double bytes, int64_t moved_ns,
                       dl_event_fn done, void *user, int index)
{
    const int flow = take_flow(network, class, bytes, done, user, index);
    dl_flow_class *c = &network->classes[class];
    const double rate = dl_network_alone_rate(network, c);
    const int64_t left_ns = dl_network_alone_ns(network, class, bytes) - moved_ns;
    DL_ASSERT(c->flows == 0 && left_ns >= 0, "%d flows, %lld ns left", c->flows,
              (long long)left_ns);
    dl_network_activate(network, class);
    dl_flow_bundle *b = &network->bundles[c->bundle];
    if (!is_alone(network, b)) {
        put_flow(network, flow, fmax(0, bytes - rate * 1e-9 * (double)moved_ns));
        settle_at_once(network);
        return;
    }
    b->since_ns = network->engine->now_ns - moved_ns;
    b->rate = rate;
    network->flows[flow].node.key = b->served - c->base + bytes;
    heap_push(network, c, flow);
    dl_network_enqueue(network, class);
    c->flows = b->flows = 1;
    b->event = dl_engine_after(network->engine, left_ns, component_event, network, c->bundle);
}

double dl_network_left(const dl_network *network, int flow)
{
    const dl_flow *f = &network->flows[flow];
    const dl_flow_class *c = &network->classes[f->class];
    dl_flow_bundle b = network->bundles[c->bundle];
    dl_network_advance(network, &b);
    return fmax(0, f->node.key - (b.served - c->base));
}

void dl_network_go_on(dl_network *network, int class, double bytes, double left, dl_event_fn done,
                      void *user, int index)
{
    const int flow = take_flow(network, class, bytes, done, user, index);
    if (network->classes[class].flows == 0) dl_network_activate(network, class);
    put_flow(network, flow, left);
    settle_at_once(network);
}
