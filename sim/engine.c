#include "sim/engine.h"

#include "common/status.h"
#include "common/units.h"

void dl_engine_init(dl_engine *engine, int capacity)
{
    *engine = (dl_engine){0};
    dl_event_queue_init(&engine->queue, capacity);
}

void dl_engine_free(dl_engine *engine)
{
    dl_event_queue_free(&engine->queue);
    *engine = (dl_engine){0};
}

void dl_engine_make_room(dl_engine *engine, int more)
{
    dl_event_queue_make_room(&engine->queue, more);
}

int dl_engine_after(dl_engine *engine, int64_t delay_ns, dl_event_fn handler, void *user, int index)
{
    DL_ASSERT(delay_ns >= 0, "delay %lld ns at %lld ns", (long long)delay_ns,
              (long long)engine->now_ns);
    const int64_t left_ns = DL_NS_MAX - engine->now_ns;
    return dl_event_queue_push(&engine->queue,
                               delay_ns < left_ns ? engine->now_ns + delay_ns : DL_NS_MAX, handler,
                               user, index);
}

void dl_engine_cancel(dl_engine *engine, int id)
{
    dl_event_queue_cancel(&engine->queue, id);
}

void dl_engine_run(dl_engine *engine)
{
    dl_event event;
    while (!engine->stopped && dl_event_queue_pop(&engine->queue, &event)) {
        engine->too_long = event.time_ns >= DL_NS_MAX;
        if (engine->too_long) return;
        DL_ASSERT(event.time_ns >= engine->now_ns, "event at %lld ns, clock at %lld ns",
                  (long long)event.time_ns, (long long)engine->now_ns);
        engine->now_ns = event.time_ns;
        if (++engine->handled % DL_ENGINE_WATCH_EVENTS == 0 && engine->watch.goes_on != NULL &&
            !engine->watch.goes_on(engine->watch.user)) {
            engine->stopped = engine->was_ended = true;
            return;
        }
        event.handler(event.user, event.index);
    }
}
