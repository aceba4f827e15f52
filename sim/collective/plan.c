#include "sim/collective/plan.h"

#include <math.h>
#include <stdlib.h>

#include "common/alloc.h"
#include "common/status.h"
#include "common/units.h"

void dl_plan_init(dl_plan *plan, dl_network *network, const dl_links *links,
                  const dl_hop_costs *costs)
{
    *plan = (dl_plan){.network = network, .links = links, .costs = *costs, .claim = -1};
}

void dl_plan_free(dl_plan *plan)
{
    free(plan->transfers);
    free(plan->after);
    free(plan->waiting);
    free(plan->alone.links);
    free(plan->alone.link_bytes);
    free(plan->sent_bytes);
    *plan = (dl_plan){0};
}

static int add_transfer(dl_plan *plan, dl_transfer transfer)
{
    if (plan->counts_only) return plan->transfer_count++;
    if (plan->transfer_count == plan->transfer_room) {
        plan->transfer_room = plan->transfer_room ? 2 * plan->transfer_room : 64;
        plan->transfers = dl_realloc(plan->transfers, (size_t)plan->transfer_room,
                                     sizeof *plan->transfers, "transfers of a plan");
        plan->waiting = dl_realloc(plan->waiting, (size_t)plan->transfer_room, sizeof(int),
                                   "waiting transfers");
    }
    plan->transfers[plan->transfer_count] = transfer;
    return plan->transfer_count++;
}

static double hop_ns(const dl_plan *plan, const dl_route *route)
{
    const dl_hop_costs *costs = &plan->costs;
    const double own_ns = route->leaves_node ? costs->network_hop_ns : costs->hop_ns;
    const double held_ns = route->leaves_node ? costs->network_held_ns : costs->held_ns;
    return own_ns + fmax(0, route->latency_ns - held_ns) + route->message_ns + costs->message_ns;
}

void dl_plan_route(const dl_plan *plan, dl_place from, dl_place to, dl_route *route)
{
    dl_links_route_collective(plan->links, from, to, plan->one_way, route);
}

double dl_plan_frac(const dl_plan *plan, const dl_route *route)
{
    const double frac = plan->costs.bandwidth_frac;
    return route->leaves_node ? frac * plan->costs.network_frac : frac;
}

/* The transfer's bytes leave a domain, or not. */
static void note_sent(dl_plan *plan, const dl_transfer *transfer)
{
    if (plan->counts_only || transfer->domain < 0) return;
    if (plan->sent_bytes == NULL) {
        plan->sent_bytes = dl_calloc((size_t)dl_machine_domains(plan->links->machine),
                                     sizeof *plan->sent_bytes, "bytes of sites");
    }
    const double frac = transfer->leaves_node ? plan->costs.network_frac : 1;
    plan->sent_bytes[transfer->domain] += transfer->bytes * plan->costs.bandwidth_frac * frac;
}

int dl_plan_add(dl_plan *plan, dl_place from, dl_place to, double bytes, int hops, double extra_ns)
{
    dl_route route;
    if (plan->counts_only) return plan->transfer_count++;
    dl_plan_route(plan, from, to, &route);
    const dl_machine *m = plan->links->machine;
    const int domain = dl_machine_domain(m, from.node);
    const dl_transfer transfer = {
        .class = dl_network_route_class(plan->network, &route),
        .leaves_node = route.leaves_node,
        .domain = domain != dl_machine_domain(m, to.node) ? domain : -1,
        .bytes = bytes / dl_plan_frac(plan, &route),
        .delay_ns = dl_ns_ceil(hops * hop_ns(plan, &route) + extra_ns),
        .first_after = -1,
    };
    note_sent(plan, &transfer);
    return add_transfer(plan, transfer);
}

int dl_plan_add_link(dl_plan *plan, int link, int both, double bytes)
{
    static const unsigned char once[] = {1, 1};
    const int links[] = {link, both};
    int class = dl_network_class(plan->network, links, once, both >= 0 ? 2 : 1);
    return add_transfer(plan, (dl_transfer){.class = class,
                                            .domain = -1,
                                            .bytes = bytes / plan->costs.bandwidth_frac,
                                            .first_after = -1});
}

int dl_plan_repeat(dl_plan *plan, int transfer)
{
    if (plan->counts_only) return plan->transfer_count++;
    dl_transfer t = plan->transfers[transfer];
    t.before_count = 0;
    t.first_after = -1;
    note_sent(plan, &t);
    return add_transfer(plan, t);
}

int dl_plan_join(dl_plan *plan)
{
    return dl_plan_wait(plan, 0);
}

int dl_plan_wait(dl_plan *plan, double delay_ns)
{
    return add_transfer(
        plan, (dl_transfer){
                  .class = -1, .domain = -1, .delay_ns = dl_ns_ceil(delay_ns), .first_after = -1});
}

int dl_plan_add_chunk(dl_plan *plan, dl_place from, dl_place to, double bytes, int before)
{
    int64_t hop = dl_ns_ceil(dl_plan_hop_ns(plan, from, to));
    int wait = add_transfer(
        plan, (dl_transfer){.class = -1, .domain = -1, .delay_ns = hop, .first_after = -1});
    int chunk = dl_plan_add(plan, from, to, bytes, 0, 0);
    dl_plan_order(plan, wait, chunk);
    dl_plan_order(plan, before, chunk);
    return chunk;
}

void dl_plan_order(dl_plan *plan, int earlier, int later)
{
    if (earlier < 0 || plan->counts_only) return;
    if (plan->after_count == plan->after_room) {
        plan->after_room = plan->after_room ? 2 * plan->after_room : 64;
        plan->after = dl_realloc(plan->after, (size_t)plan->after_room, sizeof *plan->after,
                                 "order of a plan");
    }
    plan->after[plan->after_count] = (dl_after){later, plan->transfers[earlier].first_after};
    plan->transfers[earlier].first_after = plan->after_count++;
    plan->transfers[later].before_count++;
}

double dl_plan_hop_ns(const dl_plan *plan, dl_place from, dl_place to)
{
    dl_route route;
    dl_plan_route(plan, from, to, &route);
    return hop_ns(plan, &route);
}

double dl_plan_message_ns(const dl_plan *plan, dl_place from, dl_place to)
{
    dl_route route;
    dl_plan_route(plan, from, to, &route);
    return plan->costs.message_ns + route.message_ns +
           (route.leaves_node ? plan->costs.network_message_ns : 0);
}

double dl_plan_rate(const dl_plan *plan, dl_place from, dl_place to)
{
    dl_route route;
    dl_plan_route(plan, from, to, &route);
    return dl_links_route_rate(plan->links, &route) * dl_plan_frac(plan, &route);
}

static void transfer_ended(void *user, int transfer);

/* A join has a separate event, so that a long chain of them needs no deep stack. */
static void start_transfer(dl_plan *plan, int transfer)
{
    const dl_transfer *t = &plan->transfers[transfer];
    if (t->class >= 0) {
        dl_network_start(plan->network, t->class, t->bytes, t->delay_ns, transfer_ended, plan,
                         transfer);
    } else {
        dl_engine_after(plan->network->engine, t->delay_ns, transfer_ended, plan, transfer);
    }
}

static void transfer_ended(void *user, int transfer)
{
    dl_plan *plan = user;
    for (int a = plan->transfers[transfer].first_after; a >= 0; a = plan->after[a].next) {
        int later = plan->after[a].transfer;
        if (--plan->waiting[later] == 0) start_transfer(plan, later);
    }
    if (--plan->running == 0 && plan->done != NULL) plan->done(plan->user, plan->index);
}

/* --- alone on its links ---------------------------------------------------------------------- */

/* A walk over the transfers of a run that has its links to itself, each after all of those before
 * it. */
typedef struct walk {
    int *order;        /* [transfers] the first `found` of them */
    int64_t *start_ns; /* [transfers] from the run's start, of those in order */
    int found;
} walk;

static void start_walk(walk *w, dl_plan *plan)
{
    const size_t count = (size_t)plan->transfer_count;
    *w = (walk){.order = dl_calloc(count, sizeof *w->order, "order of transfers"),
                .start_ns = dl_calloc(count, sizeof *w->start_ns, "starts of transfers")};
    for (int t = 0; t < plan->transfer_count; t++) {
        plan->waiting[t] = plan->transfers[t].before_count;
        if (plan->waiting[t] == 0) w->order[w->found++] = t;
    }
}

static void free_walk(walk *w)
{
    free(w->order);
    free(w->start_ns);
}

/* The transfer ends then: those that have waited for it only, or for it last, come next. */
static void walk_past(walk *w, dl_plan *plan, int transfer, int64_t end_ns)
{
    for (int a = plan->transfers[transfer].first_after; a >= 0; a = plan->after[a].next) {
        const int later = plan->after[a].transfer;
        if (end_ns > w->start_ns[later]) w->start_ns[later] = end_ns;
        if (--plan->waiting[later] == 0) w->order[w->found++] = later;
    }
}

/* From the start of its bytes on. */
static int64_t moving_ns(const dl_plan *plan, const dl_transfer *t)
{
    return t->class >= 0 ? dl_network_alone_ns(plan->network, t->class, t->bytes) : 0;
}

static bool moves_bytes(const dl_transfer *t)
{
    return t->class >= 0 && t->bytes > 0;
}

static bool comes_after(const dl_plan *plan, int transfer, int earlier)
{
    int a = plan->transfers[earlier].first_after;
    while (a >= 0 && plan->after[a].transfer != transfer)
        a = plan->after[a].next;
    return a >= 0;
}

/* The last transfer of a class, or over a link, while walking. */
typedef struct last_use {
    int64_t end_ns;
    int transfer;    /* + 1; 0 = there was none */
    bool is_counted; /* a class, in most_per_s of its links */
} last_use;

/* Zero where no transfer has come to, so that those pages take no memory. */
typedef struct uses {
    last_use *classes;  /* [class_count] of the network */
    last_use *links;    /* [link_count] only of those that most_per_s is too much for */
    double *most_per_s; /* [link_count] bytes, while all classes are as fast as their links allow */
    int *number;        /* [link_count] in dl_plan_alone, + 1; 0 = none */
} uses;

/* Rounding of sums of rates. */
#define RELATIVE_TOLERANCE 1e-12

/* Sums up what the plan's classes, one transfer of each at a time, can ask of each link: one that
 * has more limits none of them, however many share it. */
static void start_uses(uses *u, const dl_plan *plan)
{
    const dl_network *network = plan->network;
    const size_t links = (size_t)network->link_count;
    u->classes = dl_calloc((size_t)network->class_count, sizeof *u->classes, "last transfers");
    u->links = dl_calloc(links, sizeof *u->links, "last transfers");
    u->most_per_s = dl_calloc(links, sizeof *u->most_per_s, "rates of links");
    u->number = dl_calloc(links, sizeof *u->number, "links of a plan");
    for (int t = 0; t < plan->transfer_count; t++) {
        const int class = plan->transfers[t].class;
        if (!moves_bytes(&plan->transfers[t]) || u->classes[class].is_counted) continue;
        const dl_flow_class *c = &network->classes[class];
        u->classes[class].is_counted = true;
        if (c->use_count == 0) continue;
        const double rate = dl_network_alone_rate(network, c);
        for (int i = c->first_use; i < c->first_use + c->use_count; i++)
            u->most_per_s[network->uses[i].link] += rate * network->uses[i].times;
    }
}

static void free_uses(uses *u)
{
    free(u->classes);
    free(u->links);
    free(u->most_per_s);
    free(u->number);
}

/* Whether the last transfer has ended when this one starts to move bytes. One that ends at that
 * very ns is out of the way only if this one has waited for it. */
static bool is_over(const dl_plan *plan, const last_use *last, int transfer, int64_t join_ns)
{
    if (last->transfer == 0 || join_ns > last->end_ns) return true;
    return join_ns == last->end_ns && comes_after(plan, transfer, last->transfer - 1);
}

static void count_link(dl_plan_alone *alone, int *number, int link, double bytes)
{
    if (*number == 0) {
        size_t links = (size_t)alone->link_count, same = links;
        *number = ++alone->link_count;
        DL_APPEND(alone->links, links, "links of a plan") = link;
        DL_APPEND(alone->link_bytes, same, "bytes on links of a plan") = 0;
    }
    alone->link_bytes[*number - 1] += bytes;
}

/* Enters the transfer's use of its links; false if another one limits it. */
static bool use_links(dl_plan *plan, uses *u, int transfer, int64_t join_ns, int64_t end_ns)
{
    const dl_transfer *t = &plan->transfers[transfer];
    const dl_flow_class *c = &plan->network->classes[t->class];
    bool possible = is_over(plan, &u->classes[t->class], transfer, join_ns);
    u->classes[t->class].transfer = transfer + 1;
    u->classes[t->class].end_ns = end_ns;
    for (int i = c->first_use; i < c->first_use + c->use_count; i++) {
        const dl_use *use = &plan->network->uses[i];
        const double most = plan->network->capacity[use->link] * (1 + RELATIVE_TOLERANCE);
        count_link(&plan->alone, &u->number[use->link], use->link, t->bytes * use->times);
        if (u->most_per_s[use->link] <= most) continue;
        possible &= is_over(plan, &u->links[use->link], transfer, join_ns);
        u->links[use->link].transfer = transfer + 1;
        u->links[use->link].end_ns = end_ns;
    }
    return possible;
}

/* Works out what a run takes on links that nobody else uses. */
static void find_alone(dl_plan *plan)
{
    uses u;
    walk w;
    start_uses(&u, plan);
    start_walk(&w, plan);
    plan->alone.is_known = plan->alone.is_possible = true;
    for (int i = 0; i < w.found && plan->alone.is_possible; i++) {
        const int t = w.order[i];
        const dl_transfer *transfer = &plan->transfers[t];
        const int64_t join_ns = w.start_ns[t] + transfer->delay_ns;
        const int64_t end_ns = join_ns + moving_ns(plan, transfer);
        if (moves_bytes(transfer)) {
            plan->alone.is_possible = use_links(plan, &u, t, join_ns, end_ns);
        }
        if (end_ns > plan->alone.time_ns) plan->alone.time_ns = end_ns;
        walk_past(&w, plan, t, end_ns);
    }
    free_walk(&w);
    free_uses(&u);
}

void dl_plan_prepare(dl_plan *plan)
{
    if (!plan->network->is_uncontended && !plan->alone.is_known) find_alone(plan);
}

static void release_links(dl_plan *plan)
{
    dl_network_release_links(plan->network, plan->claim, plan->alone.links, plan->alone.link_count);
    plan->claim = -1;
}

static void on_alone_ended(void *user, int unused)
{
    (void)unused;
    dl_plan *plan = user;
    release_links(plan);
    for (int l = 0; l < plan->alone.link_count; l++)
        plan->network->bytes[plan->alone.links[l]] += plan->alone.link_bytes[l];
    plan->running = 0;
    if (plan->done != NULL) plan->done(plan->user, plan->index);
}

/* A transfer that has started and not ended, `passed_ns` after its start. */
static void resume_transfer(dl_plan *plan, int transfer, int64_t passed_ns)
{
    const dl_transfer *t = &plan->transfers[transfer];
    dl_network *network = plan->network;
    const int64_t delay_ns = t->delay_ns - passed_ns;
    if (t->class < 0) {
        dl_engine_after(network->engine, delay_ns, transfer_ended, plan, transfer);
    } else if (delay_ns > 0 || !moves_bytes(t)) {
        dl_network_start(network, t->class, t->bytes, delay_ns, transfer_ended, plan, transfer);
    } else {
        dl_network_resume(network, t->class, t->bytes, -delay_ns, transfer_ended, plan, transfer);
    }
}

/* Counts the bytes of a transfer that has ended. */
static void count_bytes(dl_plan *plan, const dl_transfer *t)
{
    if (!moves_bytes(t)) return;
    const dl_flow_class *c = &plan->network->classes[t->class];
    for (int u = c->first_use; u < c->first_use + c->use_count; u++) {
        const dl_use *use = &plan->network->uses[u];
        plan->network->bytes[use->link] += t->bytes * use->times;
    }
}

/* Others come to the links: goes on transfer by transfer. What ends at this very ns does so
 * there. */
static void on_claim_broken(void *user)
{
    dl_plan *plan = user;
    const int64_t now_ns = plan->network->engine->now_ns - plan->since_ns;
    walk w;
    dl_engine_cancel(plan->network->engine, plan->event);
    release_links(plan);
    start_walk(&w, plan);
    for (int i = 0; i < w.found; i++) {
        const int t = w.order[i];
        const dl_transfer *transfer = &plan->transfers[t];
        const int64_t end_ns = w.start_ns[t] + transfer->delay_ns + moving_ns(plan, transfer);
        if (end_ns < now_ns) {
            count_bytes(plan, transfer);
            plan->running--;
            walk_past(&w, plan, t, end_ns);
        } else {
            resume_transfer(plan, t, now_ns - w.start_ns[t]);
        }
    }
    free_walk(&w);
}

/* Runs as one event, if that is possible. */
static bool run_alone(dl_plan *plan)
{
    dl_plan_alone *alone = &plan->alone;
    if (plan->is_apart || plan->network->is_uncontended) return false;
    dl_plan_prepare(plan);
    if (!alone->is_possible) return false;
    plan->claim = dl_network_claim_links(plan->network, alone->links, alone->link_count,
                                         on_claim_broken, plan);
    if (plan->claim < 0) return false;
    plan->since_ns = plan->network->engine->now_ns;
    plan->event = dl_engine_after(plan->network->engine, alone->time_ns, on_alone_ended, plan, 0);
    return true;
}

void dl_plan_run(dl_plan *plan, dl_event_fn done, void *user, int index)
{
    DL_ASSERT(plan->running == 0, "%d transfers still run", plan->running);
    plan->done = done;
    plan->user = user;
    plan->index = index;
    plan->running = plan->transfer_count;
    if (run_alone(plan)) return;
    for (int t = 0; t < plan->transfer_count; t++)
        plan->waiting[t] = plan->transfers[t].before_count;
    for (int t = 0; t < plan->transfer_count; t++) {
        if (plan->transfers[t].before_count == 0) start_transfer(plan, t);
    }
}
