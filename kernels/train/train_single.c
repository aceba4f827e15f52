/* One thread that issues the steps of all workers, as frameworks do whose session or main thread
 * drives every GPU: worker after worker, phase after phase. The devices work at the same time, but
 * the later ones begin when the thread has come round to them. */
#include "common/units.h"
#include "kernels/train/train_worker.h"

/* What was issued since the group began is under way only now. */
static void end_reduction(dl_train_shared *shared)
{
    const dl_sync_mode *mode = shared->mode;
    shared->config->device->group(false);
    for (int w = 0; mode->reduced != NULL && w < shared->config->workers; w++) {
        dl_train_use(&shared->workers[w]);
        mode->reduced(&shared->workers[w]);
    }
}

/* Every worker's phase in turn, then all devices are waited for, unless the next phase needs not.
 */
static void run_phase(dl_train_shared *shared, int phase)
{
    const dl_sync_mode *mode = shared->mode;
    const bool together = mode->collective && phase == 0;
    if (mode->phases[phase] == NULL) return;
    if (together) shared->config->device->group(true);
    for (int w = 0; w < shared->config->workers; w++) {
        dl_train_worker *worker = &shared->workers[w];
        dl_train_use(worker);
        /* What other workers' phases took is not this one's. */
        if (!worker->issuing) worker->border_ns = dl_clock_ns();
        mode->phases[phase](worker);
    }
    if (together) end_reduction(shared);
    for (int w = 0; !mode->collective && w < shared->config->workers; w++) {
        dl_train_use(&shared->workers[w]);
        dl_train_settle(&shared->workers[w]);
    }
}

static void run_step(dl_train_shared *shared)
{
    dl_train_worker *workers = shared->workers;
    const int count = shared->config->workers;
    const int64_t start_ns = dl_clock_ns();
    for (int w = 0; w < count; w++) {
        dl_train_use(&workers[w]);
        dl_train_step_begin(&workers[w], dl_clock_ns());
        dl_train_step_compute(&workers[w]);
    }
    const int phases = dl_sync_phases(&workers[0]);
    for (int p = 0; p < phases; p++)
        run_phase(shared, p);
    dl_train_meet_beside(&workers[0]);
    for (int w = 0; w < count; w++) {
        dl_train_use(&workers[w]);
        (void)dl_train_step_end(&workers[w], start_ns);
    }
}

void *dl_train_single_run(void *argument)
{
    dl_train_shared *shared = argument;
    dl_train_worker *workers = shared->workers;
    const int count = shared->config->workers;
    workers[0].status = dl_train_worker_pin(&workers[0]);
    for (int w = 0; workers[0].status == DL_OK && w < count; w++)
        dl_train_worker_set_up(&workers[w]);
    if (!dl_train_wait_at_gate(shared)) return NULL;
    for (int w = 0; w < count; w++)
        workers[w].start_ns = dl_clock_ns();
    bool goes_on = true;
    while (goes_on) {
        run_step(shared);
        for (int w = 0; w < count; w++) {
            workers[w].step++;
            goes_on = dl_train_goes_on(&workers[w]);
        }
    }
    for (int w = 0; w < count; w++) {
        dl_train_use(&workers[w]);
        workers[w].last_loss = dl_model_loss(workers[w].model);
    }
    return NULL;
}
