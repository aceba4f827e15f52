/* Runs a plan that has its links to itself as one event, and continues it transfer by transfer when
 * other flows enter its links. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/units.h"
#include "sim/collective/plan_internal.h"

/* --- no two transfers limit each other -------------------------------------------------------- */

/* A walk over the transfers of a run that has its links to itself, in dependency order. */
typedef struct walk {
    int *order;        /* [transfers] the first `found` are valid */
    int64_t *start_ns; /* [transfers] relative to the run's start; valid for those in `order` */
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

/* Ends the transfer at end_ns: transfers that waited only for it are next. */
static void walk_past(walk *w, dl_plan *plan, int transfer, int64_t end_ns)
{
    for (int a = plan->transfers[transfer].first_after; a >= 0; a = plan->after[a].next) {
        const int later = plan->after[a].transfer;
        if (end_ns > w->start_ns[later]) w->start_ns[later] = end_ns;
        if (--plan->waiting[later] == 0) w->order[w->found++] = later;
    }
}

/* Time in ns for which the transfer moves bytes, without its delay. */
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

/* The latest transfer of a class, or over a link, during a walk. */
typedef struct last_use {
    int64_t end_ns;
    int transfer;    /* number of the transfer, + 1; 0: none */
    bool is_counted; /* for a class: it is included in most_per_s of its links */
} last_use;

typedef struct link_use {
    last_use last;     /* used only if most_per_s exceeds the capacity */
    double most_per_s; /* bytes per second with all classes at the full rate of their links */
    int link;
    int number; /* index of the link in dl_plan_alone, + 1; 0 = none */
} link_use;

typedef struct uses {
    last_use *classes; /* [class_count of the network] zero until a transfer uses the class */
    link_use *links;   /* [link_count] at the network's number[link] - 1; the network has far more
                        * links */
    int link_count;
} uses;

/* Tolerance for rounding of sums of rates. */
#define RELATIVE_TOLERANCE 1e-12

/* Sums for each link the highest rates of the plan's classes that cross it, with one transfer per
 * class at a time: a link with at least this capacity limits no transfer. */
static void start_uses(uses *u, const dl_plan *plan)
{
    const dl_network *network = plan->network;
    int64_t room = 0;
    for (int t = 0; t < plan->transfer_count && room < network->link_count; t++)
        if (moves_bytes(&plan->transfers[t]))
            room += network->classes[plan->transfers[t].class].use_count;
    if (room > network->link_count) room = network->link_count;
    *u = (uses){.classes =
                    dl_calloc((size_t)network->class_count, sizeof *u->classes, "last transfers"),
                .links = dl_calloc((size_t)room, sizeof *u->links, "last transfers")};
    for (int t = 0; t < plan->transfer_count; t++) {
        const int class = plan->transfers[t].class;
        if (!moves_bytes(&plan->transfers[t]) || u->classes[class].is_counted) continue;
        const dl_flow_class *c = &network->classes[class];
        u->classes[class].is_counted = true;
        if (c->use_count == 0) continue;
        const double rate = dl_network_alone_rate(network, c);
        for (int i = c->first_use; i < c->first_use + c->use_count; i++) {
            int *number = &network->number[network->uses[i].link];
            if (*number == 0) {
                u->links[u->link_count].link = network->uses[i].link;
                *number = ++u->link_count;
            }
            u->links[*number - 1].most_per_s += rate * network->uses[i].times;
        }
    }
}

static void free_uses(uses *u, const dl_network *network)
{
    for (int i = 0; i < u->link_count; i++)
        network->number[u->links[i].link] = 0;
    free(u->classes);
    free(u->links);
}

/* Whether the latest transfer of the link or class has ended when this one starts to move bytes. A
 * transfer that ends in the same ns has ended only if this one waited for it. */
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

/* Records that the transfer uses its links; false if another transfer limits it. */
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
        link_use *link = &u->links[plan->network->number[use->link] - 1];
        count_link(&plan->alone, &link->number, use->link, t->bytes * use->times);
        if (link->most_per_s <= most) continue;
        possible &= is_over(plan, &link->last, transfer, join_ns);
        link->last.transfer = transfer + 1;
        link->last.end_ns = end_ns;
    }
    return possible;
}

/* Computes the run's time by a walk; false if two transfers limit each other. */
static bool walk_alone(dl_plan *plan)
{
    uses u;
    walk w;
    bool possible = true;
    start_uses(&u, plan);
    start_walk(&w, plan);
    for (int i = 0; i < w.found && possible; i++) {
        const int t = w.order[i];
        const dl_transfer *transfer = &plan->transfers[t];
        const int64_t join_ns = w.start_ns[t] + transfer->delay_ns;
        const int64_t end_ns = join_ns + moving_ns(plan, transfer);
        if (moves_bytes(transfer)) {
            possible = use_links(plan, &u, t, join_ns, end_ns);
        }
        if (end_ns > plan->alone.time_ns) plan->alone.time_ns = end_ns;
        walk_past(&w, plan, t, end_ns);
    }
    free_walk(&w);
    free_uses(&u, plan->network);
    return possible;
}

/* --- on a separate network ------------------------------------------------------------------- */

/* A copy of the plan on a separate network with only the links that it uses. */
typedef struct trial {
    dl_engine engine;
    dl_network network;
    dl_plan plan;
    int *links; /* [link_count of the network] link numbers in the plan's network */
} trial;

/* Numbers in the trial's network, + 1, by numbers in the plan's network; 0 = none yet. */
typedef struct numbers {
    int *links, *classes;
} numbers;

static int add_class(trial *t, const dl_network *from, int class, numbers *n)
{
    const dl_flow_class *c = &from->classes[class];
    int links[DL_ROUTE_MAX];
    unsigned char times[DL_ROUTE_MAX];
    for (int i = 0; i < c->use_count; i++) {
        const dl_use *use = &from->uses[c->first_use + i];
        if (n->links[use->link] == 0) {
            size_t count = (size_t)t->network.link_count;
            DL_APPEND(t->links, count, "links of a plan") = use->link;
            n->links[use->link] = dl_network_add_link(&t->network, from->capacity[use->link]) + 1;
        }
        links[i] = n->links[use->link] - 1;
        times[i] = (unsigned char)use->times;
    }
    return dl_network_class(&t->network, links, times, c->use_count);
}

static void start_trial(trial *t, const dl_plan *plan)
{
    const size_t count = (size_t)plan->transfer_count;
    numbers n = {dl_calloc((size_t)plan->network->link_count, sizeof *n.links, "links"),
                 dl_calloc((size_t)plan->network->class_count, sizeof *n.classes, "classes")};
    *t = (trial){.plan = *plan};
    dl_engine_init(&t->engine, 2 * plan->transfer_count + 3);
    dl_network_init(&t->network, &t->engine, plan->transfer_count);
    t->plan.network = &t->network;
    t->plan.is_apart = true;
    t->plan.fold = NULL; /* runs without unfolding */
    t->plan.classes = n.classes;
    t->plan.waiting = dl_calloc(count, sizeof *t->plan.waiting, "waiting transfers");
    t->plan.start_ns = dl_calloc(count, sizeof *t->plan.start_ns, "starts of transfers");
    for (size_t i = 0; i < count; i++) {
        const int class = plan->transfers[i].class;
        t->plan.start_ns[i] = DL_TRANSFER_WAITS;
        if (class >= 0 && n.classes[class] == 0)
            n.classes[class] = add_class(t, plan->network, class, &n) + 1;
    }
    free(n.links);
}

static void free_trial(trial *t)
{
    free(t->plan.classes);
    free(t->plan.waiting);
    free(t->plan.start_ns);
    free(t->links);
    dl_network_free(&t->network);
    dl_engine_free(&t->engine);
}

/* Records the bytes of a link, and of the links that it represents. */
static void note_class(dl_plan *plan, int link, double bytes)
{
    const dl_fold *fold = plan->fold;
    const int local = fold != NULL ? link % fold->per_node : 0;
    for (int l = local; l >= 0; l = fold != NULL ? fold->members[l] : -1) {
        size_t links = (size_t)plan->alone.link_count, same = links;
        DL_APPEND(plan->alone.links, links, "links of a plan") = link - local + l;
        DL_APPEND(plan->alone.link_bytes, same, "bytes on links of a plan") = bytes;
        plan->alone.link_count++;
    }
}

static void mix(dl_plan_key *key, uint64_t value)
{
    key->a = (key->a ^ value) * 0x9e3779b97f4a7c15;
    key->a ^= key->a >> 32;
    key->b = (key->b + value) * 0xc2b2ae3d27d4eb4f;
    key->b ^= key->b >> 29;
}

static void mix_number(dl_plan_key *key, double number)
{
    uint64_t bits;
    memcpy(&bits, &number, sizeof bits);
    mix(key, bits);
}

/* Hashes the links' capacities, the classes over them, the transfers and their order. */
static dl_plan_key key_of(const trial *t)
{
    const dl_plan *plan = &t->plan;
    dl_plan_key key = {(uint64_t)plan->transfer_count, (uint64_t)plan->after_count};
    for (int l = 0; l < t->network.link_count; l++)
        mix_number(&key, t->network.capacity[l]);
    for (int c = 0; c < t->network.class_count; c++) {
        const dl_flow_class *class = &t->network.classes[c];
        mix(&key, (uint64_t) class->use_count);
        for (int u = class->first_use; u < class->first_use + class->use_count; u++)
            mix(&key, (uint64_t)t->network.uses[u].link << 32 | (uint64_t)t->network.uses[u].times);
    }
    for (int i = 0; i < plan->transfer_count; i++) {
        const dl_transfer *of = &plan->transfers[i];
        mix(&key, of->class >= 0 ? (uint64_t)plan->classes[of->class] : 0);
        mix(&key, (uint64_t)of->delay_ns);
        mix_number(&key, of->bytes);
        mix(&key, (uint64_t)(uint32_t)of->before_count << 32 | (uint32_t)of->first_after);
    }
    for (int a = 0; a < plan->after_count; a++)
        mix(&key,
            (uint64_t)(uint32_t)plan->after[a].transfer << 32 | (uint32_t)plan->after[a].next);
    return key;
}

/* Runs the plan on a separate network; false if it exceeds the clock's range. */
static bool try_alone(dl_plan *plan)
{
    trial t;
    start_trial(&t, plan);
    const dl_plan_key key = key_of(&t);
    const int links = t.network.link_count;
    int64_t *time_ns = &plan->alone.time_ns;
    if (!dl_plan_recall(key, time_ns, t.network.bytes, links)) {
        t.plan.running = 0;
        dl_plan_run(&t.plan, NULL, NULL, 0);
        dl_engine_run(&t.engine);
        *time_ns = t.engine.too_long ? DL_NS_MAX : t.engine.now_ns;
        dl_plan_remember(key, *time_ns, t.network.bytes, links);
    }
    plan->alone.link_count = 0;
    for (int l = 0; l < links; l++)
        note_class(plan, t.links[l], t.network.bytes[l]);
    free_trial(&t);
    return *time_ns < DL_NS_MAX;
}

static void stop(void *user, int unused DL_UNUSED)
{
    dl_engine *engine = user;
    engine->stopped = true;
}

/* Moves the flows of the trial to the plan's network, `passed_ns` after the run's start. */
static void hand_over(dl_plan *plan, const trial *t, int64_t passed_ns)
{
    for (int f = 0; f < t->network.flow_used; f++) {
        const int transfer = t->network.flows[f].index;
        const dl_transfer *of = &plan->transfers[transfer];
        int64_t *start_ns = &t->plan.start_ns[transfer];
        if (*start_ns < 0 || !moves_bytes(of) || *start_ns + of->delay_ns >= passed_ns) continue;
        dl_network_go_on(plan->network, of->class, of->bytes, dl_network_left(&t->network, f),
                         dl_plan_transfer_ended, plan, transfer);
        *start_ns = DL_TRANSFER_ENDED; /* so that the next loop skips it */
    }
    for (int i = 0; i < plan->transfer_count; i++) {
        plan->waiting[i] = t->plan.waiting[i];
        if (t->plan.start_ns[i] < 0) continue;
        dl_plan_start_in(plan, i, plan->transfers[i].delay_ns - (passed_ns - t->plan.start_ns[i]));
    }
}

/* Runs the plan on a separate network up to `passed_ns`, excluding events at that time, and
 * continues from there. */
static void go_on_from_trial(dl_plan *plan, int64_t passed_ns)
{
    trial t;
    start_trial(&t, plan);
    t.plan.running = 0;
    dl_engine_after(&t.engine, passed_ns, stop, &t.engine, 0); /* before all other events at that
                                                                * time */
    dl_plan_run(&t.plan, NULL, NULL, 0);
    dl_engine_run(&t.engine);
    for (int l = 0; l < t.network.link_count; l++)
        plan->network->bytes[t.links[l]] += t.network.bytes[l];
    plan->running = t.plan.running;
    hand_over(plan, &t, passed_ns);
    free_trial(&t);
}

/* --- as one event ---------------------------------------------------------------------------- */

void dl_plan_prepare(dl_plan *plan)
{
    dl_plan_alone *alone = &plan->alone;
    if (plan->network->is_uncontended || alone->is_known) return;
    alone->is_known = true;
    alone->is_apart = plan->fold == NULL && walk_alone(plan);
    alone->is_possible = alone->is_apart || try_alone(plan);
}

static void release_links(dl_plan *plan)
{
    dl_network_release_links(plan->network, plan->claim, plan->alone.links, plan->alone.link_count);
    plan->claim = -1;
}

static void on_alone_ended(void *user, int unused DL_UNUSED)
{
    dl_plan *plan = user;
    release_links(plan);
    plan->kept++;
    for (int l = 0; l < plan->alone.link_count; l++)
        plan->network->bytes[plan->alone.links[l]] += plan->alone.link_bytes[l];
    plan->running = 0;
    if (plan->done != NULL) plan->done(plan->user, plan->index);
}

/* Resumes a transfer that has started and not ended, `passed_ns` after its start. */
static void resume_transfer(dl_plan *plan, int transfer, int64_t passed_ns)
{
    const dl_transfer *t = &plan->transfers[transfer];
    dl_network *network = plan->network;
    const int64_t delay_ns = t->delay_ns - passed_ns;
    if (delay_ns > 0 || !moves_bytes(t)) {
        dl_plan_start_in(plan, transfer, delay_ns);
    } else {
        dl_network_resume(network, t->class, t->bytes, -delay_ns, dl_plan_transfer_ended, plan,
                          transfer);
    }
}

/* Adds the bytes of an ended transfer to its links. */
static void count_bytes(dl_plan *plan, const dl_transfer *t)
{
    if (!moves_bytes(t)) return;
    const dl_flow_class *c = &plan->network->classes[t->class];
    for (int u = c->first_use; u < c->first_use + c->use_count; u++) {
        const dl_use *use = &plan->network->uses[u];
        plan->network->bytes[use->link] += t->bytes * use->times;
    }
}

/* Continues transfer by transfer, `passed_ns` after the run's start. Transfers that end at exactly
 * that time end by an event on the network. */
static void go_on_from_walk(dl_plan *plan, int64_t passed_ns)
{
    walk w;
    start_walk(&w, plan);
    for (int i = 0; i < w.found; i++) {
        const int t = w.order[i];
        const dl_transfer *transfer = &plan->transfers[t];
        const int64_t end_ns = w.start_ns[t] + transfer->delay_ns + moving_ns(plan, transfer);
        if (end_ns < passed_ns) {
            count_bytes(plan, transfer);
            plan->running--;
            walk_past(&w, plan, t, end_ns);
        } else {
            resume_transfer(plan, t, passed_ns - w.start_ns[t]);
        }
    }
    free_walk(&w);
}

/* Callback: another flow enters the links. */
static void on_claim_broken(void *user)
{
    dl_plan *plan = user;
    const int64_t passed_ns = plan->network->engine->now_ns - plan->since_ns;
    dl_engine_cancel(plan->network->engine, plan->event);
    release_links(plan);
    if (plan->alone.is_apart) {
        go_on_from_walk(plan, passed_ns);
    } else {
        plan->broken++;
        dl_plan_unfold(plan);
        go_on_from_trial(plan, passed_ns);
    }
}

/* A plan stops claiming its links once it has this many more broken claims than kept ones: a broken
 * claim costs a second run of the plan. */
#define BROKEN_MAX 2

bool dl_plan_run_alone(dl_plan *plan)
{
    dl_plan_alone *alone = &plan->alone;
    if (plan->is_apart || plan->network->is_uncontended) return false;
    dl_plan_prepare(plan);
    if (!alone->is_possible || plan->broken > plan->kept + BROKEN_MAX) return false;
    plan->claim = dl_network_claim_links(plan->network, alone->links, alone->link_count,
                                         on_claim_broken, plan);
    if (plan->claim < 0) return false;
    plan->since_ns = plan->network->engine->now_ns;
    plan->event = dl_engine_after(plan->network->engine, alone->time_ns, on_alone_ended, plan, 0);
    return true;
}
