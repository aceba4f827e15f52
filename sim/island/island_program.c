/* Builds the program of a step: the tasks of all ranks of a worker. */
#include "sim/island/island.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/units.h"

/* First and last segment of each pass of a rank. */
typedef struct segments {
    uint32_t *first[2], *last[2]; /* for backward and forward: [ranks x chunks x micro-batches] */
} segments;

typedef struct builder {
    const dl_island_shape *shape;
    dl_island_program *made;
    segments passes;
    double *issue_ns, *issued_ns; /* [ranks x passes] when the host starts and ends the pass's
                                   * launch */
    uint32_t *segment;            /* [ranks] segment added last */
    uint32_t *scattered;          /* [ranks] last scatter of the previous backward pass, or
                                   * DL_TASK_NONE */
} builder;

/* Number of passes per direction. */
static int half_count(const dl_split *split)
{
    return split->micro_batches * split->chunks;
}

static int pass_count(const dl_island_shape *shape)
{
    return 2 * half_count(&shape->split);
}

static bool is_forward(const dl_island_shape *shape, int stage, int pass)
{
    return dl_pipeline_is_forward(shape->schedule, &shape->split, stage, pass);
}

/* Index of the pass in `passes`. */
static size_t place_of(const dl_split *split, int rank, int chunk, int micro_batch)
{
    return (size_t)(rank * split->chunks + chunk) * (size_t)split->micro_batches +
           (size_t)micro_batch;
}

static const dl_buckets *buckets_of(const builder *b, int rank)
{
    const dl_island_shape *shape = b->shape;
    return shape->buckets != NULL ? &shape->buckets[dl_split_stage(&shape->split, rank)] : NULL;
}

/* Adds a task of `rank`; returns its number. */
static uint32_t add_task(builder *b, int rank, const dl_task *task)
{
    dl_island_program *made = b->made;
    const size_t n = made->program.task_count;
    made->rank = dl_grow(made->rank, n, sizeof *made->rank, "tasks");
    made->pass = dl_grow(made->pass, n, sizeof *made->pass, "tasks");
    made->crossing_bytes = dl_grow(made->crossing_bytes, n, sizeof *made->crossing_bytes, "tasks");
    made->crossing_bytes[n] = 0;
    made->rank[n] = rank;
    made->pass[n] = 0;
    return dl_program_add(&made->program, task);
}

static uint32_t add(builder *b, int rank, int lane, dl_island_task kind, double work_ns, int slot)
{
    return add_task(b, rank,
                    &(dl_task){.lane = dl_island_lane(rank, lane),
                               .kind = (uint8_t)kind,
                               .work_ns = work_ns,
                               .slot = slot,
                               .is_steady = kind == DL_ISLAND_TENSOR || kind == DL_ISLAND_MESSAGE,
                               .is_owned = kind > DL_ISLAND_TENSOR});
}

static void after(builder *b, uint32_t to, uint32_t from)
{
    dl_program_add_after(&b->made->program, to, from);
}

/* --- when the host launches a pass ------------------------------------------------------------ */

static double launch_ns(const dl_island_shape *shape, int rank, int pass)
{
    const int number = dl_split_stage(&shape->split, rank);
    const dl_stage *stage = &shape->stages[number];
    return shape->launch_ns * (shape->single_thread ? shape->split.tensor : 1) *
           (is_forward(shape, number, pass) ? stage->launch_forward : stage->launch_backward) /
           shape->split.chunks;
}

static void set_launch(builder *b, int rank, int pass, double *at_ns)
{
    const size_t i = (size_t)rank * (size_t)pass_count(b->shape) + (size_t)pass;
    b->issue_ns[i] = *at_ns;
    *at_ns += launch_ns(b->shape, rank, pass);
    b->issued_ns[i] = *at_ns;
}

/* A thread of one rank: with stages it launches the passes one by one, otherwise the step as a
 * whole. */
static void launch_alone(builder *b, int rank)
{
    const int passes = pass_count(b->shape);
    double at_ns = 0;
    for (int p = 0; p < passes; p++)
        set_launch(b, rank, p, &at_ns);
    b->made->rank_ns[rank] = at_ns;
}

/* A single thread for all GPUs: takes them in turn, one pass each. */
static void launch_in_turn(builder *b, int worker)
{
    const int ranks = b->made->ranks, passes = pass_count(b->shape);
    const bool by_pass = b->shape->split.stages > 1;
    double at_ns = 0;
    for (int turn = 0; turn < (by_pass ? passes : 1); turn++) {
        for (int w = 0; w < b->shape->workers; w++) {
            for (int r = 0; r < ranks; r++) {
                for (int p = by_pass ? turn : 0; p < (by_pass ? turn + 1 : passes); p++) {
                    double end_ns = at_ns;
                    if (w == worker) set_launch(b, r, p, &end_ns);
                    at_ns += launch_ns(b->shape, r, p);
                }
            }
        }
    }
    b->made->thread_ns = at_ns;
}

static void launch(builder *b, int worker)
{
    const int ranks = b->made->ranks, passes = pass_count(b->shape);
    const size_t count = (size_t)ranks * (size_t)passes;
    b->issue_ns = dl_calloc(count, sizeof *b->issue_ns, "launches");
    b->issued_ns = dl_calloc(count, sizeof *b->issued_ns, "launches");
    if (b->shape->single_thread) {
        launch_in_turn(b, worker);
    } else {
        b->made->rank_ns = dl_calloc((size_t)ranks, sizeof *b->made->rank_ns, "launches");
        for (int r = 0; r < ranks; r++)
            launch_alone(b, r);
    }
    if (b->shape->reads_batches) {
        memset(b->issue_ns, 0, count * sizeof *b->issue_ns);
        memset(b->issued_ns, 0, count * sizeof *b->issued_ns);
        return;
    }
    for (int r = 0; r < ranks && b->shape->split.stages == 1; r++) {
        for (int p = 1; p < passes; p++)
            b->issue_ns[r * passes + p] = b->issue_ns[r * passes];
        for (int p = 0; p + 1 < passes; p++)
            b->issued_ns[r * passes + p] = 0;
    }
}

/* --- shards ----------------------------------------------------------------------------------- */

/* Number of the collective for a bucket. Buckets of equal bytes, up to rounding, share one: a rank
 * runs only one at a time. */
static int collective_of(builder *b, int rank, int bucket, bool gathers, bool experts)
{
    dl_island_program *made = b->made;
    const dl_buckets *buckets = buckets_of(b, rank);
    const double bytes = dl_buckets_part(buckets, bucket, experts);
    const dl_island_collective wanted = {dl_split_stage(&b->shape->split, rank), bucket, gathers,
                                         experts};
    for (int c = 0; c < made->collective_count; c++) {
        const dl_island_collective *has = &made->collectives[c];
        if (has->stage == wanted.stage && has->gathers == wanted.gathers &&
            has->experts == experts &&
            fabs(dl_buckets_part(buckets, has->bucket, experts) - bytes) <= 1e-9 * bytes)
            return c;
    }
    DL_APPEND(made->collectives, made->collective_count, "collectives") = wanted;
    return made->collective_count - 1;
}

/* Whether shards gather or reduce this part of a bucket: all of them the part that is not experts,
 * those with the same experts the rest. */
static bool is_shared(const builder *b, int rank, int bucket, bool experts)
{
    const dl_split *split = &b->shape->split;
    const dl_buckets *buckets = buckets_of(b, rank);
    if (buckets->expert_bytes == NULL) return !experts && split->shards > 1;
    return dl_buckets_part(buckets, bucket, experts) > 0 &&
           (experts ? dl_split_owners(split) : split->shards) > 1;
}

/* First task of a segment: its collectives if it has any. */
static uint32_t first_of(const builder *b, uint32_t segment)
{
    const dl_task *tasks = b->made->program.tasks;
    const bool has = segment > 0 && tasks[segment - 1].kind == DL_ISLAND_TENSOR &&
                     tasks[segment - 1].lane == tasks[segment].lane;
    return has ? segment - 1 : segment;
}

/* Gathers the parameters of `segment` once `before` has started. With several stages, which keep
 * the parameters, gathers start with the step. */
static void gather(builder *b, int rank, int bucket, uint32_t before, uint32_t segment)
{
    for (int experts = 0; experts < 2; experts++) {
        if (!is_shared(b, rank, bucket, experts)) continue;
        const uint32_t task = add(b, rank, DL_ISLAND_COMMUNICATES, DL_ISLAND_GATHER, 0,
                                  collective_of(b, rank, bucket, true, experts));
        if (b->shape->split.stages == 1)
            dl_program_add_edge(
                &b->made->program,
                &(dl_task_edge){.from = first_of(b, before), .to = task, .from_start = true});
        after(b, first_of(b, segment), task);
    }
}

/* Makes `segment` wait for the bucket's parameters from a server, or for all of them (-1); shards
 * gather them afterwards. */
static void await_parameters(builder *b, int rank, int bucket, uint32_t segment)
{
    const uint32_t task = add(b, rank, DL_ISLAND_COMMUNICATES, DL_ISLAND_PARAMETERS, 0, bucket);
    after(b, first_of(b, segment), task);
}

/* Compresses a bucket's gradients, or all of them (bucket = -1), after task `behind`: on the stream
 * of the passes or, if shards have reduced them, concurrently with it. Returns the task whose end
 * makes the messages ready. */
static uint32_t make_message(builder *b, int rank, int bucket, uint32_t behind)
{
    const dl_island_shape *shape = b->shape;
    const int stage = dl_split_stage(&shape->split, rank);
    const bool is_beside = shape->split.shards > 1;
    double ns = shape->message_ns[stage];
    if (bucket >= 0) ns *= buckets_of(b, rank)->bytes_share[bucket];
    if (!(ns > 0)) return behind;
    const uint32_t task =
        add(b, rank, is_beside ? DL_ISLAND_UPDATES : DL_ISLAND_COMPUTES, DL_ISLAND_MESSAGE, ns, 0);
    after(b, task, behind);
    if (!is_beside) b->segment[rank] = task;
    return task;
}

static void tell_ready(builder *b, int rank, int bucket, uint32_t behind)
{
    const uint32_t task = add(b, rank, DL_ISLAND_UPDATES, DL_ISLAND_READY, 0, bucket);
    after(b, task, behind);
}

static void scatter(builder *b, int rank, int bucket, uint32_t segment, bool tells)
{
    uint32_t task = segment;
    for (int experts = 0; experts < 2; experts++) {
        if (!is_shared(b, rank, bucket, experts)) continue;
        task = b->scattered[rank] = add(b, rank, DL_ISLAND_COMMUNICATES, DL_ISLAND_SCATTER, 0,
                                        collective_of(b, rank, bucket, false, experts));
        after(b, task, segment);
    }
    if (b->shape->split.shards > 1 && tells) task = make_message(b, rank, bucket, task);
    if (tells) tell_ready(b, rank, bucket, task);
}

/* Marks the rank's latest collective as the last one of an exchange. */
static void end_exchange(builder *b, int rank)
{
    const uint32_t lane = dl_island_lane(rank, DL_ISLAND_COMMUNICATES);
    size_t t = b->made->program.task_count;
    while (t > 0 && b->made->program.tasks[t - 1].lane != lane)
        t--;
    if (t > 0) b->made->pass[t - 1] = 1;
}

/* Adds gathers and scatters of a backward pass of segments segment[count], in the order of their
 * common stream: the next layers' parameters are requested before a layer's gradients are ready. */
static void communicate_back(builder *b, int rank, const uint32_t *segment, uint32_t before,
                             bool gathers, bool scatters, bool tells)
{
    const int count = buckets_of(b, rank)->count;
    if (gathers) gather(b, rank, 0, before, segment[0]);
    for (int i = 0; i < count; i++) {
        if (gathers && i + 1 < count) gather(b, rank, i + 1, segment[i], segment[i + 1]);
        if (scatters) scatter(b, rank, i, segment[i], tells);
    }
    if (scatters) end_exchange(b, rank);
}

/* Whether shards gather parameters and reduce gradients in each pass; otherwise they gather in the
 * first forward pass of a step and reduce in the last backward pass. */
static bool in_each_pass(const dl_split *split)
{
    return split->stages == 1 && dl_split_is_sharded(split);
}

/* --- passes ----------------------------------------------------------------------------------- */

/* Adds a part of a pass, which starts with the collectives of its layers. */
static uint32_t add_segment(builder *b, int rank, bool forward, dl_pass_of of, double share,
                            double pass_ns)
{
    const dl_island_tensor *tensors = b->shape->tensors;
    const int slot = 2 * (rank * b->shape->split.chunks + of.chunk) + forward;
    const double tensor_ns = tensors != NULL ? share * tensors[slot].ns : 0;
    if (tensor_ns > 0) {
        const uint32_t first = add(b, rank, DL_ISLAND_COMPUTES, DL_ISLAND_TENSOR, tensor_ns, slot);
        b->made->pass[first] = of.micro_batch;
    }
    const double work_ns = share * pass_ns;
    const uint32_t task = add(b, rank, DL_ISLAND_COMPUTES,
                              forward ? DL_ISLAND_FORWARD : DL_ISLAND_BACKWARD, work_ns, 0);
    b->made->pass[task] = of.micro_batch;
    b->segment[rank] = task;
    return task;
}

/* Makes a pass end no earlier than its launch, which the host starts after a wait for the GPU:
 * before the pass or, without stages, before the forward pass of the same micro-batch. */
static void wait_for_launch(builder *b, int rank, int pass, bool forward, dl_pass_of of)
{
    const dl_split *split = &b->shape->split;
    const bool is_second = split->stages == 1 && !forward;
    const double ns = launch_ns(b->shape, rank, pass) * (is_second ? 2 : 1);
    if (!b->shape->reads_batches || ns == 0) return;
    const size_t place = place_of(split, rank, of.chunk, of.micro_batch);
    const uint32_t end = add(b, rank, DL_ISLAND_COMPUTES, DL_ISLAND_LAUNCHED, 0, 0);
    dl_program_add_edge(&b->made->program,
                        &(dl_task_edge){.from = b->passes.first[forward || is_second][place],
                                        .to = end,
                                        .lag_ns = dl_ns_ceil(ns),
                                        .from_start = true});
    b->segment[rank] = end;
}

/* Adds a forward pass: the part before the first layer with parameters, then the buckets from the
 * last to the first. */
static void add_divided_forward(builder *b, int rank, dl_pass_of k, bool is_first, double work_ns)
{
    const dl_buckets *buckets = buckets_of(b, rank);
    const int count = buckets->count;
    const bool gathers = in_each_pass(&b->shape->split) || is_first;
    uint32_t before = add_segment(b, rank, true, k, buckets->share[count], work_ns);
    after(b, first_of(b, before), b->scattered[rank]); /* scatter of the previous pass */
    for (int i = count - 1; i >= 0; i--) {
        const uint32_t segment = add_segment(b, rank, true, k, buckets->share[i], work_ns);
        if (is_first && b->shape->awaits_parameters) await_parameters(b, rank, i, segment);
        if (gathers) gather(b, rank, i, before, segment);
        before = segment;
    }
    if (gathers && !in_each_pass(&b->shape->split)) end_exchange(b, rank);
}

static void add_divided_backward(builder *b, int rank, int pass, dl_pass_of k, bool is_last,
                                 double work_ns)
{
    const dl_buckets *buckets = buckets_of(b, rank);
    const int count = buckets->count;
    const dl_island_shape *shape = b->shape;
    const bool alone = in_each_pass(&shape->split);
    const uint32_t before = b->segment[rank];
    const bool tells = shape->tells_ready && shape->exchanges_buckets && is_last;
    DL_AUTOFREE uint32_t *segment = dl_calloc((size_t)count, sizeof *segment, "segments");
    for (int i = 0; i < count; i++) {
        segment[i] = add_segment(b, rank, false, k, buckets->share[i], work_ns);
        if (tells && shape->split.shards == 1) segment[i] = make_message(b, rank, i, segment[i]);
    }
    const bool has_rest = buckets->share[count] > 0;
    if (has_rest) add_segment(b, rank, false, k, buckets->share[count], work_ns);
    wait_for_launch(b, rank, pass, false, k);
    if (!has_rest) segment[count - 1] = b->segment[rank];
    communicate_back(b, rank, segment, before, alone && shape->within.gathers > 1, alone || is_last,
                     tells);
}

/* Whether the pass handles buckets one by one: shards gather or reduce in it, the parameters of
 * each bucket are awaited, or its gradients are exchanged. */
static bool has_buckets(const builder *b, int rank, bool forward, bool is_first, bool is_last)
{
    const dl_island_shape *shape = b->shape;
    if (buckets_of(b, rank) == NULL) return false;
    if (shape->awaits_parameters && forward && is_first) return true;
    if (shape->split.shards > 1)
        return in_each_pass(&shape->split) || (forward ? is_first : is_last);
    return !forward && is_last && shape->tells_ready && shape->exchanges_buckets;
}

static void add_pass(builder *b, int rank, int pass, bool forward, int number)
{
    const dl_split *split = &b->shape->split;
    const dl_pass_of of = dl_pipeline_find_pass(split, forward, number);
    const dl_stage *piece =
        &b->shape->pieces[of.chunk * split->stages + dl_split_stage(split, rank)];
    const double work_ns = forward ? piece->forward_ns : piece->backward_ns;
    const size_t before = b->made->program.task_count;
    const bool is_last = number == half_count(split) - 1;
    const size_t i = place_of(split, rank, of.chunk, of.micro_batch);
    const size_t launch = (size_t)rank * (size_t)pass_count(b->shape) + (size_t)pass;
    const bool has = has_buckets(b, rank, forward, number == 0, is_last);
    b->passes.first[forward][i] = (uint32_t)before;
    if (has && !forward) {
        add_divided_backward(b, rank, pass, of, is_last, work_ns);
    } else {
        if (has) add_divided_forward(b, rank, of, number == 0, work_ns);
        if (!has) add_segment(b, rank, forward, of, 1, work_ns);
        if (!has && forward && number == 0 && b->shape->awaits_parameters)
            await_parameters(b, rank, -1, b->segment[rank]);
        wait_for_launch(b, rank, pass, forward, of);
    }
    dl_task *tasks = b->made->program.tasks;
    b->passes.last[forward][i] = b->segment[rank];
    tasks[before].issue_ns = dl_ns_ceil(b->issue_ns[launch]);
    tasks[b->segment[rank]].issued_ns = dl_ns_ceil(b->issued_ns[launch]);
}

/* Adds crossings from the rank to the next stage, or back to the previous one. The last stage is
 * followed by the next chunk of the first one. */
static void add_crossing(builder *b, int rank, bool forward)
{
    const dl_split *split = &b->shape->split;
    const int stage = dl_split_stage(split, rank), pieces = split->stages * split->chunks;
    for (int n = 0; n < half_count(split); n++) {
        const dl_pass_of of = dl_pipeline_find_pass(split, forward, n);
        const int piece = of.chunk * split->stages + stage;
        const int to_piece = forward ? piece + 1 : piece - 1;
        if (to_piece < 0 || to_piece >= pieces) continue;
        const int to = dl_split_rank(split, to_piece % split->stages, dl_split_shard(split, rank));
        uint32_t sent = b->passes.last[forward][place_of(split, rank, of.chunk, of.micro_batch)];
        if (!b->shape->free_crossing) {
            const uint32_t crossing =
                add(b, rank, DL_ISLAND_SENDS + forward, DL_ISLAND_CROSSING, 0, 2 * rank + forward);
            b->made->pass[crossing] = (int)sent;
            b->made->crossing_bytes[crossing] =
                b->shape->pieces[forward ? piece : to_piece].crossing_bytes * split->samples;
            /* Without a flush the crossing data belong to a pass of another step. */
            if (dl_schedule_flushes(b->shape->schedule)) after(b, crossing, sent);
            sent = crossing;
        }
        if (b->shape->without_waits) continue;
        const int chunk = to_piece / split->stages;
        after(b, b->passes.first[forward][place_of(split, to, chunk, of.micro_batch)], sent);
        if (forward && n == 0 && chunk == 0) b->made->needed[to] = sent;
    }
}

static void add_rank(builder *b, int rank)
{
    const dl_island_shape *shape = b->shape;
    const int stage = dl_split_stage(&shape->split, rank);
    int done[2] = {0, 0};
    for (int p = 0; p < pass_count(shape); p++) {
        const bool forward = is_forward(shape, stage, p);
        add_pass(b, rank, p, forward, done[forward]++);
    }
    if (shape->with_input && stage == 0) {
        const uint32_t input = add(b, rank, DL_ISLAND_LOADS, DL_ISLAND_INPUT, 0, 0);
        after(b, b->passes.first[true][place_of(&shape->split, rank, 0, 0)], input);
    }
    const bool overlaps = shape->exchanges_buckets && buckets_of(b, rank) != NULL;
    const uint32_t last = b->segment[rank];
    if (shape->tells_ready && !overlaps) {
        const uint32_t made = make_message(b, rank, -1, last);
        if (made != last) after(b, made, b->scattered[rank]);
        tell_ready(b, rank, -1, made);
        after(b, (uint32_t)b->made->program.task_count - 1, b->scattered[rank]);
    }
    const uint32_t update =
        add(b, rank, DL_ISLAND_UPDATES, DL_ISLAND_UPDATE, shape->stages[stage].update_ns, 0);
    after(b, update, last);
    after(b, update, b->scattered[rank]);
}

/* --- a recorded step -------------------------------------------------------------------------- */

/* Makes `to`, which follows the whole step, wait for the last task of each recorded lane. */
static void after_recorded(builder *b, uint32_t to, uint32_t first_lane)
{
    const dl_program *program = &b->made->program;
    for (size_t l = first_lane; l < program->lane_count; l++)
        after(b, to, program->lanes[l].last);
}

/* Makes each bucket of gradients ready after the task at which that many bytes were recorded as
 * ready. */
static void tell_recorded(builder *b, uint32_t first, uint32_t first_lane)
{
    const dl_island_shape *shape = b->shape;
    const dl_buckets *buckets = shape->exchanges_buckets ? buckets_of(b, 0) : NULL;
    const int count = buckets != NULL ? buckets->count : 1;
    double sum = 0, ready = 0;
    for (int i = 0; i < count && buckets != NULL; i++)
        sum += buckets->bytes[i];
    for (int i = 0; i < count; i++) {
        if (buckets != NULL) ready += buckets->bytes[i];
        const uint32_t at = buckets != NULL && i + 1 < count
                                ? dl_recorded_ready_at(shape->recorded, ready / sum)
                                : DL_TASK_NONE;
        tell_ready(b, 0, buckets != NULL ? i : -1, at != DL_TASK_NONE ? first + at : DL_TASK_NONE);
        if (at == DL_TASK_NONE)
            after_recorded(b, (uint32_t)b->made->program.task_count - 1, first_lane);
    }
}

/* Adds the recorded lanes after those of the rank. */
static void add_recorded(builder *b)
{
    const dl_program *of = &b->shape->recorded->program;
    dl_program *program = &b->made->program;
    const uint32_t first = (uint32_t)program->task_count, lanes = (uint32_t)program->lane_count;
    for (size_t l = 0; l < of->lane_count; l++)
        dl_program_add_lane(program);
    for (size_t t = 0; t < of->task_count; t++) {
        dl_task task = of->tasks[t];
        task.lane += lanes;
        task.kind = DL_ISLAND_RECORDED;
        add_task(b, 0, &task);
    }
    for (size_t e = 0; e < of->edge_count; e++) {
        const dl_task_edge *edge = &of->edges[e];
        dl_program_add_edge(program, &(dl_task_edge){edge->from + first, edge->to + first,
                                                     edge->lag_ns, edge->from_start});
    }
    if (b->shape->tells_ready) tell_recorded(b, first, lanes);
    const uint32_t update =
        add(b, 0, DL_ISLAND_UPDATES, DL_ISLAND_UPDATE, b->shape->stages[0].update_ns, 0);
    after_recorded(b, update, lanes);
    b->made->rank_ns = dl_calloc(1, sizeof *b->made->rank_ns, "launches");
}

void dl_island_program_make(dl_island_program *made, const dl_island_shape *shape, int worker)
{
    const int ranks = dl_split_ranks(&shape->split);
    const size_t passes = (size_t)ranks * (size_t)half_count(&shape->split);
    *made = (dl_island_program){.ranks = ranks};
    builder b = {.shape = shape, .made = made};
    made->needed = dl_calloc((size_t)ranks, sizeof *made->needed, "ranks");
    b.segment = dl_calloc((size_t)ranks, sizeof *b.segment, "ranks");
    b.scattered = dl_calloc((size_t)ranks, sizeof *b.scattered, "ranks");
    for (int i = 0; i < 2; i++) {
        b.passes.first[i] = dl_calloc(passes, sizeof(uint32_t), "passes");
        b.passes.last[i] = dl_calloc(passes, sizeof(uint32_t), "passes");
    }
    for (int r = 0; r < ranks; r++) {
        b.scattered[r] = made->needed[r] = DL_TASK_NONE;
        for (int l = 0; l < DL_ISLAND_LANES; l++)
            dl_program_add_lane(&made->program);
    }
    if (shape->recorded != NULL) {
        add_recorded(&b);
    } else {
        launch(&b, worker);
    }
    for (int r = 0; r < ranks && shape->recorded == NULL; r++)
        if (dl_alike_is_first(&shape->shards, dl_split_shard(&shape->split, r))) add_rank(&b, r);
    for (int r = 0; r < ranks && shape->recorded == NULL; r++) {
        if (!dl_alike_is_first(&shape->shards, dl_split_shard(&shape->split, r))) continue;
        add_crossing(&b, r, false);
        add_crossing(&b, r, true);
    }
    dl_program_close(&made->program);
    for (int i = 0; i < 2; i++) {
        free(b.passes.first[i]);
        free(b.passes.last[i]);
    }
    free(b.segment);
    free(b.scattered);
    free(b.issue_ns);
    free(b.issued_ns);
}

void dl_island_program_free(dl_island_program *made)
{
    dl_program_free(&made->program);
    free(made->rank);
    free(made->pass);
    free(made->crossing_bytes);
    free(made->needed);
    free(made->collectives);
    free(made->rank_ns);
    *made = (dl_island_program){0};
}
