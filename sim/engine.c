#include "sim/engine.h"

#include <stdlib.h>

#include "common/alloc.h"
#include "common/status.h"
#include "common/units.h"

#define LINE_BYTES 64
#define CACHED_BYTES (128 * 1024) /* an array up to this size stays in the cache */
/* Marks ids of events in the ring; the other bits are the index in the ring. */
#define AT_ONCE (1 << 30)

void dl_engine_init(dl_engine *engine, int capacity)
{
    *engine = (dl_engine){0};
    dl_event_queue_init(&engine->queue, capacity);
}

void dl_engine_free(dl_engine *engine)
{
    dl_event_queue_free(&engine->queue);
    free(engine->at_once.events);
    *engine = (dl_engine){0};
}

void dl_engine_make_room(dl_engine *engine, int more)
{
    dl_event_queue_make_room(&engine->queue, more);
}

static dl_event *ring_place(const dl_engine_ring *ring, uint32_t number)
{
    return &ring->events[number & (ring->room - 1)];
}

static void grow_ring(dl_engine_ring *ring)
{
    dl_engine_ring grown = *ring;
    grown.room = ring->room > 0 ? 2 * ring->room : 16;
    grown.events = dl_calloc(grown.room, sizeof *grown.events, "events");
    for (uint32_t n = ring->taken; n != ring->added; n++)
        *ring_place(&grown, n) = *ring_place(ring, n);
    free(ring->events);
    *ring = grown;
}

int dl_engine_after(dl_engine *engine, int64_t delay_ns, dl_event_fn handler, void *user, int index)
{
    return dl_engine_after_about(engine, delay_ns, handler, user, index, -1);
}

int dl_engine_after_about(dl_engine *engine, int64_t delay_ns, dl_event_fn handler, void *user,
                          int index, int about)
{
    DL_ASSERT(delay_ns >= 0, "delay %lld ns at %lld ns", (long long)delay_ns,
              (long long)engine->now_ns);
    if (delay_ns == 0) {
        dl_engine_ring *ring = &engine->at_once;
        if (ring->added - ring->taken == ring->room) grow_ring(ring);
        *ring_place(ring, ring->added) = (dl_event){engine->now_ns, handler, user, index, -1};
        return (int)(ring->added++ % AT_ONCE) | AT_ONCE;
    }
    const int64_t left_ns = DL_NS_MAX - engine->now_ns;
    return dl_event_queue_push(&engine->queue,
                               delay_ns < left_ns ? engine->now_ns + delay_ns : DL_NS_MAX, handler,
                               user, index, about);
}

void dl_engine_add_state(dl_engine *engine, dl_engine_state state)
{
    if ((size_t)state.count * state.stride <= CACHED_BYTES) return;
    DL_ASSERT(engine->state_count < DL_ENGINE_STATES, "%d states", engine->state_count);
    engine->states[engine->state_count++] = state;
}

void dl_engine_prefetch(const dl_engine *engine, int about)
{
    for (int i = 0; i < engine->state_count; i++) {
        const dl_engine_state *s = &engine->states[i];
        if (about < s->from || about - s->from >= s->count) continue;
        const char *state = s->first + (size_t)(about - s->from) * s->stride;
        for (size_t at = 0; at < s->bytes; at += LINE_BYTES)
            __builtin_prefetch(state + at);
    }
}

void dl_engine_cancel(dl_engine *engine, int id)
{
    if (id < AT_ONCE) {
        dl_event_queue_cancel(&engine->queue, id);
        return;
    }
    dl_engine_ring *ring = &engine->at_once;
    const uint32_t before = ((uint32_t)id - ring->taken) % AT_ONCE;
    dl_event *event =
        before < ring->added - ring->taken ? ring_place(ring, ring->taken + before) : NULL;
    DL_ASSERT(event != NULL && event->handler != NULL, "event %d is not pending", id);
    event->handler = NULL;
    ring->cancelled++;
}

int dl_engine_pending(const dl_engine *engine)
{
    const dl_engine_ring *ring = &engine->at_once;
    return engine->queue.count - engine->queue.stale + (int)(ring->added - ring->taken) -
           ring->cancelled;
}

bool dl_engine_goes_on(dl_engine *engine)
{
    if (engine->at_once.added != engine->at_once.taken || dl_event_queue_is_due(&engine->queue))
        return false;
    engine->handled++;
    return true;
}

/* Calls the watch if it is due; returns whether it ends the run. */
static bool is_ended(dl_engine *engine)
{
    if (engine->handled - engine->watched < DL_ENGINE_WATCH_EVENTS) return false;
    engine->watched = engine->handled;
    return engine->watch.goes_on != NULL && !engine->watch.goes_on(engine->watch.user);
}

bool dl_engine_take(dl_engine *engine, dl_event *event)
{
    dl_engine_ring *ring = &engine->at_once;
    while (ring->added != ring->taken) {
        if (dl_event_queue_pop_due(&engine->queue, event)) return true;
        *event = *ring_place(ring, ring->taken++);
        if (event->handler != NULL) return true;
        ring->cancelled--;
    }
    return dl_event_queue_pop(&engine->queue, event);
}

void dl_engine_run(dl_engine *engine)
{
    dl_event event;
    while (!engine->stopped && dl_engine_take(engine, &event)) {
        engine->too_long = event.time_ns >= DL_NS_MAX;
        if (engine->too_long) return;
        DL_ASSERT(event.time_ns >= engine->now_ns, "event at %lld ns, clock at %lld ns",
                  (long long)event.time_ns, (long long)engine->now_ns);
        engine->now_ns = event.time_ns;
        engine->handled++;
        if (event.ahead >= 0) dl_engine_prefetch(engine, event.ahead);
        if (is_ended(engine)) {
            engine->stopped = engine->was_ended = true;
            return;
        }
        event.handler(event.user, event.index);
    }
}
