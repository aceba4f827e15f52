#include "sim/collective/plan_internal.h"

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
    dl_fold_free(plan->fold);
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

double dl_plan_hop_on(const dl_plan *plan, const dl_route *route)
{
    const dl_hop_costs *costs = &plan->costs;
    const double own_ns = route->leaves_node ? costs->network_hop_ns : costs->hop_ns;
    const double held_ns = route->leaves_node ? costs->network_held_ns : costs->held_ns;
    return own_ns + fmax(0, route->latency_ns - held_ns) + route->slice_ns + costs->message_ns;
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

/* Number of transfers that each transfer of the plan represents. */
static int lines(const dl_plan *plan)
{
    return plan->fold != NULL ? plan->fold->lines : 1;
}

static int class_of(const dl_plan *plan, dl_route *route)
{
    if (plan->fold != NULL) dl_fold_route(plan->fold, route);
    return dl_network_route_class(plan->network, route);
}

/* Adds the transfer's bytes to sent_bytes if they leave a domain. */
static void note_sent(dl_plan *plan, const dl_transfer *transfer)
{
    if (plan->counts_only || transfer->domain < 0) return;
    if (plan->sent_bytes == NULL) {
        plan->sent_bytes = dl_calloc((size_t)dl_machine_domains(plan->links->machine),
                                     sizeof *plan->sent_bytes, "bytes of sites");
    }
    const double frac = transfer->leaves_node ? plan->costs.network_frac : 1;
    plan->sent_bytes[transfer->domain] +=
        lines(plan) * transfer->bytes * plan->costs.bandwidth_frac * frac;
}

int dl_plan_add(dl_plan *plan, dl_place from, dl_place to, double bytes, int hops, double extra_ns)
{
    dl_route route;
    if (plan->counts_only) return plan->transfer_count++;
    dl_plan_route(plan, from, to, &route);
    const dl_machine *m = plan->links->machine;
    const int domain = dl_machine_domain(m, from.node);
    const dl_transfer transfer = {
        .leaves_node = route.leaves_node,
        .domain = domain != dl_machine_domain(m, to.node) ? domain : -1,
        .bytes = bytes / dl_plan_frac(plan, &route),
        .delay_ns = dl_ns_ceil(hops * dl_plan_hop_on(plan, &route) + extra_ns),
        .first_after = -1,
        .class = class_of(plan, &route),
    };
    note_sent(plan, &transfer);
    return add_transfer(plan, transfer);
}

int dl_plan_add_link(dl_plan *plan, int link, int both, double bytes)
{
    dl_route route = {.count = both >= 0 ? 2 : 1, .links = {link, both}, .uses = {1, 1}};
    if (plan->counts_only) return plan->transfer_count++;
    return add_transfer(plan, (dl_transfer){.class = class_of(plan, &route),
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
    DL_APPEND(plan->after, plan->after_count, "order of a plan") =
        (dl_after){later, plan->transfers[earlier].first_after};
    plan->transfers[earlier].first_after = plan->after_count - 1;
    plan->transfers[later].before_count++;
}

double dl_plan_hop_ns(const dl_plan *plan, dl_place from, dl_place to)
{
    dl_route route;
    dl_plan_route(plan, from, to, &route);
    return dl_plan_hop_on(plan, &route);
}

double dl_plan_message_ns(const dl_plan *plan, dl_place from, dl_place to, double bytes)
{
    dl_route route;
    dl_plan_route(plan, from, to, &route);
    return plan->costs.message_ns + fmax(1, ceil(bytes / DL_SLICE_BYTES)) * route.slice_ns +
           (route.leaves_node ? plan->costs.network_message_ns : 0);
}

double dl_plan_rate(const dl_plan *plan, const dl_route *route)
{
    return dl_links_route_rate(plan->links, route) * dl_plan_frac(plan, route);
}

/* Starts a transfer whose predecessors have all ended. */
static void start_transfer(dl_plan *plan, int transfer)
{
    if (plan->start_ns != NULL) plan->start_ns[transfer] = plan->network->engine->now_ns;
    dl_plan_start_in(plan, transfer, plan->transfers[transfer].delay_ns);
}

void dl_plan_start_in(dl_plan *plan, int transfer, int64_t delay_ns)
{
    const dl_transfer *t = &plan->transfers[transfer];
    if (t->class >= 0) {
        const int class = plan->classes != NULL ? plan->classes[t->class] - 1 : t->class;
        dl_network_start(plan->network, class, t->bytes, delay_ns, dl_plan_transfer_ended, plan,
                         transfer);
    } else { /* a join: an event of its own, so that a long chain of joins needs no deep stack */
        dl_engine_after(plan->network->engine, delay_ns, dl_plan_transfer_ended, plan, transfer);
    }
}

void dl_plan_transfer_ended(void *user, int transfer)
{
    dl_plan *plan = user;
    if (plan->start_ns != NULL) plan->start_ns[transfer] = DL_TRANSFER_ENDED;
    for (int a = plan->transfers[transfer].first_after; a >= 0; a = plan->after[a].next) {
        int later = plan->after[a].transfer;
        if (--plan->waiting[later] == 0) start_transfer(plan, later);
    }
    if (--plan->running == 0 && plan->done != NULL) plan->done(plan->user, plan->index);
}

void dl_plan_unfold(dl_plan *plan)
{
    const int folded = plan->transfer_count;
    if (plan->fold == NULL) return;
    dl_fold_free(plan->fold);
    free(plan->sent_bytes);
    plan->fold = NULL;
    plan->sent_bytes = NULL;
    plan->transfer_count = plan->after_count = 0;
    plan->is_whole = true;
    plan->make(plan, plan->how);
    const int more = plan->transfer_count - folded;
    dl_network_reserve(plan->network, plan->network->flow_room + more);
    dl_engine_make_room(plan->network->engine, 2 * more);
}

void dl_plan_run(dl_plan *plan, dl_event_fn done, void *user, int index)
{
    DL_ASSERT(plan->running == 0, "%d transfers still run", plan->running);
    plan->done = done;
    plan->user = user;
    plan->index = index;
    plan->running = plan->transfer_count;
    if (dl_plan_run_alone(plan)) return;
    dl_plan_unfold(plan);
    plan->running = plan->transfer_count;
    for (int t = 0; t < plan->transfer_count; t++)
        plan->waiting[t] = plan->transfers[t].before_count;
    for (int t = 0; t < plan->transfer_count; t++) {
        if (plan->transfers[t].before_count == 0) start_transfer(plan, t);
    }
}
