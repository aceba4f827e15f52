#include "trace/readers/kineto_internal.h"

#include <ctype.h>
#include <inttypes.h>
#include <string.h>

#include "common/alloc.h"
#include "common/names.h"
#include "common/sort.h"
#include "trace/activity/activity.h"
#include "trace/activity/groups.h"
#include "trace/activity/phases.h"
#include "trace/readers/json_events.h"

uint32_t dl_kineto_text(dl_kineto *kineto, dl_json_text value)
{
    dl_trace_builder *builder = &kineto->builder;
    if (value.at == NULL || value.bytes < 2 || value.at[0] != '"') return 0;
    if (memchr(value.at, '\\', value.bytes) == NULL)
        return dl_trace_builder_intern(builder, value.at + 1, value.bytes - 2);
    if (value.bytes > kineto->scratch_room) {
        kineto->scratch_room = value.bytes;
        kineto->scratch = dl_realloc(kineto->scratch, value.bytes, 1, "name");
    }
    return dl_trace_builder_intern(builder, kineto->scratch,
                                   dl_json_unescape(value, kineto->scratch));
}

/* Maximum number of a call's inputs that are read. */
#define INPUTS_MAX 64
/* Bytes per element in traces without types: those of fp32, autocast's type of gradients. */
#define GRADIENT_NUMBER_BYTES 4

/* Elements of each of a call's inputs, and bytes per element. */
typedef struct inputs {
    dl_kineto *kineto;
    uint64_t elements[INPUTS_MAX];
    size_t type_bytes[INPUTS_MAX];
    size_t count, type_count;
    bool has_others; /* a type other than an integer of 32 or 64 bits */
} inputs;

/* A process group; its index gives the identity of its COMM. */
typedef struct group {
    uint32_t name, ranks_text, ranks; /* as in its calls */
} group;

static dl_kineto_call *keep(dl_kineto *kineto, dl_kineto_told told, const char *collective,
                            const dl_activity *activity)
{
    if (kineto->call_count == kineto->call_room) {
        kineto->call_room = kineto->call_room == 0 ? 256 : 2 * kineto->call_room;
        kineto->calls =
            dl_realloc(kineto->calls, kineto->call_room, sizeof *kineto->calls, "collectives");
    }
    kineto->told[told]++;
    dl_kineto_call *call = &kineto->calls[kineto->call_count++];
    *call = (dl_kineto_call){.told = told,
                             .collective = collective,
                             .peer = -1,
                             .peer_place = -1,
                             .thread = activity->thread,
                             .correlation = activity->correlation,
                             .start_ns = activity->start_ns,
                             .duration_ns = activity->duration_ns};
    return call;
}

/* Product without wrap-around; 0 (unknown) on overflow. */
static uint64_t times(uint64_t a, uint64_t b)
{
    uint64_t product = 0;
    return __builtin_mul_overflow(a, b, &product) ? 0 : product;
}

static const char *const with_peer[] = {"Send", "Recv", NULL};

static bool is_any(const char *collective, const char *const *names)
{
    for (; *names != NULL; names++)
        if (strcmp(collective, *names) == 0) return true;
    return false;
}

/* Takes the process's rank, unless it is known: "Rank" is its place in the group, or in collectives
 * with a root or a peer the place of that one (ProcessGroupNCCL.cpp). */
static void take_rank(dl_kineto *kineto, const dl_json_text *values, const dl_kineto_call *call)
{
    static const char *const symmetric[] = {"AllReduce", "AllGather", "ReduceScatter", "AlltoAll",
                                            NULL};
    int64_t place = -1;
    if (kineto->rank >= 0 || !is_any(call->collective, symmetric) ||
        !dl_json_int(values[KEY_RANK], &place))
        return;
    kineto->rank = place;
    if (call->group_ranks != 0)
        kineto->rank =
            dl_group_rank(kineto->builder.trace.strings[call->group_ranks], call->ranks, place);
}

/* Takes the peer of a Send or Recv: its rank or, from older versions of PyTorch, its place in the
 * group as "Rank". */
static void take_peer(const dl_json_text *values, dl_kineto_call *call)
{
    if (!is_any(call->collective, with_peer)) return;
    if (!dl_json_int(values[KEY_TO_RANK], &call->peer) &&
        !dl_json_int(values[KEY_FROM_RANK], &call->peer))
        dl_json_int(values[KEY_RANK], &call->peer_place);
}

void dl_kineto_keep_parameters(dl_kineto *kineto, const dl_json_text *values,
                               const dl_activity *activity)
{
    const dl_trace *trace = &kineto->builder.trace;
    uint32_t name = dl_kineto_text(kineto, values[KEY_COLLECTIVE]);
    const char *collective = dl_comm_of_name(trace->strings[name]);
    if (collective == NULL) return; /* not a collective, e.g. "wait" */
    bool of_kernel = activity->kind == DL_ACTIVITY_KERNEL;
    dl_kineto_call *call =
        keep(kineto, of_kernel ? TOLD_BY_KERNEL : TOLD_BY_PARAMETERS, collective, activity);
    uint32_t type = dl_kineto_text(kineto, values[KEY_TYPE]);
    size_t type_bytes = dl_comm_type_bytes(trace->strings[type]);
    call->in_bytes = times(dl_json_count(values[KEY_IN_ELEMENTS]), type_bytes);
    call->out_bytes = times(dl_json_count(values[KEY_OUT_ELEMENTS]), type_bytes);
    call->integers = dl_comm_type_counts(trace->strings[type]);
    call->ranks = (uint32_t)dl_json_count(values[KEY_GROUP_SIZE]);
    call->group = dl_kineto_text(kineto, values[KEY_GROUP]);
    call->group_text = dl_kineto_text(kineto, values[KEY_GROUP_TEXT]);
    call->group_ranks = dl_kineto_text(kineto, values[KEY_GROUP_RANKS]);
    take_rank(kineto, values, call);
    take_peer(values, call);
}

static void add_dim(void *context, dl_json_text key DL_UNUSED, dl_json_text value)
{
    inputs *in = context;
    /* A list of tensors contains lists: their types are not given, so their bytes are unknown. */
    in->elements[in->count] = times(in->elements[in->count], dl_json_count(value));
}

static void add_dims(void *context, dl_json_text key DL_UNUSED, dl_json_text value)
{
    inputs *in = context;
    if (in->count == INPUTS_MAX) return;
    in->elements[in->count] = 1;
    if (!dl_json_visit(value, add_dim, in)) in->elements[in->count] = 0;
    in->count++;
}

static void add_type(void *context, dl_json_text key DL_UNUSED, dl_json_text value)
{
    inputs *in = context;
    if (in->type_count == INPUTS_MAX) return;
    uint32_t type = dl_kineto_text(in->kineto, value);
    const char *text = in->kineto->builder.trace.strings[type];
    in->has_others |= !dl_comm_type_counts(text);
    in->type_bytes[in->type_count++] = dl_comm_type_bytes(text);
}

/* Returns the bytes of all inputs, from their "Input Dims" and "Input type"; if the list of types
 * is empty (PyTorch 1.8) each element has `untyped` bytes. 0: unknown. *integers (NULL: not asked):
 * whether all are integers of 32 or 64 bits. */
static uint64_t input_bytes(dl_kineto *kineto, const dl_json_text *values, uint64_t untyped,
                            bool *integers)
{
    inputs in = {.kineto = kineto};
    uint64_t sum = 0;
    const dl_json_text dims = dl_kineto_input_dims(values);
    if (dims.at == NULL || !dl_json_visit(dims, add_dims, &in)) return 0;
    if (!dl_json_visit(values[KEY_INPUT_TYPE], add_type, &in)) return 0;
    for (size_t i = 0; i < in.count && (in.type_count == 0 || i < in.type_count); i++)
        sum += times(in.elements[i], in.type_count == 0 ? untyped : in.type_bytes[i]);
    if (integers != NULL) *integers = in.type_count > 0 && !in.has_others;
    return sum;
}

/* Returns the collective that the range with this name (string id) calls, or NULL; cached. */
static const char *collective_of(dl_kineto *kineto, uint32_t name)
{
    const dl_trace_builder *builder = &kineto->builder;
    if (name >= kineto->known_texts) {
        size_t room = builder->string_room;
        kineto->collective_of =
            dl_realloc(kineto->collective_of, room, sizeof *kineto->collective_of, "names");
        kineto->collective_known =
            dl_realloc(kineto->collective_known, room, sizeof *kineto->collective_known, "names");
        memset(kineto->collective_known + kineto->known_texts, 0, room - kineto->known_texts);
        kineto->known_texts = room;
    }
    if (!kineto->collective_known[name]) {
        kineto->collective_known[name] = true;
        kineto->collective_of[name] = dl_comm_of_range(builder->trace.strings[name]);
    }
    return kineto->collective_of[name];
}

void dl_kineto_keep_range(dl_kineto *kineto, const dl_json_text *values, dl_activity *activity)
{
    const char *name = kineto->builder.trace.strings[activity->name];
    if (strcmp(name, "torch::autograd::AccumulateGrad") == 0) {
        activity->bytes = input_bytes(kineto, values, GRADIENT_NUMBER_BYTES, NULL);
        activity->correlation = dl_kineto_shape_of_rows(kineto, values);
        name = kineto->builder.trace.strings[activity->name];
    }
    dl_kineto_count_samples(kineto, name, values);
    const char *collective = collective_of(kineto, activity->name);
    if (collective == NULL) return;
    dl_kineto_call *call = keep(kineto, TOLD_BY_RANGE, collective, activity);
    call->in_bytes = input_bytes(kineto, values, 0, &call->integers);
}

/* Completes a call's group from the configuration of that name. */
static void complete_group(const dl_kineto *kineto, dl_kineto_call *call)
{
    const dl_kineto_group *of = NULL;
    for (size_t i = 0; i < kineto->group_count && call->group != 0; i++)
        if (kineto->groups[i].name == call->group) of = &kineto->groups[i];
    if (of == NULL) return;
    const char *listed = kineto->builder.trace.strings[call->group_ranks];
    if (of->members != 0 && (call->group_ranks == 0 || strstr(listed, "...") != NULL))
        call->group_ranks = of->members;
    if (call->group_text == 0) call->group_text = of->description;
    if (call->ranks == 0) call->ranks = of->ranks;
}

/* Returns the process's place in the call's group, or -1. The place is its global rank if the
 * group's ranks are not listed, or if the group is of all ranks and the list lacks it. */
static int64_t place_in(const dl_kineto *kineto, const dl_kineto_call *call)
{
    if (call->group_ranks == 0 || kineto->rank < 0) return kineto->rank;
    const char *listed = kineto->builder.trace.strings[call->group_ranks];
    const int64_t place = dl_group_place(listed, call->ranks, kineto->rank);
    return place < 0 && (int64_t)call->ranks == kineto->ranks ? kineto->rank : place;
}

/* Returns the identity (>= 1) of the call's process group. The group's first call appends its COMM,
 * unless the number of its ranks is unknown. */
static uint64_t find_group(dl_kineto *kineto, group **groups, size_t *count, dl_kineto_call *call)
{
    complete_group(kineto, call);
    for (size_t i = 0; i < *count; i++) {
        const group *g = &(*groups)[i];
        if (g->name == call->group && g->ranks_text == call->group_ranks && g->ranks == call->ranks)
            return i + 1;
    }
    DL_APPEND(*groups, *count, "process groups") =
        (group){call->group, call->group_ranks, call->ranks};
    if (call->ranks > 0) {
        const int64_t place = place_in(kineto, call);
        const bool told = strcmp(kineto->builder.trace.strings[call->group_text], "undefined") != 0;
        const dl_activity made = {
            .kind = DL_ACTIVITY_COMM,
            .name = call->group_text != 0 && told ? call->group_text : call->group,
            .detail = call->group_ranks,
            .object = *count,
            .peer = place >= 0 && place < DL_RANK_UNKNOWN ? (uint32_t)place : DL_RANK_UNKNOWN,
            .count = call->ranks,
            .start_ns = call->start_ns};
        dl_trace_builder_append(&kineto->builder, &made);
    }
    return *count;
}

/* Returns the peer of a Send or Recv as its place in the group; 0 for other collectives. */
static uint32_t peer_of(const dl_kineto *kineto, const dl_kineto_call *call)
{
    int64_t place = call->peer_place;
    if (!is_any(call->collective, with_peer)) return 0;
    if (call->peer >= 0)
        place = dl_group_place(kineto->builder.trace.strings[call->group_ranks], call->ranks,
                               call->peer);
    return place >= 0 && place < DL_RANK_UNKNOWN ? (uint32_t)place : DL_RANK_UNKNOWN;
}

/* Sets the times of a call known from a kernel to those of its launch; returns false if there is no
 * launch. */
static bool find_launch(dl_kineto_call *call, const dl_launches *launches)
{
    const dl_activity *launch = dl_launches_find(launches, call->correlation);
    if (launch == NULL) return false;
    call->thread = launch->thread;
    call->start_ns = launch->start_ns;
    call->duration_ns = launch->duration_ns;
    return true;
}

/* Returns whether the job has process groups of some of its ranks. */
static bool has_parts(const dl_kineto *kineto)
{
    for (size_t i = 0; i < kineto->group_count; i++) {
        const int64_t ranks = kineto->groups[i].ranks;
        if (ranks > 1 && ranks != kineto->ranks) return true;
    }
    return false;
}

/* Notes that `calls` calls do not name their process group, and lists the job's first 8 groups in
 * the trace's metadata. */
static void note_ungrouped(dl_kineto *kineto, size_t calls)
{
    DL_AUTOFREE char *list = NULL;
    size_t listed = 0;
    dl_read_note(kineto->item,
                 "%zu of %zu calls of collectives do not name their process group, and the job has "
                 "several: their number of ranks is unknown",
                 calls, kineto->call_count);
    for (size_t i = 0; i < kineto->group_count && listed < 8; i++) {
        const dl_kineto_group *g = &kineto->groups[i];
        if (g->ranks == 0) continue;
        dl_join_format(&list, ", ", "%.40s of %" PRIu32 " ranks",
                       kineto->builder.trace.strings[g->description], g->ranks);
        listed++;
    }
    dl_trace_builder_meta(&kineto->builder, DL_META_UNGROUPED, "%s", list);
}

/* Keeps only the calls from the best source. Calls known from kernels get the times of their
 * launches, and are dropped without a launch. Calls without a group are taken to be of all ranks,
 * unless the job has groups of some of them: gloo's ranges do not name their group. */
static void choose(dl_kineto *kineto)
{
    dl_kineto_told best = TOLD_BY_PARAMETERS;
    DL_SCOPED(dl_launches) launches = {0};
    size_t kept = 0, unclear = 0;
    const bool parts = has_parts(kineto);
    while (best + 1 < TOLD_END && kineto->told[best] == 0)
        best++;
    dl_launches_init(&launches, kineto->builder.trace.activities,
                     kineto->builder.trace.activity_count);
    for (size_t i = 0; i < kineto->call_count; i++) {
        dl_kineto_call *call = &kineto->calls[i];
        if (call->told != best) continue;
        if (best == TOLD_BY_KERNEL && !find_launch(call, &launches)) continue;
        if (call->ranks == 0 && call->group == 0 && kineto->ranks > 0 && !parts)
            call->ranks = (uint32_t)kineto->ranks;
        unclear += call->ranks == 0 && call->group == 0 && parts;
        kineto->calls[kept++] = *call;
    }
    kineto->call_count = kept;
    if (unclear > 0) note_ungrouped(kineto, unclear);
}

/* Appends COLLECTIVEs and COMMs of the best source; called at the end. */
static void kineto_add_collectives(dl_kineto *kineto)
{
    DL_AUTOFREE group *groups = NULL;
    size_t group_count = 0, unknown = 0;
    if (kineto->call_count == 0) return;
    choose(kineto);
    for (size_t i = 0; i < kineto->call_count; i++) {
        dl_kineto_call *call = &kineto->calls[i];
        const uint64_t of = find_group(kineto, &groups, &group_count, call);
        const dl_activity collective = {
            .kind = DL_ACTIVITY_COLLECTIVE,
            .name = dl_trace_builder_name(&kineto->builder, call->collective),
            .detail = call->integers
                          ? dl_trace_builder_name(&kineto->builder, DL_COLLECTIVE_OF_INTEGERS)
                          : 0,
            .thread = call->thread,
            .bytes =
                dl_comm_rank_bytes(call->collective, call->in_bytes, call->out_bytes, call->ranks),
            .peer = peer_of(kineto, call),
            .object = of,
            .start_ns = call->start_ns,
            .duration_ns = call->duration_ns,
        };
        unknown += collective.bytes == 0;
        dl_trace_builder_append(&kineto->builder, &collective);
    }
    if (unknown > 0) {
        dl_read_note(kineto->item, "%zu of %zu calls of collectives do not give their bytes",
                     unknown, kineto->call_count);
    }
}

/* Fraction of launches without a kernel above which the trace counts as sub-sampled. Complete
 * traces lack a few hundred kernels at their ends. */
#define MISSING_FRAC 0.1

DL_ORDER(by_correlation, dl_kineto_copy, DL_BY(correlation));

DL_ORDER(by_object, dl_kineto_wait, DL_BY(object));

DL_ORDER(by_number, uint32_t, DL_COMPARE(*a, *b));

/* Adds base_ns to all times; removes activities whose times become invalid. */
static void shift(dl_kineto *kineto)
{
    dl_trace *trace = &kineto->builder.trace;
    size_t kept = 0;
    for (size_t i = 0; i < trace->activity_count; i++) {
        dl_activity *a = &trace->activities[i];
        if (__builtin_add_overflow(a->start_ns, kineto->base_ns, &a->start_ns) ||
            !dl_activity_valid(a)) {
            kineto->builder.invalid++;
            continue;
        }
        trace->activities[kept++] = *a;
    }
    trace->activity_count = kept;
    for (size_t i = 0; i < kineto->call_count; i++) {
        dl_kineto_call *call = &kineto->calls[i];
        if (__builtin_add_overflow(call->start_ns, kineto->base_ns, &call->start_ns))
            call->start_ns = -1; /* rejected when it is appended */
    }
}

/* The time of a range of a backward pass. */
typedef struct pass {
    int64_t start_ns, end_ns;
} pass;

DL_ORDER(by_end, pass, DL_BY(end_ns), DL_BY_DESCENDING(start_ns));

/* Makes an optimizer's range that contains backward passes begin at the end of the last one: the
 * step was called with a closure that runs the forward and backward pass, as in Lightning. If there
 * are such ranges, one that starts after the trace's last backward pass is not an update, but a
 * closure cut off by the end of the trace. */
static void end_closures(dl_kineto *kineto)
{
    const dl_trace *trace = &kineto->builder.trace;
    DL_AUTOFREE pass *passes = NULL;
    size_t count = 0, shortened = 0;
    bool several = false; /* LBFGS, which calls its closure several times a step */
    const uint32_t cut_off = dl_trace_builder_name(&kineto->builder, "closure, cut off");
    DL_AUTOFREE uint8_t *roles = dl_calloc(trace->string_count, 1, "roles of ranges");
    for (size_t i = 0; i < trace->string_count; i++)
        roles[i] = dl_range_roles(trace->strings[i]);
    for (size_t i = 0; i < trace->activity_count; i++) {
        const dl_activity *a = &trace->activities[i];
        if (a->kind != DL_ACTIVITY_RANGE || roles[a->name] != DL_ROLE_BACKWARD) continue;
        DL_APPEND(passes, count, "backward passes") =
            (pass){a->start_ns, a->start_ns + a->duration_ns};
    }
    if (count > 0) qsort(passes, count, sizeof *passes, by_end);
    for (size_t i = 0; i < trace->activity_count; i++) {
        dl_activity *a = &trace->activities[i];
        const int64_t end_ns = a->start_ns + a->duration_ns;
        size_t after = 0;
        if (a->kind != DL_ACTIVITY_RANGE || roles[a->name] != DL_ROLE_UPDATE) continue;
        DL_BISECT(after, count, passes[after].end_ns <= end_ns);
        if (after == 0 || passes[after - 1].start_ns < a->start_ns) continue;
        a->start_ns = passes[after - 1].end_ns;
        a->duration_ns = end_ns - a->start_ns;
        shortened++;
        several = several || strstr(trace->strings[a->name], "#LBFGS.") != NULL;
    }
    for (size_t i = 0; i < trace->activity_count && shortened > 0; i++) {
        dl_activity *a = &trace->activities[i];
        if (a->kind == DL_ACTIVITY_RANGE && roles[a->name] == DL_ROLE_UPDATE &&
            a->start_ns > passes[count - 1].end_ns)
            a->name = cut_off;
    }
    if (shortened > 0)
        dl_read_note(kineto->item,
                     "%zu ranges of an optimizer's step contain backward passes (a closure, as in "
                     "Lightning): the updates are what follows these%s",
                     shortened,
                     several ? ". LBFGS calls it several times a step, and DistributedDataParallel "
                               "exchanges gradients each time: dlsim does once a step"
                             : "");
}

/* Sets the bytes of copies from their calls if the copies do not give them. */
static void size_copies(dl_kineto *kineto)
{
    dl_trace *trace = &kineto->builder.trace;
    size_t unknown = 0, copies = 0;
    if (kineto->copy_count > 0)
        qsort(kineto->copies, kineto->copy_count, sizeof *kineto->copies, by_correlation);
    for (size_t i = 0; i < trace->activity_count; i++) {
        dl_activity *a = &trace->activities[i];
        if (a->kind != DL_ACTIVITY_MEMCPY) continue;
        copies++;
        if (a->bytes > 0) continue;
        const dl_kineto_copy key = {.correlation = a->correlation}, *found = NULL;
        if (kineto->copy_count > 0)
            found = bsearch(&key, kineto->copies, kineto->copy_count, sizeof key, by_correlation);
        if (found != NULL) a->bytes = found->bytes;
        unknown += found == NULL;
    }
    if (unknown > 0) {
        dl_read_note(kineto->item, "%zu of %zu copies do not give their bytes", unknown, copies);
    }
}

/* Adds an EVENT for each awaited record, at the call that made it. */
static void add_events(dl_kineto *kineto)
{
    dl_launches launches = {0};
    size_t count = 0, lost = 0;
    if (kineto->wait_count == 0) return;
    qsort(kineto->waits, kineto->wait_count, sizeof *kineto->waits, by_object);
    DL_AUTOFREE dl_activity *events = dl_calloc(kineto->wait_count, sizeof *events, "events");
    dl_launches_init(&launches, kineto->builder.trace.activities,
                     kineto->builder.trace.activity_count);
    for (size_t i = 0; i < kineto->wait_count; i++) {
        const dl_kineto_wait *w = &kineto->waits[i];
        if (i > 0 && w->object == kineto->waits[i - 1].object) continue;
        const dl_activity *call = dl_launches_find(&launches, w->record);
        if (call == NULL) {
            lost++;
            continue;
        }
        events[count++] = (dl_activity){.kind = DL_ACTIVITY_EVENT,
                                        .device = w->device,
                                        .stream = w->stream,
                                        .correlation = w->record,
                                        .object = w->object,
                                        .start_ns = call->start_ns};
    }
    dl_launches_free(&launches);
    for (size_t i = 0; i < count; i++)
        dl_trace_builder_append(&kineto->builder, &events[i]);
    if (lost > 0) {
        dl_read_note(kineto->item, "%zu events that were waited for were recorded before the trace",
                     lost);
    }
}

static bool is_kernel_launch(const char *name)
{
    return strstr(name, "LaunchKernel") != NULL || strstr(name, "LaunchCooperativeKernel") != NULL;
}

/* Notes a sub-sampled trace, which is only recognizable by launches without kernels. A trace
 * without any kernel is reported by dl_cpu_lost_device: the profiler had no permission to record
 * them. */
static void note_missing_kernels(dl_kineto *kineto)
{
    const dl_trace *trace = &kineto->builder.trace;
    size_t kernels = 0, launches = 0, missing = 0;
    DL_AUTOFREE uint32_t *seen = dl_calloc(trace->activity_count, sizeof *seen, "kernels");
    DL_AUTOFREE bool *launching = dl_calloc(trace->string_count, sizeof *launching, "calls");
    for (size_t i = 0; i < trace->string_count; i++)
        launching[i] = is_kernel_launch(trace->strings[i]);
    for (size_t i = 0; i < trace->activity_count; i++) {
        if (trace->activities[i].kind == DL_ACTIVITY_KERNEL)
            seen[kernels++] = trace->activities[i].correlation;
    }
    if (kernels > 0) qsort(seen, kernels, sizeof *seen, by_number);
    for (size_t i = 0; i < trace->activity_count; i++) {
        const dl_activity *a = &trace->activities[i];
        if (a->kind != DL_ACTIVITY_CALL || !launching[a->name]) continue;
        launches++;
        missing +=
            kernels > 0 && bsearch(&a->correlation, seen, kernels, sizeof *seen, by_number) == NULL;
    }
    if (missing > 0 && (double)missing > MISSING_FRAC * (double)launches) {
        dl_read_note(kineto->item,
                     "%zu of %zu launches of kernels have no kernel: the trace may be thinned out",
                     missing, launches);
    }
}

/* Notes lost dependencies: a cudaStreamWaitEvent is recorded without its event and stream unless
 * cuda_sync is enabled. */
static void note_lost_edges(dl_kineto *kineto)
{
    const dl_trace *trace = &kineto->builder.trace;
    size_t waits = 0, syncs = 0;
    for (size_t i = 0; i < trace->activity_count; i++) {
        const dl_activity *a = &trace->activities[i];
        syncs += a->kind == DL_ACTIVITY_SYNC;
        waits += a->kind == DL_ACTIVITY_CALL &&
                 strstr(trace->strings[a->name], "StreamWaitEvent") != NULL;
    }
    if (waits > 0 && syncs == 0) {
        dl_read_note(kineto->item,
                     "%zu waits of streams for one another are recorded without their events (the "
                     "profiler's cuda_sync events were off)",
                     waits);
    }
}

/* Returns the number after "rank" or "worker" in the file's name, or -1. */
static int64_t rank_of_name(const char *path)
{
    static const char *const words[] = {"rank", "worker"};
    const char *name = dl_base_name(path);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        const char *at = strcasestr(name, words[i]);
        if (at == NULL) continue;
        at += strlen(words[i]);
        at += *at == '-' || *at == '_';
        if (isdigit((unsigned char)*at)) return strtoll(at, NULL, 10);
    }
    return -1;
}

static void tell_rank(dl_kineto *kineto)
{
    dl_trace_builder *builder = &kineto->builder;
    if (kineto->rank < 0) {
        kineto->rank = rank_of_name(builder->trace.path);
        if (kineto->rank >= 0) {
            dl_read_note(kineto->item, "the rank is taken from the file's name");
        } else if (kineto->ranks > 1 || kineto->call_count > 0) {
            dl_read_note(kineto->item, "the trace does not give its rank");
        }
    }
    if (kineto->ranks <= 0 && kineto->call_count > 0)
        dl_read_note(kineto->item, "the trace does not give the number of ranks");
    if (kineto->rank >= 0) dl_trace_builder_meta(builder, "rank", "%" PRId64, kineto->rank);
    if (kineto->ranks > 0) dl_trace_builder_meta(builder, "world_size", "%" PRId64, kineto->ranks);
}

static void tell_process(dl_kineto *kineto)
{
    char key[40];
    if (kineto->pid < 0) return;
    dl_trace_builder_meta(&kineto->builder, "pid", "%" PRId64, kineto->pid);
    snprintf(key, sizeof key, "process.%" PRId64, kineto->pid);
    const char *name = dl_trace_meta(&kineto->builder.trace, key);
    if (name != NULL) dl_trace_builder_meta(&kineto->builder, "command", "%s", name);
    if (kineto->several_pids) {
        dl_trace_builder_meta(&kineto->builder, DL_META_MERGED, "yes");
        dl_read_note(kineto->item, "the host's calls are of several processes, taken as one");
    }
}

static void note_rest(dl_kineto *kineto)
{
    if (!kineto->has_fraction && kineto->builder.trace.activity_count > 0) {
        dl_read_note(kineto->item,
                     "times are whole microseconds: short kernels and gaps are inexact");
    }
    if (kineto->python_functions > 0) {
        dl_read_note(kineto->item, "%" PRIu64 " Python functions are left out",
                     kineto->python_functions);
    }
    if (kineto->other_events > 0) {
        dl_read_note(kineto->item,
                     "%" PRIu64 " events of unknown categories are left out, the first of '%s'",
                     kineto->other_events, kineto->other_category);
    }
}

void dl_kineto_finish(dl_kineto *kineto)
{
    tell_rank(kineto);
    tell_process(kineto);
    shift(kineto);
    dl_kineto_leave_out_inputs(kineto);
    end_closures(kineto);
    size_copies(kineto);
    add_events(kineto);
    note_lost_edges(kineto);
    note_missing_kernels(kineto);
    kineto_add_collectives(kineto);
    note_rest(kineto);
    dl_kineto_tell_samples(kineto);
    dl_trace_builder_meta(&kineto->builder, "clock", "realtime");
    dl_trace_builder_meta(&kineto->builder, "framework", "PyTorch");
}
