/* Axes of the traced job, from the process groups of its collectives. See step_costs.h. */
#include "calibrate/replay/step_costs.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "common/alloc.h"
#include "common/units.h"
#include "trace/activity/groups.h"

/* Kinds of calls; CALL_KINDS: another. */
typedef enum call_kind { REDUCE, GATHER, SCATTER, SEND, RECV, CALL_KINDS } call_kind;

static const char *const kind_names[CALL_KINDS] = {DL_REDUCES, DL_GATHERS, DL_SCATTERS, "Send",
                                                   "Recv"};

/* Calls of one kind in one communicator and, if point-to-point, with one peer. */
typedef struct calls {
    uint64_t object;
    call_kind kind;
    uint32_t peer;
    double count[2], bytes[2]; /* per step: [0] outside the forward passes, [1] in them */
} calls;

typedef struct use {
    const dl_gradient_source *source;
    calls *calls; /* [call_count] */
    size_t call_count;
} use;

/* Returns the number of ranks of a communicator; 0: unknown, as of object 0, perhaps several. */
static uint32_t ranks_of(const use *u, uint64_t object)
{
    return object != 0 ? dl_communicators_ranks(&u->source->communicators, object) : 0;
}

static int kind_of(const dl_step_call *call)
{
    int kind = 0;
    while (kind < CALL_KINDS && strcasecmp(call->name, kind_names[kind]) != 0)
        kind++;
    return kind;
}

static calls *find_calls(use *u, const dl_step_call *call, call_kind kind)
{
    const uint32_t peer = kind == SEND || kind == RECV ? call->peer : 0;
    for (size_t i = 0; i < u->call_count; i++) {
        calls *c = &u->calls[i];
        if (c->object == call->object && c->kind == kind && c->peer == peer) return c;
    }
    calls *made = &DL_APPEND(u->calls, u->call_count, "calls of collectives");
    *made = (calls){.object = call->object, .kind = kind, .peer = peer};
    return made;
}

/* Counts the calls of the regular steps: means of a step. */
static void count_calls(use *u)
{
    const double steps = (double)u->source->line->regular_count;
    for (size_t i = 0; i < u->source->call_count; i++) {
        const dl_step_call *one = &u->source->calls[i];
        const bool forward = one->phase == DL_PHASE_FORWARD;
        const int kind = kind_of(one);
        if (kind == CALL_KINDS) continue;
        calls *c = find_calls(u, one, (call_kind)kind);
        c->count[forward]++;
        c->bytes[forward] += (double)one->bytes;
    }
    for (size_t i = 0; i < u->call_count; i++) {
        for (int forward = 0; forward < 2; forward++) {
            u->calls[i].count[forward] /= steps;
            u->calls[i].bytes[forward] /= steps;
        }
    }
}

/* --- divided layers --------------------------------------------------------------------------- */

/* Sums of a communicator's activations: whole activations exchanged, and all-reduces, or pairs of a
 * gather and a reduce-scatter, each per step. */
typedef struct activations {
    double bytes, count[2];
} activations;

static activations sum_activations(const use *u, uint64_t object, uint32_t ranks)
{
    activations sum = {0};
    for (size_t i = 0; i < u->call_count; i++) {
        const calls *c = &u->calls[i];
        if (c->object != object || c->kind > SCATTER) continue;
        const double part = c->kind == REDUCE ? 1 : 0.5;
        const double whole = c->kind == REDUCE ? 1 : 0.5 * ranks;
        for (int forward = 0; forward < 2; forward++) {
            sum.count[forward] += part * c->count[forward];
            sum.bytes += whole * c->bytes[forward];
        }
    }
    return sum;
}

/* Fraction of the time of the communicator's kernels that computing hides; 0 without kernels. */
static double hidden_frac(const use *u, uint64_t object)
{
    const dl_trace *trace = u->source->trace;
    dl_groups groups = dl_groups_find(trace, u->source->classes, u->source->launches, NULL);
    double total_ns = 0, exposed_ns = 0;
    for (size_t i = 0; i < groups.count; i++) {
        if (groups.items[i].object != object) continue;
        total_ns += groups.items[i].total_ns;
        exposed_ns += groups.items[i].exposed_ns;
    }
    free(groups.items);
    return total_ns > 0 ? 1 - exposed_ns / total_ns : 0;
}

#define TENSOR_MAX 1024 /* as of [costs] tensor_ranks */
#define STAGES_MAX 64   /* as of a layout in dlsim */

/* Fraction of the time of collectives within layers that computing may hide before a note. */
#define HIDDEN_FRAC 0.1

/* Takes the GPUs that divide the layers: the communicator, apart from that of the gradients, that
 * sums most activations. Sums of fewer bytes than a thousandth of the gradients' are statistics, as
 * of batch norms. */
static void take_tensor(const use *u, dl_step_costs *costs, const dl_gradient_exchange *gradients,
                        dl_notes *notes)
{
    dl_step_axes *axes = &costs->axes;
    uint64_t object = 0;
    activations most = {0};
    const double gradient_bytes =
        gradients->count > 0 ? gradients->ready[gradients->count - 1].bytes : 0;
    for (size_t i = 0; i < gradients->activation_count; i++) {
        const uint64_t own = gradients->activations[i];
        const uint32_t ranks = ranks_of(u, own);
        const activations sum = sum_activations(u, own, ranks);
        if (own == gradients->object || ranks < 2 || ranks > TENSOR_MAX ||
            sum.bytes <= 1e-3 * gradient_bytes)
            continue;
        if (sum.bytes > most.bytes) {
            most = sum;
            object = own;
        }
    }
    if (object == 0) return;
    const dl_activity *comm = dl_communicators_get(&u->source->communicators, object);
    axes->tensor_object = object;
    axes->tensor = comm->count;
    axes->tensor_bytes = most.bytes / (most.count[0] + most.count[1]);
    for (int forward = 0; forward < 2; forward++)
        axes->tensor_calls[forward] = most.count[forward];
    DL_AUTOFREE char *members =
        dl_group_members(u->source->trace->strings[comm->detail], axes->tensor);
    dl_notes_add(notes,
                 "ranks %s divide the layers (%s): in a step they sum %s %.4g times in forward and "
                 "%.4g times in backward passes. The costs are those of one of %u GPUs: [costs] "
                 "tensor_ranks, for --layout tp=%u",
                 members, u->source->trace->strings[comm->name], DL_BYTES_TEXT(axes->tensor_bytes),
                 axes->tensor_calls[1], axes->tensor_calls[0], axes->tensor, axes->tensor);
    const double hidden = hidden_frac(u, object);
    if (hidden > HIDDEN_FRAC) {
        dl_notes_add(notes,
                     "computing hides %.0f %% of the time of these collectives; dlsim hides none, "
                     "so its steps are too long",
                     100 * hidden);
    }
}

/* --- stages ----------------------------------------------------------------------------------- */

/* Relative deviation of a mean number of calls from a whole number. */
#define WHOLE_FRAC 0.01

static dl_status refuse_stages(const use *u, const dl_activity *comm, const char *why,
                               dl_error *err)
{
    DL_AUTOFREE char *members =
        dl_group_members(u->source->trace->strings[comm->detail], comm->count);
    return dl_error_set_at(
        err, DL_ERR_DATA, u->source->trace->path, 0,
        "the sends of ranks %s (%s) are not those of pipeline stages in schedule 1f1b or gpipe: "
        "%s. Interleaved schedules, and sequences divided in a ring (context parallelism), are "
        "not taken from traces",
        members, u->source->trace->strings[comm->name], why);
}

const char *dl_step_axes_schedule(const dl_step_axes *axes)
{
    return axes->either ? "1f1b or gpipe" : axes->gpipe ? "gpipe" : "1f1b";
}

/* Takes the stages: ranks that send activations to the next and gradients to the previous one, once
 * per micro-batch. The number of forward passes directly followed by a backward pass tells the
 * schedule: with 1f1b, stage s of S runs S - 1 - s passes ahead; with gpipe, all. With at most S -
 * s micro-batches, the stage has the same order in both schedules. */
static dl_status take_stages(const use *u, dl_step_costs *costs, dl_notes *notes, dl_error *err)
{
    dl_step_axes *axes = &costs->axes;
    const dl_activity *comm = NULL;
    const char *const *strings = (const char *const *)u->source->trace->strings;
    double sends = 0, bytes = 0, unknown = 0, to[2] = {0};
    size_t unnamed = 0;
    for (size_t i = 0; i < u->call_count; i++) {
        const calls *c = &u->calls[i];
        const dl_activity *of = dl_communicators_get(&u->source->communicators, c->object);
        if (c->kind != SEND && c->kind != RECV) continue;
        if (c->object == 0 || of == NULL || of->count < 2) {
            unnamed++;
            continue;
        }
        if (comm == NULL) comm = of;
        if (strcmp(strings[of->detail], strings[comm->detail]) != 0 || of->count != comm->count)
            return refuse_stages(u, comm, "another group sends, too", err);
        if (c->kind != SEND) continue;
        const double count = c->count[0] + c->count[1];
        sends += count;
        bytes += c->bytes[0] + c->bytes[1];
        if (c->peer == DL_RANK_UNKNOWN || of->peer == DL_RANK_UNKNOWN) {
            unknown += count;
        } else if (c->peer + 1 == of->peer || of->peer + 1 == c->peer) {
            to[c->peer > of->peer] += count;
        } else {
            return refuse_stages(u, comm, "they go to others than the neighbouring ranks", err);
        }
    }
    if (comm == NULL && unnamed > 0)
        dl_notes_add(
            notes, "the rank sends to others without naming their process group: if it is a stage "
                   "of a pipeline, these are the costs of that stage, not of the model");
    if (comm == NULL) return DL_OK;
    if (comm->peer == DL_RANK_UNKNOWN)
        return refuse_stages(u, comm, "the rank's place among them is unknown", err);
    if (comm->count > STAGES_MAX)
        return refuse_stages(u, comm, "there are more ranks than stages that dlsim takes", err);
    axes->stages = comm->count;
    axes->stage = comm->peer;
    const bool inside = axes->stage > 0 && axes->stage + 1 < axes->stages;
    if (unknown > 0) to[0] = to[1] = inside ? sends / 2 : sends;
    const double each = fmax(to[0], to[1]), whole = round(each);
    if (whole < 1 || fabs(each / whole - 1) > WHOLE_FRAC ||
        (inside && fabs(to[0] - to[1]) > WHOLE_FRAC * whole))
        return refuse_stages(u, comm, "their number differs from step to step or by neighbour",
                             err);
    const double ahead = axes->stages - 1 - axes->stage;
    const double turns = costs->mean_passes;
    const bool alternates = fabs(turns - fmax(1, whole - ahead)) < 0.5, all = turns < 1.5;
    if (!alternates && !all) {
        DL_AUTOFREE char *why =
            dl_format("stage %u of %u sends %.0f times to a neighbour, but %.3g forward "
                      "passes are followed by a backward pass, not %.0f",
                      axes->stage, axes->stages, whole, turns, fmax(1, whole - ahead));
        return refuse_stages(u, comm, why, err);
    }
    axes->gpipe = !alternates;
    axes->either = alternates && all;
    axes->crossing_bytes = bytes / sends;
    costs->passes = (size_t)whole;
    costs->mean_passes = whole;
    dl_notes_add(notes,
                 "the rank is stage %u of %u (%s), with %.0f micro-batches in schedule %s; %s "
                 "cross to the next stage in each",
                 axes->stage, axes->stages, strings[comm->name], whole, dl_step_axes_schedule(axes),
                 DL_BYTES_TEXT(axes->crossing_bytes));
    return DL_OK;
}

/* --- copies of shards ------------------------------------------------------------------------- */

/* Relative difference of the bytes of a rank's shards from those summed over the copies. */
#define COPIES_FRAC 0.05

/* Takes the number of ranks that hold the same part of sharded state (HSDP): they all-reduce its
 * gradients. */
static void take_copies(const use *u, dl_step_costs *costs, const dl_gradient_exchange *gradients)
{
    dl_step_axes *axes = &costs->axes;
    if (!gradients->scattered || gradients->ranks < 2 || gradients->count == 0) return;
    const double shard = gradients->ready[gradients->count - 1].bytes / gradients->ranks;
    for (size_t i = 0; i < u->call_count; i++) {
        const calls *c = &u->calls[i];
        const uint32_t ranks = ranks_of(u, c->object);
        if (c->kind != REDUCE || ranks < 2 || c->object == gradients->object ||
            c->object == axes->tensor_object ||
            fabs((c->bytes[0] + c->bytes[1]) / shard - 1) > COPIES_FRAC)
            continue;
        axes->copies = ranks;
        axes->copies_object = c->object;
        return;
    }
}

dl_status dl_step_axes_take(dl_step_costs *costs, const dl_gradient_source *source,
                            const dl_gradient_exchange *gradients, dl_notes *notes, dl_error *err)
{
    use u = {.source = source};
    count_calls(&u);
    const dl_status status = take_stages(&u, costs, notes, err);
    if (status == DL_OK) take_tensor(&u, costs, gradients, notes);
    if (status == DL_OK) take_copies(&u, costs, gradients);
    free(u.calls);
    return status;
}
