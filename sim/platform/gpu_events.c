#include "sim/platform/gpu_events.h"

#include <stdlib.h>

#include "common/alloc.h"
#include "common/units.h"

#define LINE_BYTES 64
#define ARITY 4
#define NEVER INT64_MAX
#define NUMBERS_MOST ((uint64_t)1 << (64 - DL_GPU_EVENT_WORKER_BITS))

static const dl_gpu_event none = {NEVER, 0};

/* As one number of twice as many bits, and without a branch: which is earlier cannot be foreseen. */
static inline bool is_before(dl_gpu_event a, dl_gpu_event b)
{
    __extension__ typedef __int128 both;
    return ((both)a.time_ns << 64 | (both)a.order) < ((both)b.time_ns << 64 | (both)b.order);
}

static inline int worker_of(uint64_t order)
{
    return (int)(order & ((1u << DL_GPU_EVENT_WORKER_BITS) - 1));
}

void dl_gpu_events_init(dl_gpu_events *e, int workers, const int64_t delay_ns[DL_GPU_EVENT_LINES])
{
    const size_t bytes = (size_t)workers * sizeof *e->heap;
    char *block = dl_calloc(bytes + 2 * LINE_BYTES, 1, "events");
    const size_t off = LINE_BYTES - (uintptr_t)block % LINE_BYTES;
    dl_ask_for_huge_pages(block, bytes);
    *e = (dl_gpu_events){
        .heap_block = block,
        .heap = (dl_gpu_event *)(void *)(block + off + LINE_BYTES - sizeof *e->heap),
        .next = DL_GPU_EVENT_VARIES,
        .soon = -1,
    };
    for (int i = 0; i < DL_GPU_EVENT_KINDS; i++) {
        e->heads[i] = none;
        if (i < DL_GPU_EVENT_LINES) e->delay_ns[i] = delay_ns[i];
        if (i >= DL_GPU_EVENT_LINES || delay_ns[i] > 0) e->used[e->used_count++] = i;
    }
}

void dl_gpu_events_free(dl_gpu_events *e)
{
    for (int i = 0; i < DL_GPU_EVENT_LINES; i++)
        free(e->lines[i].events);
    free(e->heap_block);
    free(e->at_once);
    *e = (dl_gpu_events){0};
}

static dl_gpu_event new_event(dl_gpu_events *e, int64_t delay_ns, int worker)
{
    const int64_t left_ns = DL_NS_MAX - e->now_ns;
    return (dl_gpu_event){delay_ns < left_ns ? e->now_ns + delay_ns : DL_NS_MAX,
                          e->number++ << DL_GPU_EVENT_WORKER_BITS | (uint64_t)worker};
}

/* The first event of a kind is another one. */
static inline void set_head(dl_gpu_events *e, int kind, dl_gpu_event event)
{
    e->heads[kind] = event;
    if (kind == e->next) {
        int next = e->used[0];
        for (int i = 1; i < e->used_count; i++)
            next = is_before(e->heads[e->used[i]], e->heads[next]) ? e->used[i] : next;
        e->next = next;
    } else if (is_before(event, e->heads[e->next])) {
        e->next = kind;
    }
}

void dl_gpu_events_at_once(dl_gpu_events *e, int kind, int worker)
{
    if (e->at_once_count == e->at_once_room) {
        const uint32_t old = e->at_once_room, room = old > 0 ? 2 * old : 64;
        e->at_once = dl_realloc(e->at_once, room, sizeof *e->at_once, "events");
        for (uint32_t i = 0; old > 0 && i < e->at_once_first; i++) /* what wrapped round */
            e->at_once[old + i] = e->at_once[i];
        e->at_once_room = room;
    }
    e->at_once[(e->at_once_first + e->at_once_count++) & (e->at_once_room - 1)] =
        (uint32_t)kind << DL_GPU_EVENT_WORKER_BITS | (uint32_t)worker;
}

void dl_gpu_events_after(dl_gpu_events *e, int kind, int worker)
{
    dl_gpu_event_line *l = &e->lines[kind];
    if (e->delay_ns[kind] == 0) {
        dl_gpu_events_at_once(e, kind, worker);
        return;
    }
    if (l->count == l->room) {
        const uint32_t old = l->room, room = old > 0 ? 2 * old : 64;
        l->events = dl_realloc(l->events, room, sizeof *l->events, "events");
        for (uint32_t i = 0; old > 0 && i < l->first; i++)
            l->events[old + i] = l->events[i];
        l->room = room;
    }
    const dl_gpu_event event = new_event(e, e->delay_ns[kind], worker);
    if (l->count == 0) set_head(e, kind, event);
    l->events[(l->first + l->count++) & (l->room - 1)] = event;
}

static void sift_up(dl_gpu_event *heap, int i, dl_gpu_event event)
{
    for (; i > 0 && is_before(event, heap[(i - 1) / ARITY]); i = (i - 1) / ARITY)
        heap[i] = heap[(i - 1) / ARITY];
    heap[i] = event;
}

void dl_gpu_events_in(dl_gpu_events *e, int64_t delay_ns, int worker)
{
    if (delay_ns == 0) {
        dl_gpu_events_at_once(e, DL_GPU_EVENT_VARIES, worker);
        return;
    }
    sift_up(e->heap, e->heap_count++, new_event(e, delay_ns, worker));
    set_head(e, DL_GPU_EVENT_VARIES, e->heap[0]);
}

void dl_gpu_events_set(dl_gpu_events *e, int kind, int64_t delay_ns)
{
    set_head(e, kind, delay_ns >= 0 ? new_event(e, delay_ns, 0) : none);
}

static inline int lesser(const dl_gpu_event *heap, int a, int b)
{
    return is_before(heap[b], heap[a]) ? b : a;
}

/* Fills the hole at the root down to a leaf, and puts the last event there: it mostly belongs near it.
 * The next level's lines are asked for before it is known which of them is needed. */
static void pop_heap(dl_gpu_events *e)
{
    dl_gpu_event *heap = e->heap;
    const int count = --e->heap_count;
    int i = 0;
    for (int child; (child = ARITY * i + 1) < count;) {
        const int below = ARITY * child + 1;
        int least = child;
        for (int c = 0; c < ARITY && below + c * ARITY < count; c++)
            __builtin_prefetch(&heap[below + c * ARITY]);
        if (child + ARITY <= count) {
            least =
                lesser(heap, lesser(heap, child, child + 1), lesser(heap, child + 2, child + 3));
        } else {
            for (int c = child + 1; c < count; c++)
                least = lesser(heap, least, c);
        }
        heap[i] = heap[least];
        i = least;
    }
    if (i < count) sift_up(heap, i, heap[count]);
    set_head(e, DL_GPU_EVENT_VARIES, count > 0 ? heap[0] : none);
    e->soon = count > 0 ? worker_of(heap[0].order) : -1;
}

static void pop_line(dl_gpu_events *e, int kind)
{
    dl_gpu_event_line *l = &e->lines[kind];
    const uint32_t mask = l->room - 1;
    l->first = (l->first + 1) & mask;
    l->count--;
    set_head(e, kind, l->count > 0 ? l->events[l->first] : none);
    e->soon = l->count > 2 ? worker_of(l->events[(l->first + 2) & mask].order) : -1;
}

/* The next event that takes its turn by its time. */
static void take_timed(dl_gpu_events *e, int *kind, int *worker)
{
    *kind = e->next;
    *worker = worker_of(e->heads[e->next].order);
    if (*kind < DL_GPU_EVENT_LINES) {
        pop_line(e, *kind);
    } else if (*kind == DL_GPU_EVENT_VARIES) {
        pop_heap(e);
    } else {
        set_head(e, *kind, none);
        e->soon = -1;
    }
}

bool dl_gpu_events_take(dl_gpu_events *e, int *kind, int *worker)
{
    const int64_t time_ns = e->heads[e->next].time_ns;
    if (time_ns != e->now_ns && e->at_once_count > 0) {
        const uint32_t one = e->at_once[e->at_once_first];
        e->at_once_first = (e->at_once_first + 1) & (e->at_once_room - 1);
        e->at_once_count--;
        *kind = (int)(one >> DL_GPU_EVENT_WORKER_BITS);
        *worker = worker_of(one);
        e->soon = -1;
    } else {
        if (time_ns == NEVER) return false;
        e->is_too_far = time_ns >= DL_NS_MAX || e->number >= NUMBERS_MOST;
        if (e->is_too_far) return false;
        e->now_ns = time_ns;
        take_timed(e, kind, worker);
    }
    e->handled++;
    return true;
}
