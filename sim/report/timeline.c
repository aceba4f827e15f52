#include "sim/report/timeline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "common/chrome_trace.h"
#include "common/units.h"
#include "sim/fits.h"
#include "sim/generate/generate.h"

#define WORKERS_PID 1
#define NETWORK_PID 2
#define GPUS_PID 3 /* GPUs of workers with several GPUs */
#define SERVER_PID 4
#define HOST_PID 5 /* host threads, which launch */
#define LINKS_PID 6

/* Limit on the activities: with the memory course the file stays below 2 MB, which browsers open
 * instantly. */
#define BYTES_MAX 1900000

/* A gradient that no update has applied yet. */
typedef struct gradient {
    int worker;
    int64_t given_ns;
} gradient;

/* A change of the number of workers that wait for a server's lock. */
typedef struct queue_change {
    int64_t ns;
    int by; /* 1 or -1 */
} queue_change;

#define QUEUED_BYTES 90 /* of the counter that is written for each change */

/* A link has moved bytes between two moments at which it was idle. */
typedef struct link_use {
    int link;
    double bytes;
    int64_t start_ns, end_ns;
} link_use;

#define LINKS_MOST 8       /* drawn links */
#define LINK_USE_BYTES 400 /* of a slice and two values of a counter */
#define LINKS_SHARE 6      /* 1/6 of the file is kept for them */

typedef struct timeline {
    dl_chrome_trace trace;
    int64_t bytes_max;
    int all_workers, workers; /* workers of the point; number of drawn workers, which are the first
                               * ones */
    int started;              /* drawn workers that have completed a step */
    int64_t steps;            /* largest number of steps that a drawn worker has completed */
    uint64_t flows;
    gradient *pending; /* [pending_count] gradients not applied yet */
    size_t pending_count;
    queue_change *queue; /* [queue_count] */
    size_t queue_count;
    link_use *uses; /* [use_count] */
    size_t use_count;
    dl_split split;        /* split of workers with several GPUs */
    dl_gpu_memory fullest; /* memory of the fullest stage, fullest_stage, and during a step,
                             * course[course_count] */
    int fullest_stage;
    dl_gpu_content *course;
    size_t course_count;
    double gpu_most_bytes, gpu_least_bytes; /* memory of a worker's only GPU while it computes, at
                                             * most, and otherwise; 0: unknown */
    dl_memory_pass *memory;      /* [stages x passes] memory of a step's passes; NULL: unknown */
    int *pass_number, *pass_key; /* [GPUs] current pass: its number in the step; its micro-batch and
                                  * direction */
    int64_t *passed_ns; /* [GPUs x micro-batches x 2] end of the backward and of the forward pass,
                         * ns */
    int host_threads;   /* drawn ones */
    bool is_full, has_collectives;
} timeline;

static void look_whether_full(timeline *t)
{
    const int64_t later = QUEUED_BYTES * (int64_t)t->queue_count;
    const int64_t of_links = t->use_count > 0 ? t->bytes_max / LINKS_SHARE : 0;
    t->is_full = t->is_full || ftell(t->trace.file.out) + later + of_links >= t->bytes_max;
}

/* Whether a worker's track is drawn. The tracks of communication threads follow those of all
 * workers. */
static bool is_drawn(const timeline *t, int track)
{
    return track % t->all_workers < t->workers;
}

/* Adds an arrow from the end of one slice to the start or the end of another. */
static void add_flow(timeline *t, int from_pid, int from, int64_t from_ns, int to_pid, int to,
                     int64_t to_ns, const char *name)
{
    const uint64_t id = ++t->flows;
    dl_chrome_trace_flow(&t->trace, from_pid, from, id, 1, name, from_ns);
    dl_chrome_trace_flow(&t->trace, to_pid, to, id, 0, name, to_ns);
}

static void on_state(void *user, int worker, dl_worker_state state, int64_t start_ns,
                     int64_t end_ns)
{
    timeline *t = user;
    if (t->is_full || !is_drawn(t, worker)) return;
    dl_chrome_trace_slice(&t->trace, WORKERS_PID, worker, "activity", dl_worker_state_names[state],
                          start_ns, end_ns - start_ns, NULL, 0);
    if (state == DL_STATE_LOCK && end_ns > start_ns) {
        DL_APPEND(t->queue, t->queue_count, "queue") = (queue_change){start_ns, 1};
        DL_APPEND(t->queue, t->queue_count, "queue") = (queue_change){end_ns, -1};
    }
    if (worker == 0 && state == DL_STATE_COMPUTE && t->gpu_most_bytes > 0) {
        dl_chrome_trace_counter(&t->trace, WORKERS_PID, "memory of a GPU GB", start_ns,
                                t->gpu_most_bytes * 1e-9);
        dl_chrome_trace_counter(&t->trace, WORKERS_PID, "memory of a GPU GB", end_ns,
                                t->gpu_least_bytes * 1e-9);
    }
    look_whether_full(t);
}

static int by_time(const void *a, const void *b)
{
    const queue_change *x = a, *y = b;
    return x->ns != y->ns ? (x->ns > y->ns) - (x->ns < y->ns) : x->by - y->by;
}

/* Counts the drawn workers that wait for a server's lock. */
static void put_queue(timeline *t)
{
    int waiting = 0;
    if (t->queue_count > 0) qsort(t->queue, t->queue_count, sizeof *t->queue, by_time);
    for (size_t i = 0; i < t->queue_count; i++) {
        waiting += t->queue[i].by;
        if (i + 1 == t->queue_count || t->queue[i + 1].ns > t->queue[i].ns)
            dl_chrome_trace_counter(&t->trace, WORKERS_PID, "queue", t->queue[i].ns, waiting);
    }
}

static void on_step(void *user, int worker, int64_t step, int64_t start_ns, int64_t end_ns,
                    int staleness)
{
    timeline *t = user;
    const bool has_staleness = staleness != DL_NO_STALENESS_YET;
    if (t->is_full || !is_drawn(t, worker)) return;
    const dl_chrome_arg args[] = {{.key = "step", .number = (double)step},
                                  {.key = "staleness", .number = staleness}};
    dl_chrome_trace_slice(&t->trace, WORKERS_PID, worker, "step", "step", start_ns,
                          end_ns - start_ns, args, has_staleness ? 2 : 1);
    if (has_staleness)
        dl_chrome_trace_counter(&t->trace, WORKERS_PID, "staleness", end_ns, staleness);
    t->started += step == 0;
    if (step >= t->steps) t->steps = step + 1;
    look_whether_full(t);
}

static void on_contribute(void *user, int worker, int64_t step, int64_t read, int64_t now_ns)
{
    (void)step;
    (void)read;
    timeline *t = user;
    if (!t->is_full)
        DL_APPEND(t->pending, t->pending_count, "gradients") = (gradient){worker, now_ns};
}

/* Draws an update on the server's track, starting at its first gradient, and an arrow from each
 * drawn worker. */
static void put_gradients(timeline *t, int64_t now_ns)
{
    const dl_chrome_arg args[] = {{.key = "gradients", .number = (double)t->pending_count}};
    const int64_t since_ns = t->pending[0].given_ns;
    dl_chrome_trace_slice(&t->trace, SERVER_PID, 0, "server", "update", since_ns,
                          now_ns > since_ns ? now_ns - since_ns : 1, args, 1);
    for (size_t i = 0; i < t->pending_count; i++)
        if (t->pending[i].worker < t->workers)
            add_flow(t, WORKERS_PID, t->pending[i].worker, t->pending[i].given_ns, SERVER_PID, 0,
                     t->pending[i].given_ns, "gradient");
}

static void on_update(void *user, int64_t version, int64_t now_ns)
{
    timeline *t = user;
    bool is_of_drawn = t->pending_count == 0;
    for (size_t i = 0; i < t->pending_count; i++)
        is_of_drawn = is_of_drawn || t->pending[i].worker < t->workers;
    if (!t->is_full && is_of_drawn) {
        if (t->pending_count > 0) put_gradients(t, now_ns);
        dl_chrome_trace_counter(&t->trace, WORKERS_PID, "updates", now_ns, (double)version);
        look_whether_full(t);
    }
    t->pending_count = 0;
}

static void on_collective(void *user, const char *kind, int bucket, double bytes, int64_t start_ns,
                          int64_t end_ns)
{
    timeline *t = user;
    const double rate = end_ns > start_ns ? bytes / (double)(end_ns - start_ns) : 0; /* GB/s */
    const dl_chrome_arg args[] = {{.key = "bucket", .number = bucket},
                                  {.key = "bytes", .number = bytes},
                                  {.key = "GB/s", .number = rate}};
    if (t->is_full) return;
    t->has_collectives = true;
    dl_chrome_trace_slice(&t->trace, NETWORK_PID, 0, "collective", kind, start_ns,
                          end_ns - start_ns, args, 3);
    dl_chrome_trace_counter(&t->trace, NETWORK_PID, "GB/s", start_ns, rate);
    dl_chrome_trace_counter(&t->trace, NETWORK_PID, "GB/s", end_ns, 0);
    look_whether_full(t);
}

/* Draws an arrow from the pass that produced this pass's input, in the previous stage (forward) or
 * the next one (backward). Without a flush that pass may belong to another step. */
static void follow_crossing(timeline *t, int gpu, bool forward, int micro_batch, int64_t start_ns,
                            int64_t end_ns)
{
    const int rank = dl_split_rank_of(&t->split, gpu % dl_split_gpus(&t->split));
    const int stage = dl_split_stage(&t->split, rank), from_stage = forward ? stage - 1 : stage + 1;
    if (t->split.stages == 1) return;
    int64_t *own_ns = &t->passed_ns[2 * (gpu * t->split.micro_batches + micro_batch) + forward];
    const int64_t before_ns = *own_ns;
    *own_ns = end_ns;
    if (from_stage < 0 || from_stage >= t->split.stages) return;
    const int from_rank = dl_split_rank(&t->split, from_stage, dl_split_shard(&t->split, rank));
    const int from = gpu + dl_split_gpu(&t->split, from_rank, 0) - dl_split_gpu(&t->split, rank, 0);
    const int64_t passed_ns =
        t->passed_ns[2 * (from * t->split.micro_batches + micro_batch) + forward];
    if (passed_ns > before_ns && passed_ns <= start_ns) /* a pass may have several parts */
        add_flow(t, GPUS_PID, from, passed_ns - 1, GPUS_PID, gpu, start_ns,
                 forward ? "activations" : "gradients");
}

/* Adds a pass to the memory counter. The passes of a step arrive in order, each in one or several
 * parts. */
static void count_memory(timeline *t, int gpu, bool forward, int micro_batch, int64_t start_ns,
                         int64_t end_ns)
{
    const int passes = 2 * t->split.micro_batches;
    const int rank = dl_split_rank_of(&t->split, gpu % dl_split_gpus(&t->split));
    const int stage = dl_split_stage(&t->split, rank);
    if (t->memory == NULL) return;
    char name[32];
    const int key = 2 * micro_batch + forward;
    if (key != t->pass_key[gpu]) t->pass_number[gpu] = (t->pass_number[gpu] + 1) % passes;
    t->pass_key[gpu] = key;
    const dl_memory_pass *at = &t->memory[stage * passes + t->pass_number[gpu]];
    snprintf(name, sizeof name, "memory of %d GB", gpu);
    dl_chrome_trace_counter(&t->trace, GPUS_PID, name, start_ns, at->most_bytes * 1e-9);
    dl_chrome_trace_counter(&t->trace, GPUS_PID, name, end_ns, at->after_bytes * 1e-9);
}

static void on_pass(void *user, int gpu, bool forward, int micro_batch, int64_t start_ns,
                    int64_t end_ns)
{
    timeline *t = user;
    const dl_chrome_arg args[] = {{.key = "micro-batch", .number = micro_batch}};
    if (t->is_full || !is_drawn(t, gpu / dl_split_gpus(&t->split))) return;
    dl_chrome_trace_slice(&t->trace, GPUS_PID, gpu, "pass", forward ? "forward" : "backward",
                          start_ns, end_ns - start_ns, args, 1);
    count_memory(t, gpu, forward, micro_batch, start_ns, end_ns);
    follow_crossing(t, gpu, forward, micro_batch, start_ns, end_ns);
    look_whether_full(t);
}

static void on_host(void *user, int thread, int worker, int64_t start_ns, int64_t end_ns)
{
    timeline *t = user;
    const int ranks = dl_split_ranks(&t->split);
    const dl_chrome_arg args[] = {{.key = "worker", .number = worker / ranks}};
    if (t->is_full || end_ns <= start_ns || !is_drawn(t, thread / ranks) ||
        (worker >= 0 && !is_drawn(t, worker / ranks)))
        return;
    dl_chrome_trace_slice(&t->trace, HOST_PID, thread, "host",
                          worker >= 0 ? "launch" : "serial part", start_ns, end_ns - start_ns, args,
                          worker >= 0 ? 1 : 0);
    if (thread >= t->host_threads) t->host_threads = thread + 1;
    look_whether_full(t);
}

static void on_link(void *user, int link, double bytes, int64_t start_ns, int64_t end_ns)
{
    timeline *t = user;
    if (!t->is_full && bytes > 0 && end_ns > start_ns)
        DL_APPEND(t->uses, t->use_count, "uses of links") =
            (link_use){link, bytes, start_ns, end_ns};
}

static void put_use(timeline *t, int track, const char *name, const link_use *use)
{
    const double exact = use->bytes / (double)(use->end_ns - use->start_ns); /* GB/s */
    const double rate = round(1000 * exact) / 1000;
    const dl_chrome_arg args[] = {{.key = "bytes", .number = use->bytes},
                                  {.key = "GB/s", .number = rate}};
    char counter[DL_LINK_NAME_BYTES + 8];
    snprintf(counter, sizeof counter, "%s GB/s", name);
    dl_chrome_trace_slice(&t->trace, LINKS_PID, track, "link", "traffic", use->start_ns,
                          use->end_ns - use->start_ns, args, 2);
    dl_chrome_trace_counter(&t->trace, LINKS_PID, counter, use->start_ns, rate);
    dl_chrome_trace_counter(&t->trace, LINKS_PID, counter, use->end_ns, 0);
}

/* Draws the links that were used most of the time, each only if the file has room for all of it. */
static void put_links(timeline *t, const dl_links *links)
{
    DL_AUTOFREE double *busy_s = dl_calloc((size_t)links->count, sizeof *busy_s, "links");
    DL_AUTOFREE size_t *uses = dl_calloc((size_t)links->count, sizeof *uses, "links");
    int drawn = 0;
    for (size_t i = 0; i < t->use_count; i++) {
        const link_use *use = &t->uses[i];
        busy_s[use->link] += use->bytes / dl_links_capacity(links, use->link);
        uses[use->link]++;
    }
    for (int most = 0; drawn < LINKS_MOST; most = 0) {
        for (int l = 1; l < links->count; l++)
            if (busy_s[l] > busy_s[most]) most = l;
        if (!(busy_s[most] > 0)) break;
        busy_s[most] = 0;
        const int64_t room = t->bytes_max - ftell(t->trace.file.out);
        if (LINK_USE_BYTES * (int64_t)(uses[most] + 1) > room) continue;
        char text[DL_LINK_NAME_BYTES];
        const char *name = dl_links_name(links, most, text);
        if (drawn == 0) dl_chrome_trace_process(&t->trace, LINKS_PID, "links, the busiest");
        dl_chrome_trace_thread(&t->trace, LINKS_PID, drawn, name);
        for (size_t i = 0; i < t->use_count; i++)
            if (t->uses[i].link == most) put_use(t, drawn, name, &t->uses[i]);
        drawn++;
    }
}

static void name_tracks(timeline *t, const dl_point *point)
{
    char text[DL_POINT_TEXT_BYTES];
    for (int w = 0; w < t->workers; w++) {
        snprintf(text, sizeof text, "worker %d", w);
        dl_chrome_trace_thread(&t->trace, WORKERS_PID, w, text);
        if (point->option[DL_SYNC_LAG] > 0) {
            snprintf(text, sizeof text, "communication thread of worker %d", w);
            dl_chrome_trace_thread(&t->trace, WORKERS_PID, point->workers + w, text);
        }
    }
}

static void name_gpus(timeline *t)
{
    const int gpus = dl_split_gpus(&t->split);
    char text[96];
    dl_chrome_trace_process(&t->trace, GPUS_PID, "GPUs");
    for (int g = 0; g < t->workers * gpus; g++) {
        const int rank = dl_split_rank_of(&t->split, g % gpus);
        size_t used = (size_t)snprintf(text, sizeof text, "worker %d", g / gpus);
        if (t->split.stages > 1)
            used += (size_t)snprintf(text + used, sizeof text - used, " stage %d",
                                     dl_split_stage(&t->split, rank));
        if (t->split.shards > 1)
            snprintf(text + used, sizeof text - used, " shard %d", dl_split_shard(&t->split, rank));
        dl_chrome_trace_thread(&t->trace, GPUS_PID, g, text);
    }
}

/* Names the first process by the point's text and the steps and workers that the file contains, and
 * the processes and tracks of the server and of collectives. */
static void name_processes(timeline *t, const dl_scenario *scenario, const dl_point *point)
{
    char text[DL_POINT_TEXT_BYTES + 160];
    const int64_t steps = dl_run_observed_steps(scenario, point);
    dl_point_text(text, DL_POINT_TEXT_BYTES, point);
    size_t used = strlen(text);
    if (t->is_full && t->started < t->workers)
        used += (size_t)snprintf(text + used, sizeof text - used, " (part of the first step)");
    else if (t->is_full && t->steps < steps)
        used += (size_t)snprintf(text + used, sizeof text - used, " (first %lld of %lld steps)",
                                 (long long)t->steps, (long long)steps);
    if (t->workers < point->workers)
        used += (size_t)snprintf(text + used, sizeof text - used, " (first %d of %d workers)",
                                 t->workers, point->workers);
    dl_chrome_trace_process(&t->trace, WORKERS_PID, text);
    if (t->pending != NULL) {
        dl_chrome_trace_process(&t->trace, SERVER_PID, "server");
        dl_chrome_trace_thread(&t->trace, SERVER_PID, 0, "updates");
    }
    if (t->host_threads > 0) dl_chrome_trace_process(&t->trace, HOST_PID, "host");
    for (int i = 0; i < t->host_threads; i++) {
        snprintf(text, sizeof text, "host thread %d", i);
        dl_chrome_trace_thread(&t->trace, HOST_PID, i, text);
    }
    if (!t->has_collectives) return;
    dl_chrome_trace_process(&t->trace, NETWORK_PID, "network");
    dl_chrome_trace_thread(&t->trace, NETWORK_PID, 0, "collectives");
}

/* --- generators beside a trainer ------------------------------------------------------------- */

static int64_t ns_of(double seconds)
{
    return (int64_t)dl_s_to_ns(seconds);
}

/* Draws a state; the trainer has track 0, replica i has track 1 + i. */
static void on_rollout_state(void *user, int who, dl_rollout_state state, double start_s,
                             double end_s)
{
    timeline *t = user;
    if (t->is_full) return;
    dl_chrome_trace_slice(&t->trace, WORKERS_PID, who == DL_ROLLOUT_TRAINER ? 0 : 1 + who,
                          "activity", dl_rollout_state_names[state], ns_of(start_s),
                          ns_of(end_s) - ns_of(start_s), NULL, 0);
    look_whether_full(t);
}

static void on_rollout_update(void *user, int64_t update, double now_s, int64_t queued,
                              int64_t in_flight, double age)
{
    timeline *t = user;
    if (t->is_full) return;
    dl_chrome_trace_counter(&t->trace, WORKERS_PID, "updates", ns_of(now_s), (double)update);
    dl_chrome_trace_counter(&t->trace, WORKERS_PID, "groups complete", ns_of(now_s),
                            (double)queued);
    dl_chrome_trace_counter(&t->trace, WORKERS_PID, "groups in flight", ns_of(now_s),
                            (double)in_flight);
    dl_chrome_trace_counter(&t->trace, WORKERS_PID, "age", ns_of(now_s), age);
}

static dl_status write_rollout(timeline *t, const dl_scenario *scenario, const dl_costs *costs,
                               const dl_point *point, dl_error *err)
{
    const dl_rollout_observer observer = {
        .state = on_rollout_state, .update = on_rollout_update, .user = t};
    const dl_run_config config = {.scenario = scenario, .costs = costs, .point = point};
    const int replicas = dl_generators_rollout(scenario->generators, false, 0, 0).replicas;
    DL_SCOPED(dl_run_result) result = {0};
    char text[32];
    dl_chrome_trace_process(&t->trace, WORKERS_PID, scenario->name);
    dl_chrome_trace_thread(&t->trace, WORKERS_PID, 0, "trainer");
    for (int i = 0; i < replicas; i++) {
        snprintf(text, sizeof text, "replica %d", i);
        dl_chrome_trace_thread(&t->trace, WORKERS_PID, 1 + i, text);
    }
    return dl_generate_run(&config, costs, &observer, &result, err);
}

/* --- memory by kind -------------------------------------------------------------------------- */

/* Maximum number of moments written for a step; if there are more, only the fullest of each group
 * of neighbours is written. */
#define COURSE_MAX 240

/* Thins course[count] to at most COURSE_MAX moments, each the fullest of a group of neighbours;
 * returns their number. */
static size_t thin(dl_gpu_content *course, size_t count)
{
    const size_t each = (count + COURSE_MAX - 1) / COURSE_MAX;
    size_t kept = 0;
    for (size_t i = 0; i < count; i++) {
        if (i % each == 0) {
            course[kept++] = course[i];
        } else if (dl_gpu_content_bytes(&course[i]) > dl_gpu_content_bytes(&course[kept - 1])) {
            course[kept - 1] = course[i];
        }
    }
    return kept;
}

/* Computes the memory of the GPU of the fullest stage in the course of a step; for workers of one
 * GPU also the most and the least of it. */
static void take_course(timeline *t, const dl_scenario *scenario, const dl_costs *costs,
                        const dl_point *point)
{
    t->fullest.needs_bytes = (double)NAN;
    if (scenario->gpu == NULL) return;
    for (int s = 0; s < t->split.stages; s++) {
        const dl_gpu_memory memory = dl_run_stage_memory(scenario, costs, point, s);
        if (isnan(memory.needs_bytes)) return;
        if (s > 0 && !(memory.needs_bytes > t->fullest.needs_bytes)) continue;
        t->fullest = memory;
        t->fullest_stage = s;
    }
    t->course = dl_fits_course(scenario, costs, point, t->fullest_stage, &t->course_count);
    for (size_t i = 0; i < t->course_count; i++) {
        t->course[i].others = t->fullest.content.others;
        const double bytes = dl_gpu_content_bytes(&t->course[i]);
        if (dl_point_is_split(point)) continue;
        t->gpu_most_bytes = fmax(t->gpu_most_bytes, bytes);
        t->gpu_least_bytes = i == 0 ? bytes : fmin(t->gpu_least_bytes, bytes);
    }
}

/* Writes a metadata event `memory`: for moments of a step on the fullest stage, the kB of each kind
 * (one number if constant) and whether the moment is in a forward pass; the GPU's capacity; and the
 * fullest moment. */
static void put_course(timeline *t, const char *when)
{
    const size_t count = thin(t->course, t->course_count);
    const dl_gpu_memory *memory = &t->fullest;
    uint32_t *numbers = dl_calloc((DL_GPU_CONTENTS + 1) * count, sizeof *numbers, "memory by kind"),
             *forward = numbers + DL_GPU_CONTENTS * count;
    dl_chrome_arg args[DL_GPU_CONTENTS + 5] = {
        {.key = "stage", .number = t->fullest_stage},
        {.key = "when", .text = when},
        {.key = "has_kb", .number = isnan(memory->has_bytes) ? 0 : memory->has_bytes / 1e3},
        {.key = "needs_kb", .number = memory->needs_bytes / 1e3},
        {.key = "forward", .numbers = forward, .number_count = (int)count}};
    int used = 5;
    for (size_t i = 0; i < count; i++)
        forward[i] = t->course[i].at.forward;
    for (int k = 0; k < DL_GPU_CONTENTS; k++) {
        uint32_t *of = numbers + (size_t)k * count;
        bool changes = false;
        for (size_t i = 0; i < count; i++) {
            of[i] = (uint32_t)lround(fmin(dl_gpu_content_of(&t->course[i], k) / 1e3, UINT32_MAX));
            changes = changes || of[i] != of[0];
        }
        if (!changes && of[0] == 0) continue;
        args[used++] = (dl_chrome_arg){.key = dl_gpu_content_names[k],
                                       .numbers = of,
                                       .number_count = changes ? (int)count : 1};
    }
    dl_chrome_trace_metadata(&t->trace, GPUS_PID, "memory", args, used);
    free(numbers);
}

/* Computes the memory of the passes. Skips layouts with several chunks per stage, whose passes of
 * one micro-batch and direction are indistinguishable. */
static void take_memory(timeline *t, const dl_scenario *scenario, const dl_costs *costs,
                        const dl_point *point)
{
    const size_t passes = 2 * (size_t)t->split.micro_batches, gpus = (size_t)dl_point_gpus(point);
    if (!dl_point_is_split(point) || t->split.chunks > 1) return;
    t->memory = dl_calloc((size_t)t->split.stages * passes, sizeof *t->memory, "memory of passes");
    t->pass_number = dl_calloc(gpus, sizeof *t->pass_number, "passes");
    t->pass_key = dl_calloc(gpus, sizeof *t->pass_key, "passes");
    for (size_t g = 0; g < gpus; g++)
        t->pass_number[g] = t->pass_key[g] = -1;
    bool known = true;
    for (int s = 0; s < t->split.stages; s++)
        known = dl_fits_passes(scenario, costs, point, s, &t->memory[(size_t)s * passes]) && known;
    if (known) return;
    free(t->memory);
    t->memory = NULL;
}

/* Releases and zeroes the state of a run. */
static void forget_run(timeline *t)
{
    free(t->pending);
    free(t->queue);
    free(t->uses);
    free(t->passed_ns);
    free(t->memory);
    free(t->pass_number);
    free(t->pass_key);
    t->pending = NULL;
    t->queue = NULL;
    t->uses = NULL;
    t->passed_ns = NULL;
    t->memory = NULL;
    t->pass_number = t->pass_key = NULL;
    t->pending_count = t->queue_count = t->use_count = 0;
    t->host_threads = 0;
    t->started = 0;
    t->steps = 0;
    t->is_full = t->has_collectives = false;
}

/* Runs the point; *text[*bytes] is the trace's head and the events of the drawn tracks. */
static dl_status take_run(timeline *t, char **text, size_t *bytes, const dl_scenario *scenario,
                          const dl_costs *costs, const dl_point *point, dl_error *err)
{
    const size_t passes = (size_t)dl_point_gpus(point) * 2 * (size_t)t->split.micro_batches;
    const dl_team_observer observer = {.user = t,
                                       .state = on_state,
                                       .step = on_step,
                                       .contribute = on_contribute,
                                       .update = on_update,
                                       .collective = on_collective,
                                       .pass = on_pass,
                                       .host = on_host,
                                       .link = on_link,
                                       .is_enough = &t->is_full};
    forget_run(t);
    t->passed_ns = dl_calloc(dl_point_is_split(point) ? passes : 0, sizeof *t->passed_ns, "passes");
    take_memory(t, scenario, costs, point);
    dl_chrome_trace_begin(&t->trace, dl_text_stream(text, bytes));
    name_tracks(t, point);
    if (dl_point_is_split(point)) name_gpus(t);
    const dl_status status = dl_run_observe(scenario, costs, point, &observer, err);
    fclose(t->trace.file.out);
    return status;
}

dl_status dl_timeline_put(FILE *out, int64_t bytes_max, const dl_scenario *scenario,
                          const dl_costs *costs, const dl_point *point, dl_error *err)
{
    timeline t = {.split = dl_point_split(point),
                  .bytes_max = bytes_max,
                  .all_workers = point->workers,
                  .workers = point->workers};
    dl_status status = DL_OK;
    if (scenario->generators != NULL) {
        dl_chrome_trace_begin(&t.trace, out);
        status = write_rollout(&t, scenario, costs, point, err);
    } else {
        char *text = NULL;
        size_t bytes = 0;
        take_course(&t, scenario, costs, point);
        status = take_run(&t, &text, &bytes, scenario, costs, point, err);
        while (status == DL_OK && t.is_full && t.started < t.workers && t.workers > 1) {
            free(text);
            t.workers /= 2;
            status = take_run(&t, &text, &bytes, scenario, costs, point, err);
        }
        fwrite(text, 1, bytes, out);
        free(text);
        t.trace.file.out = out;
        name_processes(&t, scenario, point);
        put_queue(&t);
        if (scenario->gpu != NULL && t.use_count > 0) put_links(&t, &scenario->gpu->links);
        if (t.course_count > 0) {
            DL_AUTOFREE char *when =
                dl_fits_when(scenario, costs, point, t.fullest_stage, &t.fullest);
            put_course(&t, when);
        }
        free(t.course);
    }
    dl_chrome_trace_finish(&t.trace);
    forget_run(&t);
    return status;
}

dl_status dl_timeline_write(const char *path, const dl_scenario *scenario, const dl_costs *costs,
                            const dl_point *point, dl_error *err)
{
    dl_output output = {0};
    dl_status status = dl_output_open(&output, path, err);
    if (status == DL_OK)
        status = dl_timeline_put(output.out, BYTES_MAX, scenario, costs, point, err);
    return dl_output_end(&output, status, err);
}
