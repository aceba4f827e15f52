#include "tests/calibrate/made_ranks.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/hand_trace.h"

/* Times of the modelled machine, in ns. */
enum {
    CALL_NS = 4000,       /* launching call */
    EVENT_NS = 1200,      /* recording or waiting for an event */
    LATENCY_NS = 6000,    /* from the start of a launch to the start of its work, on an idle
                           * stream */
    SPACING_NS = 1000,    /* between kernels of a stream */
    RETURN_NS = 7000,     /* from the awaited end to the call's return */
    WAKE_NS = 15000,      /* wake-up of one thread by another */
    PARAM_CALL_NS = 20000 /* the framework's call of a collective */
};

static const uint32_t stream_numbers[MADE_STREAMS] = {7, 24, 13, 20};
static const uint32_t thread_numbers[2] = {100, 101};

static dl_activity *add(made_rank *r, dl_activity activity, const char *name)
{
    uint32_t id = 0;
    while (id < r->trace.string_count && strcmp(r->trace.strings[id], name) != 0)
        id++;
    activity.name = id < r->trace.string_count ? id : hand_name(&r->trace, name);
    if (r->trace.activity_count == r->room) {
        r->room = 2 * r->room + 4096;
        r->trace.activities =
            dl_realloc(r->trace.activities, r->room, sizeof *r->trace.activities, "test");
    }
    r->trace.activities[r->trace.activity_count] = activity;
    return &r->trace.activities[r->trace.activity_count++];
}

/* A time of `us` with this rank's jitter, in ns. */
static int64_t some(made_rank *r, const made_model *m, double us)
{
    const double factor = 1 + m->jitter * dl_random_normal(&r->random);
    return llround(1000 * us * r->slow * fmax(0.2, factor));
}

static void add_range(made_rank *r, const made_model *m, int thread, const char *name,
                      int64_t start_ns)
{
    if (m->bare) return;
    add(r,
        (dl_activity){.kind = DL_ACTIVITY_RANGE,
                      .thread = thread_numbers[thread],
                      .start_ns = start_ns,
                      .duration_ns = r->host_ns[thread] - start_ns},
        name);
}

/* Adds a call; returns its start. */
static int64_t add_call(made_rank *r, int thread, const char *name, int64_t ns)
{
    const int64_t start_ns = r->host_ns[thread];
    r->host_ns[thread] += ns;
    add(r,
        (dl_activity){.kind = DL_ACTIVITY_CALL,
                      .thread = thread_numbers[thread],
                      .correlation = ++r->correlation,
                      .start_ns = start_ns,
                      .duration_ns = ns},
        name);
    return start_ns;
}

/* Returns the start on the stream of work launched at `call_ns`. */
static int64_t begin_of(made_rank *r, int stream, int64_t call_ns)
{
    int64_t start_ns = call_ns + LATENCY_NS;
    if (r->stream_ns[stream] > 0 && r->stream_ns[stream] + SPACING_NS > start_ns)
        start_ns = r->stream_ns[stream] + SPACING_NS;
    if (r->ready_ns[stream] + SPACING_NS > start_ns) start_ns = r->ready_ns[stream] + SPACING_NS;
    r->ready_ns[stream] = 0;
    return start_ns;
}

/* Returns the end of computation that takes `ns` when alone. */
static int64_t slowed_end(const made_rank *r, const made_model *m, int64_t start_ns, int64_t ns)
{
    int64_t at_ns = start_ns;
    double left = (double)ns;
    for (size_t i = r->spans > MADE_SPANS ? r->spans - MADE_SPANS : 0; i < r->spans; i++) {
        const int64_t from_ns = r->span_start_ns[i % MADE_SPANS];
        const int64_t to_ns = r->span_end_ns[i % MADE_SPANS];
        if (to_ns <= at_ns) continue;
        if (from_ns > at_ns) {
            if ((double)(from_ns - at_ns) >= left) break;
            left -= (double)(from_ns - at_ns);
            at_ns = from_ns;
        }
        const double within = (double)(to_ns - at_ns) / m->slowdown;
        if (within >= left) return at_ns + llround(left * m->slowdown);
        left -= within;
        at_ns = to_ns;
    }
    return at_ns + llround(left);
}

static void add_work(made_rank *r, dl_activity work, int stream, const char *name)
{
    work.stream = stream_numbers[stream];
    work.correlation = r->correlation;
    r->stream_ns[stream] = work.start_ns + work.duration_ns;
    add(r, work, name);
}

/* Adds the host's gap, a launch, and its kernel, within a range of the given name. */
static void kernel(made_rank *r, const made_model *m, int thread, int stream, const char *range,
                   const char *name, double us)
{
    const int64_t range_ns = r->host_ns[thread];
    r->host_ns[thread] += some(r, m, m->gap_us);
    const int64_t call_ns = add_call(r, thread, "cudaLaunchKernel", CALL_NS);
    add_range(r, m, thread, range, range_ns);
    const int64_t start_ns = begin_of(r, stream, call_ns);
    const int64_t end_ns = slowed_end(r, m, start_ns, some(r, m, us));
    add_work(r,
             (dl_activity){.kind = DL_ACTIVITY_KERNEL,
                           .start_ns = start_ns,
                           .duration_ns = end_ns - start_ns},
             stream, name);
}

static void copy(made_rank *r, int thread, int stream, dl_copy_direction way, uint64_t bytes)
{
    const int64_t call_ns = add_call(r, thread, "cudaMemcpyAsync", CALL_NS);
    add_work(r,
             (dl_activity){.kind = DL_ACTIVITY_MEMCPY,
                           .copy = (uint8_t)way,
                           .memory = DL_MEMORY_PINNED,
                           .bytes = bytes,
                           .start_ns = begin_of(r, stream, call_ns),
                           .duration_ns = 1500 + (int64_t)(bytes / 12)}, /* 12 GB/s */
             stream, "");
}

/* Makes stream `to` wait for all work issued to `from` so far. */
static void order(made_rank *r, int thread, int from, int to)
{
    add_call(r, thread, "cudaEventRecord", EVENT_NS);
    add_call(r, thread, "cudaStreamWaitEvent", EVENT_NS);
    if (r->stream_ns[from] > r->ready_ns[to]) r->ready_ns[to] = r->stream_ns[from];
}

static void wait_for(made_rank *r, int thread, const char *name, int64_t until_ns)
{
    const int64_t now_ns = r->host_ns[thread];
    const int64_t end_ns = (until_ns > now_ns ? until_ns : now_ns) + RETURN_NS;
    add_call(r, thread, name, end_ns - now_ns);
}

static int64_t device_end(const made_rank *r)
{
    int64_t end_ns = 0;
    for (int s = 0; s < MADE_STREAMS; s++)
        end_ns = r->stream_ns[s] > end_ns ? r->stream_ns[s] : end_ns;
    return end_ns;
}

/* Adds an all-reduce of all ranks: launches wait for the compute stream's earlier work; all ranks
 * end together. */
static void all_reduce(made_run *run, int thread, uint64_t bytes)
{
    const made_model *m = &run->model;
    int64_t starts_ns[MADE_RANKS], last_ns = 0;
    for (int k = 0; k < m->ranks; k++) {
        made_rank *r = &run->ranks[k];
        const int64_t begin_ns = r->host_ns[thread];
        order(r, thread, MADE_COMPUTE, MADE_NCCL);
        r->host_ns[thread] += PARAM_CALL_NS;
        const int64_t call_ns = add_call(r, thread, "cudaLaunchKernel", CALL_NS);
        starts_ns[k] = begin_of(r, MADE_NCCL, call_ns);
        if (starts_ns[k] > last_ns) last_ns = starts_ns[k];
        add(r,
            (dl_activity){.kind = DL_ACTIVITY_COLLECTIVE,
                          .thread = thread_numbers[thread],
                          .bytes = bytes,
                          .object = 1,
                          .start_ns = begin_ns,
                          .duration_ns = r->host_ns[thread] - begin_ns},
            "AllReduce");
    }
    const double ns = (1000 * m->latency_us + m->ns_per_byte * (double)bytes) *
                      (1 + 0.01 * dl_random_normal(&run->ranks[0].random));
    for (int k = 0; k < m->ranks; k++) {
        made_rank *r = &run->ranks[k];
        const int64_t end_ns = last_ns + llround(ns);
        r->span_start_ns[r->spans % MADE_SPANS] = starts_ns[k];
        r->span_end_ns[r->spans++ % MADE_SPANS] = end_ns;
        add_work(r,
                 (dl_activity){.kind = DL_ACTIVITY_KERNEL,
                               .start_ns = starts_ns[k],
                               .duration_ns = end_ns - starts_ns[k]},
                 MADE_NCCL, "ncclDevKernel_AllReduce_Sum_f32_RING_LL");
    }
}

static double layer_us(const made_model *m, int layer)
{
    return m->kernel_us * (1 + (double)layer / m->layers);
}

static void forward(made_rank *r, const made_model *m)
{
    char name[64];
    for (int i = 0; i < m->layers; i++) {
        const bool side = m->side && i % 4 == 3;
        if (side) order(r, 0, MADE_COMPUTE, MADE_SIDE);
        snprintf(name, sizeof name, "conv_fprop_layer%d", i);
        kernel(r, m, 0, MADE_COMPUTE, "aten::conv2d", name, layer_us(m, i));
        snprintf(name, sizeof name, "relu_elementwise_layer%d", i);
        kernel(r, m, 0, side ? MADE_SIDE : MADE_COMPUTE, "aten::relu", name, layer_us(m, i) / 2);
        if (side) order(r, 0, MADE_SIDE, MADE_COMPUTE);
    }
}

/* Returns the bucket that is complete once the backward pass has reached `layer`, or -1. */
static int bucket_after(const made_model *m, int layer)
{
    const int done = m->layers - layer;
    for (int b = 0; b < m->buckets; b++) {
        if (done == (b + 1) * m->layers / m->buckets) return b;
    }
    return -1;
}

static uint64_t bucket_bytes(const made_model *m, int bucket)
{
    const int from = bucket * m->layers / m->buckets, to = (bucket + 1) * m->layers / m->buckets;
    return m->bytes * (uint64_t)(to - from) / (uint64_t)m->layers / 4 * 4;
}

static void backward_layer(made_rank *r, const made_model *m, int thread, int layer)
{
    static const char *const kinds[] = {"relu_backward", "conv_dgrad", "conv_wgrad"};
    static const char *const ranges[] = {
        "autograd::engine::evaluate_function: ReluBackward0",
        "autograd::engine::evaluate_function: ConvolutionBackward0",
        "autograd::engine::evaluate_function: ConvolutionBackward0"};
    static const double share[] = {0.5, 1, 1};
    char name[64];
    for (int k = 0; k < 3; k++) {
        snprintf(name, sizeof name, "%s_layer%d", kinds[k], layer);
        kernel(r, m, thread, MADE_COMPUTE, ranges[k], name, share[k] * layer_us(m, layer));
    }
}

static void backward(made_run *run, bool exchange)
{
    const made_model *m = &run->model;
    const int thread = m->autograd;
    for (int k = 0; k < m->ranks && thread == 1; k++)
        run->ranks[k].host_ns[1] = run->ranks[k].host_ns[0] + WAKE_NS;
    for (int i = m->layers; i-- > 0;) {
        for (int k = 0; k < m->ranks; k++)
            backward_layer(&run->ranks[k], m, thread, i);
        const int bucket = bucket_after(m, i);
        if (exchange && bucket >= 0) all_reduce(run, thread, bucket_bytes(m, bucket));
    }
    for (int k = 0; k < m->ranks; k++) {
        made_rank *r = &run->ranks[k];
        if (exchange && m->buckets > 0) order(r, thread, MADE_NCCL, MADE_COMPUTE);
        if (thread == 1) r->host_ns[0] = r->host_ns[1] + WAKE_NS;
    }
}

static void update(made_rank *r, const made_model *m)
{
    const int64_t begin_ns = r->host_ns[0];
    char name[64];
    for (int i = 0; i < m->layers; i++) {
        snprintf(name, sizeof name, "multi_tensor_apply_kernel<SGD>_%d", i);
        kernel(r, m, 0, MADE_COMPUTE, "aten::_foreach_add_", name, m->update_us);
    }
    add_range(r, m, 0, "Optimizer.step#SGD.step", begin_ns);
}

static void begin_step(made_rank *r, const made_model *m, int step)
{
    r->slow = exp(m->lateness * dl_random_normal(&r->random));
    r->host_ns[0] += some(r, m, m->load_us);
    for (int i = 0; step < m->warmup && i < 10; i++) {
        char name[64];
        snprintf(name, sizeof name, "find_algorithm_%u", (unsigned)dl_random_below(&r->random, 50));
        kernel(r, m, 0, MADE_COMPUTE, "cudnn::find", name, 8 * m->kernel_us);
    }
    if (m->input == 0) return;
    copy(r, 0, MADE_COPY, DL_COPY_H2D, m->input);
    order(r, 0, MADE_COPY, MADE_COMPUTE);
}

static void after_step(made_rank *r, const made_model *m, int step)
{
    if (m->validate_every > 0 && (step + 1) % m->validate_every == 0) {
        for (int batch = 0; batch < 3; batch++) {
            r->host_ns[0] += some(r, m, m->load_us);
            forward(r, m);
            kernel(r, m, 0, MADE_COMPUTE, "aten::argmax", "accuracy_kernel", 5);
        }
    }
    if (m->checkpoint_every > 0 && (step + 1) % m->checkpoint_every == 0) {
        for (int i = 0; i < m->layers; i++)
            copy(r, 0, MADE_COMPUTE, DL_COPY_D2H, m->bytes / (uint64_t)m->layers);
        wait_for(r, 0, "cudaDeviceSynchronize", device_end(r));
        r->host_ns[0] += 3000000;
    }
}

static void end_step(made_rank *r, const made_model *m, int step, int64_t begin_ns)
{
    char name[32];
    if (m->item) {
        copy(r, 0, MADE_COMPUTE, DL_COPY_D2H, 4);
        wait_for(r, 0, "cudaStreamSynchronize", r->stream_ns[MADE_COMPUTE]);
    }
    update(r, m);
    if (m->sync) wait_for(r, 0, "cudaDeviceSynchronize", device_end(r));
    snprintf(name, sizeof name, "ProfilerStep#%d", step);
    if (m->marks) add_range(r, m, 0, name, begin_ns);
}

static void make_step(made_run *run, int step)
{
    const made_model *m = &run->model;
    const int micro = m->accumulate > 0 ? m->accumulate : 1;
    int64_t begins_ns[MADE_RANKS];
    for (int k = 0; k < m->ranks; k++) {
        made_rank *r = &run->ranks[k];
        begins_ns[k] = r->host_ns[0];
        r->first_correlation[step] = r->correlation + 1;
        begin_step(r, m, step);
    }
    for (int i = 0; i < micro; i++) {
        for (int k = 0; k < m->ranks; k++)
            forward(&run->ranks[k], m);
        backward(run, i == micro - 1);
    }
    for (int k = 0; k < m->ranks; k++) {
        end_step(&run->ranks[k], m, step, begins_ns[k]);
        run->ranks[k].last_correlation[step] = run->ranks[k].correlation;
        after_step(&run->ranks[k], m, step);
    }
}

static void tell_truth(made_run *run)
{
    const made_model *m = &run->model;
    made_truth *t = &run->truth;
    const double micro = m->accumulate > 0 ? m->accumulate : 1;
    double sum_us = 0, done_us = 0;
    for (int i = 0; i < m->layers; i++)
        sum_us += layer_us(m, i);
    t->forward_ns = micro * (1500 * sum_us + 2.0 * m->layers * SPACING_NS);
    t->backward_ns = micro * (2500 * sum_us + 3.0 * m->layers * SPACING_NS);
    t->update_ns = m->layers * (1000 * m->update_us + SPACING_NS);
    const double launch_ns = 1000 * m->gap_us + CALL_NS, event_ns = 2.0 * EVENT_NS;
    const double side = m->side ? 2.0 * (m->layers / 4) : 0;
    t->host_ns = 1000 * m->load_us + micro * (5.0 * m->layers * launch_ns + side * event_ns) +
                 m->layers * launch_ns;
    if (m->buckets > 0) t->host_ns += m->buckets * (event_ns + PARAM_CALL_NS + CALL_NS) + event_ns;
    if (m->autograd) t->host_ns += micro * 2.0 * WAKE_NS;
    if (m->sync) t->host_ns += RETURN_NS;
    if (m->item) t->host_ns += CALL_NS + RETURN_NS;
    if (m->input > 0) t->host_ns += CALL_NS + event_ns;
    for (int i = m->layers; i-- > 0;) {
        done_us += layer_us(m, i);
        const int b = bucket_after(m, i);
        if (b < 0) continue;
        t->ready[b] = done_us / sum_us;
        t->bytes[b] = (b > 0 ? t->bytes[b - 1] : 0) + (double)bucket_bytes(m, b);
    }
}

made_run *made_run_new(const made_model *model)
{
    made_run *run = dl_calloc(1, sizeof *run, "test");
    run->model = *model;
    tell_truth(run);
    for (int k = 0; k < model->ranks; k++) {
        made_rank *r = &run->ranks[k];
        r->trace = hand_trace();
        r->host_ns[0] = r->host_ns[1] = 1000000;
        r->slow = 1;
        dl_random_init(&r->random, model->seed, (uint32_t)k, 0, 0);
        add(r,
            (dl_activity){.kind = DL_ACTIVITY_COMM,
                          .object = 1,
                          .peer = (uint32_t)k,
                          .count = (uint32_t)model->ranks,
                          .start_ns = 1000000},
            "");
    }
    for (int step = 0; step < model->steps; step++)
        make_step(run, step);
    return run;
}

void made_run_free(made_run *run)
{
    for (int k = 0; k < run->model.ranks; k++)
        dl_trace_free(&run->ranks[k].trace);
    free(run);
}
