/* The lanes of streams and the nodes of works. */
#include <stdlib.h>

#include "calibrate/replay/build_state.h"
#include "common/alloc.h"
#include "sim/event_queue.h"

typedef struct work {
    uint64_t stream; /* device << 32 | stream */
    int64_t start_ns, end_ns;
    uint32_t activity, slot; /* slot: number of the stream's lane, 0 the main one */
} work;

static int by_stream_and_time(const void *a, const void *b)
{
    const work *x = a, *y = b;
    if (x->stream != y->stream) return x->stream < y->stream ? -1 : 1;
    if (x->start_ns != y->start_ns) return x->start_ns < y->start_ns ? -1 : 1;
    if (x->end_ns != y->end_ns) return x->end_ns < y->end_ns ? -1 : 1;
    return x->activity < y->activity ? -1 : 1;
}

static int by_slot_and_time(const void *a, const void *b)
{
    const work *x = a, *y = b;
    if (x->slot != y->slot) return x->slot < y->slot ? -1 : 1;
    return by_stream_and_time(a, b);
}

static work *list_works(const dl_trace *trace, size_t *count)
{
    work *works = dl_calloc(trace->activity_count, sizeof *works, "replay works");
    *count = 0;
    for (size_t i = 0; i < trace->activity_count; i++) {
        const dl_activity *a = &trace->activities[i];
        if (!dl_activity_is_device_work(a)) continue;
        works[(*count)++] = (work){.stream = (uint64_t)a->device << 32 | a->stream,
                                   .start_ns = a->start_ns,
                                   .end_ns = a->start_ns + a->duration_ns,
                                   .activity = (uint32_t)i};
    }
    qsort(works, *count, sizeof *works, by_stream_and_time);
    return works;
}

static void push_lane(dl_event_queue *queue, int64_t key, int lane)
{
    dl_event_queue_push(queue, key, NULL, NULL, lane);
}

/* Gives each of works[count], of one stream, the first lane that is free when it begins. Returns
 * the number of lanes. */
static uint32_t share_out(work *works, size_t count)
{
    dl_event_queue used, spare; /* lanes by the end of their last work, and by number */
    int lanes = 0;
    dl_event_queue_init(&used, (int)count);
    dl_event_queue_init(&spare, (int)count);
    for (size_t i = 0; i < count; i++) {
        dl_event lane;
        while (dl_event_queue_pop(&used, &lane)) {
            if (lane.time_ns > works[i].start_ns + DL_REPLAY_OVERLAP_NS) {
                push_lane(&used, lane.time_ns, lane.index);
                break;
            }
            push_lane(&spare, lane.index, lane.index);
        }
        if (!dl_event_queue_pop(&spare, &lane)) lane.index = lanes++;
        works[i].slot = (uint32_t)lane.index;
        push_lane(&used, works[i].end_ns, lane.index);
    }
    dl_event_queue_free(&used);
    dl_event_queue_free(&spare);
    return (uint32_t)lanes;
}

static dl_replay_kind kind_of(const dl_activity *a, dl_kernel_class class)
{
    switch (a->kind) {
    case DL_ACTIVITY_MEMCPY: return DL_REPLAY_COPY;
    case DL_ACTIVITY_MEMSET: return DL_REPLAY_MEMSET;
    case DL_ACTIVITY_GRAPH: return DL_REPLAY_GRAPH;
    default: return class == DL_KERNEL_COLLECTIVE ? DL_REPLAY_COLLECTIVE : DL_REPLAY_KERNEL;
    }
}

static void add_lane(replay_builder *b, const work *works, size_t count, size_t placed)
{
    stream_works *to = &b->streams[b->stream_count++];
    *to = (stream_works){.device = (uint32_t)(works[0].stream >> 32),
                         .stream = (uint32_t)works[0].stream,
                         .nodes = b->stream_nodes + placed,
                         .launch_ns = b->stream_launch_ns + placed,
                         .count = count};
    to->lane = dl_replay_graph_add_lane(b->graph, &(dl_replay_lane){.is_stream = true,
                                                                    .rank = b->rank_number,
                                                                    .device = to->device,
                                                                    .stream = to->stream});
    int64_t launched_ns = INT64_MIN;
    for (size_t i = 0; i < count; i++) {
        const dl_activity *a = &b->trace->activities[works[i].activity];
        dl_kernel_class class = a->kind == DL_ACTIVITY_KERNEL ? b->classes[a->name] : 0;
        uint32_t id = dl_replay_graph_add(b->graph, to->lane,
                                          &(dl_replay_node){.kind = (uint8_t)kind_of(a, class),
                                                            .class = (uint8_t) class,
                                                            .rank = b->rank_number,
                                                            .activity = works[i].activity,
                                                            .recorded_ns = a->start_ns,
                                                            .duration_ns = a->duration_ns});
        b->rank->node_of[works[i].activity] = id;
        const dl_activity *call = dl_launches_find(&b->launches, a->correlation);
        if (call != NULL && call->start_ns > launched_ns) launched_ns = call->start_ns;
        if (call == NULL) b->rank->unlaunched++;
        b->launcher[id - b->first_node] =
            call == NULL ? DL_REPLAY_NONE : (uint32_t)(call - b->trace->activities);
        b->stream_of[id - b->first_node] = b->stream_count - 1;
        to->nodes[i] = id;
        to->launch_ns[i] = launched_ns;
    }
}

static int64_t first_start(const replay_builder *b, const stream_works *works)
{
    return b->graph->nodes[works->nodes[0]].recorded_ns;
}

/* What a device did before the trace is unknown, so its first work begins as recorded, and so do
 * streams whose first launch is not recorded. The first work of any other stream is held back by
 * its launch and by edges alone. Streams lie device by device. */
static void free_begins(replay_builder *b)
{
    for (size_t first = 0, end; first < b->stream_count; first = end) {
        int64_t begin_ns = INT64_MAX;
        for (end = first;
             end < b->stream_count && b->streams[end].device == b->streams[first].device; end++) {
            if (first_start(b, &b->streams[end]) < begin_ns)
                begin_ns = first_start(b, &b->streams[end]);
        }
        for (size_t s = first; s < end; s++) {
            const stream_works *works = &b->streams[s];
            if (first_start(b, works) > begin_ns &&
                b->launcher[works->nodes[0] - b->first_node] != DL_REPLAY_NONE)
                b->graph->lanes[works->lane].begin_ns = b->begin_ns;
        }
    }
}

void replay_build_streams(replay_builder *b)
{
    size_t count, lane_room = 0, placed = 0;
    work *works = list_works(b->trace, &count);
    b->rank->work_count = count;
    b->first_node = (uint32_t)b->graph->node_count;
    b->launcher = dl_calloc(count, sizeof *b->launcher, "replay launches");
    b->stream_of = dl_calloc(count, sizeof *b->stream_of, "replay streams");
    b->stream_nodes = dl_calloc(count, sizeof *b->stream_nodes, "replay streams");
    b->stream_launch_ns = dl_calloc(count, sizeof *b->stream_launch_ns, "replay streams");
    for (size_t first = 0, end; first < count; first = end) {
        end = first;
        while (end < count && works[end].stream == works[first].stream)
            end++;
        uint32_t slots = share_out(&works[first], end - first);
        if (slots > 1) qsort(&works[first], end - first, sizeof *works, by_slot_and_time);
        lane_room += slots;
        b->streams = dl_realloc(b->streams, lane_room, sizeof *b->streams, "replay streams");
        while (placed < end) {
            size_t next = placed;
            while (next < end && works[next].slot == works[placed].slot)
                next++;
            add_lane(b, &works[placed], next - placed, placed);
            placed = next;
        }
    }
    free_begins(b);
    free(works);
}

size_t replay_launched_before(const stream_works *works, int64_t time_ns)
{
    size_t low = 0, high = works->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (works->launch_ns[middle] < time_ns) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}
