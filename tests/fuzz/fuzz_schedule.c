#include "kernels/train/schedule.h"
#include "tests/fuzz/fuzz_driver.h"

#include <math.h>

#define COLUMNS "time_s,event,update,worker,read,batch\n"

static const char gradients[] = "# dlscale schedule\n# schema: 1\n# mode: softsync\n# workers: 2\n"
                                "# batch: 12\n" COLUMNS "0.5,gradient,1,0,0,0\n"
                                "0.5,gradient,1,1,0,1\n"
                                "0.75,gradient,2,0,0,2\n"
                                "1,gradient,3,1,1,3\n";
static const char local[] =
    "# dlscale schedule\r\n# schema: 1\r\n# workers: 2\r\n# batch: 4\r\n# mode: average\r\n"
    "time_s,event,update,worker,read,batch\r\n0,local,,0,,0\r\n0,local,,1,,1\r\n"
    "1,average,1,,,\r\n2,local,,0,,2\r\n";
static const char no_schema[] = "# dlscale schedule\r\n# schema:\r\n";
static const char no_workers[] = "# dlscale schedule\n# schema: 1\n# workers:\n# batch:\n";
static const char no_mode[] = "# dlscale schedule\r\n# schema: 1\r\n# workers: 1\r\n# batch: 1\r\n"
                              "# mode:\r\n" COLUMNS "0,gradient,1,0,0,0\r\n";

size_t dl_fuzz_seeds(const dl_fuzz_seed **seeds)
{
    static const dl_fuzz_seed all[] = {{gradients, sizeof gradients - 1},
                                       {local, sizeof local - 1},
                                       {no_schema, sizeof no_schema - 1},
                                       {no_workers, sizeof no_workers - 1},
                                       {no_mode, sizeof no_mode - 1}};
    *seeds = all;
    return sizeof all / sizeof all[0];
}

/* Checks the properties that a replay relies on. */
static void check_event(const dl_schedule *s, size_t i)
{
    const dl_schedule_event *event = &s->events[i];
    DL_ASSERT(isfinite(event->time_s) && (i == 0 || event->time_s >= s->events[i - 1].time_s),
              "event %zu at %g s", i, event->time_s);
    DL_ASSERT(event->after <= i, "event %zu after %zu events", i, event->after);
    DL_ASSERT(event->worker >= 0 && event->worker < s->workers, "worker %d", event->worker);
    if (event->kind == DL_SCHEDULE_GRADIENT) {
        DL_ASSERT(event->read >= 0 && event->read < event->update && event->update <= s->updates,
                  "update %lld reads %lld", (long long)event->update, (long long)event->read);
        DL_ASSERT(event->update - 1 - event->read <= s->staleness_max, "event %zu", i);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes)
{
    dl_error err = {0};
    dl_schedule s = {0};
    if (dl_schedule_read_text(&s, "fuzz", (const char *)data, bytes, &err) != DL_OK) {
        DL_ASSERT(err.text[0] != '\0' && s.events == NULL, "code %d", (int)err.code);
        return 0;
    }
    DL_ASSERT(s.count >= 1 && s.gradients >= 1 && s.gradients <= s.count, "%zu of %zu", s.gradients,
              s.count);
    DL_ASSERT(s.workers >= 1 && s.workers <= DL_SCHEDULE_WORKERS_MAX && s.batch >= s.workers &&
                  s.batch % s.workers == 0 && s.mode[0] != '\0',
              "%d workers, batch %d, mode '%s'", s.workers, s.batch, s.mode);
    DL_ASSERT(s.staleness_max <= DL_SCHEDULE_STALENESS_MAX, "%lld", (long long)s.staleness_max);
    for (size_t i = 0; i < s.count; i++)
        check_event(&s, i);
    dl_schedule_free(&s);
    return 0;
}
