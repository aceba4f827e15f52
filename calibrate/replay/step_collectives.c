/* Collectives of a step other than the gradient exchange: those of sharded states, and those that
 * no other key of a cost file covers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "calibrate/replay/collectives.h"
#include "calibrate/replay/graph.h"
#include "calibrate/replay/step_costs.h"
#include "common/alloc.h"
#include "common/names.h"
#include "common/sort.h"
#include "common/units.h"

/* Minimum fraction of a step at which a collective is listed. */
#define NAMED_FRAC 0.01

/* Collectives of at most SMALL_BYTES, such as that of the norm of all gradients, take less than
 * SMALL_NS (35 us on eight A100: superbenchmark tests/data, nccl_allreduce.log; a network adds tens
 * of us); the rest of their time is waiting for other ranks. */
#define SMALL_BYTES 1024
#define SMALL_NS 1e5

/* The steps of `line` that are marked in timed[line->count]; `count` is their number. */
typedef struct marked {
    const dl_replay_run *run;
    const dl_step_line *line;
    const uint8_t *timed;
    size_t count;
} marked;

bool dl_is_in_timed_step(const dl_step_line *line, const uint8_t *timed, int64_t time_ns)
{
    const dl_activity_step *step = dl_regular_step_at(line, time_ns);
    return step != NULL && timed[step - line->steps];
}

/* A step's collectives of one kind in one communicator. */
typedef struct entry {
    dl_traced_collective of; /* its name is borrowed from the instances */
    uint64_t object;         /* communicator; 0: unknown */
} entry;

typedef struct list {
    entry *items; /* [count] */
    size_t count;
} list;

DL_ORDER(by_collective, dl_instance, DL_BY_TEXT(name), DL_BY(ranks), DL_BY(object), DL_BY(last_ns));

static entry mean_of(const marked *m, const dl_instance *instances, size_t count)
{
    const double steps = (double)m->count;
    dl_traced_collective c = {.name = instances[0].name, .ranks = instances[0].ranks};
    for (size_t i = 0; i < count; i++) {
        const dl_instance *one = &instances[i];
        const dl_replay_node *node = &m->run->graph.nodes[one->nodes[0]];
        if (m->run->ranks[0].trace->activities[node->activity].device != m->line->device ||
            !dl_is_in_timed_step(m->line, m->timed, one->last_ns))
            continue;
        c.calls += 1 / steps;
        c.bytes += one->bytes / steps;
        c.ns += (double)node->duration_ns / steps;
    }
    return (entry){c, instances[0].object};
}

/* Merges entries with unknown ranks, which sort first, into the only other entry of that name. */
static void join_unknown(list *all)
{
    size_t kept = 0;
    for (size_t i = 0; i < all->count; i++) {
        const dl_traced_collective *c = &all->items[i].of;
        const bool joins = i + 1 < all->count && c->ranks == 0 && c->name[0] != '\0' &&
                           strcmp(all->items[i + 1].of.name, c->name) == 0;
        const bool several =
            joins && i + 2 < all->count && strcmp(all->items[i + 2].of.name, c->name) == 0;
        if (joins && !several) {
            dl_traced_collective *next = &all->items[i + 1].of;
            next->calls += c->calls;
            next->bytes += c->bytes;
            next->ns += c->ns;
        } else {
            all->items[kept++] = all->items[i];
        }
    }
    all->count = kept;
}

static list list_all(const marked *m, dl_instances *found)
{
    list all = {0};
    dl_instances_find(found, m->run);
    dl_sort(found->instances, found->count, sizeof *found->instances, by_collective);
    DL_GROUPS (first, end, found->count,
               strcmp(found->instances[end].name, found->instances[first].name) == 0 &&
                   found->instances[end].ranks == found->instances[first].ranks &&
                   found->instances[end].object == found->instances[first].object)
        DL_APPEND(all.items, all.count, "collectives") =
            mean_of(m, &found->instances[first], end - first);
    join_unknown(&all);
    return all;
}

/* Returns the collective of that name in the communicator `object`, 0 for any; if there is none,
 * one whose communicator is unknown; NULL: none. */
static dl_traced_collective *find(const list *all, const char *name, uint64_t object)
{
    dl_traced_collective *unknown = NULL;
    for (size_t i = 0; i < all->count; i++) {
        entry *e = &all->items[i];
        if (strcasecmp(e->of.name, name) != 0) continue;
        if (e->object == object || object == 0) return &e->of;
        if (e->object == 0 && unknown == NULL) unknown = &e->of;
    }
    return unknown;
}

static void take_gradients_out(const list *all, const dl_step_costs *costs,
                               const dl_gradient_exchange *gradients)
{
    if (costs->gradient_count == 0) return;
    const double bytes = costs->gradients[costs->gradient_count - 1].bytes /
                         (gradients->scattered ? fmax(1, gradients->ranks) : 1);
    dl_traced_collective *c =
        find(all, gradients->scattered ? DL_SCATTERS : DL_REDUCES, gradients->object);
    if (c == NULL) return;
    const double left = c->bytes > 0 ? fmax(0, 1 - bytes / c->bytes) : 0;
    c->ns *= left;
    c->bytes *= left;
}

/* Threshold of gathers per reduce-scatter: if all parameters are gathered for each pass, the ratio
 * is higher, even if the first or last layers are gathered once; if they are gathered once per
 * step, the numbers are equal, or there is one gather. */
#define BOTH_PASSES 1.4
/* Gathers of less than this fraction of the parameters have another purpose. */
#define GATHERED_MIN 0.2
/* Gathers of parameters in 16 bits carry this fraction of the bytes of gradients in 32. */
#define HALF 0.5

/* Collectives of sharded state in the regular steps of a line. */
typedef struct sharding {
    size_t scatters, gathers; /* reduce-scatters and all-gathers */
    size_t before;            /* number of gathers before their step's first reduce-scatter */
    double gathered_bytes;    /* of one rank's part */
} sharding;

static sharding count_sharding(const dl_gradient_source *source, uint64_t object)
{
    sharding of = {0};
    size_t scattered = SIZE_MAX; /* last step with a reduce-scatter */
    for (size_t i = 0; i < source->call_count; i++) {
        const dl_step_call *call = &source->calls[i];
        if (call->object != object) continue;
        if (strcasecmp(call->name, DL_SCATTERS) == 0) {
            of.scatters++;
            scattered = call->step;
        } else if (strcasecmp(call->name, DL_GATHERS) == 0) {
            of.gathers++;
            of.before += scattered != call->step;
            of.gathered_bytes += (double)call->bytes;
        }
    }
    return of;
}

void dl_step_costs_scale_update(dl_step_costs *costs, uint32_t ranks)
{
    for (size_t i = 0; i < costs->op_count; i++) {
        dl_step_op *op = &costs->ops[i];
        if (!dl_ends_with(op->name, ".update")) continue;
        op->ns.value = op->starts_ns + fmax(0, op->ns.value - op->starts_ns) * ranks;
        op->ns.error *= ranks;
    }
}

bool dl_step_costs_take_sharded(dl_step_costs *costs, const dl_gradient_source *source,
                                const dl_gradient_exchange *gradients, dl_notes *notes)
{
    if (!gradients->scattered || gradients->ranks < 2) return false;
    const sharding of = count_sharding(source, gradients->object);
    const double bytes = costs->gradients[costs->gradient_count - 1].bytes;
    const double steps = (double)source->line->regular_count;
    const double gathered = of.gathered_bytes * gradients->ranks / (steps * bytes);
    bool twice = false;
    costs->sharded = DL_SHARDED_GRADIENTS;
    dl_step_costs_scale_update(costs, gradients->ranks);
    if (gathered >= GATHERED_MIN) {
        twice = of.scatters > 0 && (double)of.gathers > BOTH_PASSES * (double)of.scatters;
        costs->keeps_parameters = !twice && 2 * of.before > of.gathers;
        if (twice || costs->keeps_parameters) costs->sharded = DL_SHARDED_PARAMETERS;
        costs->gathers_half = fabs(gathered / (twice ? 2 : 1) / HALF - 1) <= 0.25;
    }
    dl_notes_add(notes,
                 "gradients are reduce-scattered among %u ranks and the parameters gathered %s: "
                 "[costs] sharded = %s%s, which dlsim prices (its mode allreduce, [exchange] "
                 "sharded); a rank updates its part, so the update is taken %u times as long for "
                 "all parameters",
                 gradients->ranks,
                 twice                     ? "for either pass"
                 : costs->keeps_parameters ? "for the forward pass"
                                           : "after the update",
                 dl_sharded_names[costs->sharded],
                 costs->keeps_parameters ? ", reshard_after_forward = no" : "", gradients->ranks);
    if (costs->gathers_half) {
        dl_notes_add(notes,
                     "gathers carry half as many bytes as the gradients: [costs] param_dtype = "
                     "bf16, in which dlsim gathers the parameters");
    } else if (gathered >= GATHERED_MIN && fabs(gathered / (twice ? 2 : 1) - 1) > 0.25) {
        dl_notes_add(notes,
                     "gathers carry %.2g times the gradients' bytes in place of %d: dlsim gathers "
                     "as many bytes of parameters as of gradients",
                     gathered, twice ? 2 : 1);
    }
    return gathered >= GATHERED_MIN;
}

/* Takes the ranks that share the parameters as an axis of the layout, if there are other axes:
 * divided layers, stages or copies. Only sharded parameters have such an axis. */
static void take_shards(dl_step_costs *costs, uint32_t ranks, dl_notes *notes)
{
    dl_step_axes *axes = &costs->axes;
    const bool all = costs->sharded == DL_SHARDED_PARAMETERS;
    if (!all) axes->copies = 1;
    if (!all) axes->copies_object = 0;
    if (all && (axes->tensor > 1 || axes->stages > 1 || axes->copies > 1)) axes->shards = ranks;
    if (axes->copies < 2) return;
    dl_notes_add(notes,
                 "%u ranks hold each part of the sharded state, and sum its gradients (hybrid "
                 "sharding): --layout fsdp=%u with %u workers exchanges as the traced job did",
                 axes->copies, ranks, axes->copies);
}

/* Returns whether an axis of the layout has the collective: divided layers, stages, copies of
 * shards. */
static bool is_of_layout(const dl_step_axes *axes, const entry *e)
{
    static const char *const crossings[] = {"Send", "Recv", "SendRecv", "group", NULL};
    if (e->object != 0 &&
        (e->object == axes->tensor_object ||
         (e->object == axes->copies_object && strcasecmp(e->of.name, DL_REDUCES) == 0)))
        return true;
    return axes->stages > 1 && dl_names_find(e->of.name, crossings, 4) >= 0;
}

/* Adds the remaining collectives that take at least NAMED_FRAC of a step to the costs. */
static void keep_others(const list *all, dl_step_costs *costs, dl_notes *notes)
{
    const bool named_reduces = find(all, DL_REDUCES, 0) != NULL;
    for (size_t i = 0; i < all->count; i++) {
        dl_traced_collective c = all->items[i].of;
        if (is_of_layout(&costs->axes, &all->items[i])) continue;
        /* Without a named all-reduce, kernels of unknown size (in a group of calls) are those of
         * the gradients if their number matches. */
        if (!(c.bytes > 0) && !named_reduces && fabs(c.calls - (double)costs->gradient_count) < 0.5)
            continue;
        if (c.ns < NAMED_FRAC * costs->step_ns) continue;
        if (c.bytes > 0 && c.bytes <= SMALL_BYTES * c.calls &&
            SMALL_NS * c.calls < NAMED_FRAC * costs->step_ns) {
            dl_notes_add(notes,
                         "%.3g %s of %s take %s a step, of which most is waiting for other ranks: "
                         "left out",
                         c.calls, c.name, DL_BYTES_TEXT(c.bytes), DL_NS_TEXT(c.ns));
            continue;
        }
        c.name = dl_strdup(c.name[0] != '\0' ? c.name : "unknown");
        DL_APPEND(costs->others, costs->other_count, "collectives") = c;
    }
}

static void note_others(const dl_step_costs *costs, dl_notes *notes)
{
    DL_AUTOFREE char *names = NULL;
    for (size_t i = 0; i < costs->other_count; i++) {
        const dl_traced_collective *c = &costs->others[i];
        dl_join_format(&names, ", ", "%.3g %s (%s, %s of the device)", c->calls, c->name,
                       c->bytes > 0 ? DL_BYTES_TEXT(c->bytes) : "bytes unknown", DL_NS_TEXT(c->ns));
    }
    if (names != NULL) {
        dl_notes_add(notes,
                     "besides the exchange of gradients a step has other collectives: %s. dlsim "
                     "puts those whose bytes and ranks are known before each step of mode "
                     "allreduce, and marks rows that leave some out",
                     names);
    }
}

void dl_step_collectives_take(dl_step_costs *costs, const dl_replay_run *run,
                              const dl_gradient_source *source, const uint8_t *timed,
                              const dl_gradient_exchange *gradients, dl_notes *notes)
{
    const dl_step_line *line = source->line;
    marked m = {run, line, timed, 0};
    DL_AUTO(dl_instances_free) dl_instances found = {0};
    for (size_t s = 0; s < line->count; s++)
        m.count += timed[s];
    const list all = list_all(&m, &found);
    if (dl_step_costs_take_sharded(costs, source, gradients, notes)) {
        dl_traced_collective *gathers = find(&all, DL_GATHERS, gradients->object);
        if (gathers != NULL) gathers->ns = gathers->bytes = 0; /* not among costs->others */
    }
    if (costs->sharded != DL_SHARDED_NONE) take_shards(costs, gradients->ranks, notes);
    const int64_t placed =
        (int64_t)gradients->ranks * costs->axes.tensor * costs->axes.stages * costs->axes.copies;
    if (gradients->ranks > 0 && placed < costs->ranks) {
        dl_notes_add(notes,
                     "gradients are exchanged among %u of %lld ranks%s: dlsim exchanges those of a "
                     "rank among all of its workers",
                     gradients->ranks, (long long)costs->ranks,
                     placed > gradients->ranks ? ", whose layout is not known" : "");
    }
    take_gradients_out(&all, costs, gradients);
    keep_others(&all, costs, notes);
    note_others(costs, notes);
    free(all.items);
}
