/* Collectives of a step other than the gradient exchange: those of sharded states, and those that
 * no other key of a cost file covers. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "calibrate/replay/step_costs.h"
#include "common/alloc.h"
#include "common/names.h"
#include "common/sort.h"
#include "common/units.h"
#include "trace/activity/groups.h"

/* Minimum fraction of a step at which a collective is listed. */
#define NAMED_FRAC 0.01

/* Collectives of at most SMALL_BYTES, such as that of the norm of all gradients, take less than
 * SMALL_NS (35 us on eight A100: superbenchmark tests/data, nccl_allreduce.log; a network adds tens
 * of us); the rest of their time is waiting for other ranks. */
#define SMALL_BYTES 1024
#define SMALL_NS 1e5

/* Collectives of the timed steps by kind and communicator. */
DL_ORDER(by_collective, dl_group_summary, DL_BY_TEXT(name), DL_BY(ranks), DL_BY(object));

/* Merges groups with unknown ranks, which sort first, into the only other group of that name. */
static void join_unknown(dl_groups *all)
{
    size_t kept = 0;
    for (size_t i = 0; i < all->count; i++) {
        const dl_group_summary *g = &all->items[i];
        const bool joins = i + 1 < all->count && g->ranks == 0 && g->name[0] != '\0' &&
                           strcmp(all->items[i + 1].name, g->name) == 0;
        const bool several =
            joins && i + 2 < all->count && strcmp(all->items[i + 2].name, g->name) == 0;
        if (joins && !several) {
            dl_group_summary *next = &all->items[i + 1];
            next->count += g->count;
            next->bytes += g->bytes;
            next->total_ns += g->total_ns;
        } else {
            all->items[kept++] = all->items[i];
        }
    }
    all->count = kept;
}

/* Returns the collective of that name in the communicator `object`, 0 for any; if there is none,
 * one whose communicator is unknown; NULL: none. */
static dl_group_summary *find(const dl_groups *all, const char *name, uint64_t object)
{
    dl_group_summary *unknown = NULL;
    for (size_t i = 0; i < all->count; i++) {
        dl_group_summary *g = &all->items[i];
        if (strcasecmp(g->name, name) != 0) continue;
        if (g->object == object || object == 0) return g;
        if (g->object == 0 && unknown == NULL) unknown = g;
    }
    return unknown;
}

/* Takes the gradients out of the collectives of `steps` steps. */
static void take_gradients_out(const dl_groups *all, const dl_step_costs *costs,
                               const dl_gradient_exchange *gradients, double steps)
{
    if (costs->gradient_count == 0) return;
    const double bytes = steps * costs->gradients[costs->gradient_count - 1].bytes /
                         (gradients->scattered ? fmax(1, gradients->ranks) : 1);
    dl_group_summary *g =
        find(all, gradients->scattered ? DL_SCATTERS : DL_REDUCES, gradients->object);
    if (g == NULL) return;
    const double left = g->bytes > 0 ? fmax(0, 1 - bytes / g->bytes) : 0;
    g->total_ns *= left;
    g->bytes *= left;
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
static bool is_of_layout(const dl_step_axes *axes, const dl_group_summary *e)
{
    static const char *const crossings[] = {"Send", "Recv", "SendRecv", "group", NULL};
    if (e->object != 0 &&
        (e->object == axes->tensor_object ||
         (e->object == axes->copies_object && strcasecmp(e->name, DL_REDUCES) == 0)))
        return true;
    return axes->stages > 1 && dl_names_find(e->name, crossings, 4) >= 0;
}

/* Adds the remaining collectives of `steps` steps that take at least NAMED_FRAC of a step to the
 * costs. */
static void keep_others(const dl_groups *all, dl_step_costs *costs, double steps, dl_notes *notes)
{
    const bool named_reduces = find(all, DL_REDUCES, 0) != NULL;
    for (size_t i = 0; i < all->count; i++) {
        const dl_group_summary *g = &all->items[i];
        dl_traced_collective c = {.ranks = g->ranks,
                                  .calls = (double)g->count / steps,
                                  .bytes = g->bytes / steps,
                                  .ns = g->total_ns / steps};
        if (is_of_layout(&costs->axes, g)) continue;
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
                         c.calls, g->name, DL_BYTES_TEXT(c.bytes), DL_NS_TEXT(c.ns));
            continue;
        }
        c.name = dl_strdup(g->name[0] != '\0' ? g->name : "unknown");
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

void dl_step_collectives_take(dl_step_costs *costs, const dl_gradient_source *source,
                              const uint8_t *timed, const dl_gradient_exchange *gradients,
                              dl_notes *notes)
{
    const double steps = (double)costs->steps;
    dl_groups all =
        dl_groups_of_line(source->trace, source->classes, source->launches, source->line, timed);
    dl_sort(all.items, all.count, sizeof *all.items, by_collective);
    join_unknown(&all);
    if (dl_step_costs_take_sharded(costs, source, gradients, notes)) {
        dl_group_summary *gathers = find(&all, DL_GATHERS, gradients->object);
        if (gathers != NULL) gathers->total_ns = gathers->bytes = 0; /* not among costs->others */
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
    take_gradients_out(&all, costs, gradients, steps);
    keep_others(&all, costs, steps, notes);
    note_others(costs, notes);
    free(all.items);
}
