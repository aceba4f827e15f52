/* dlprof train --schedule: repeats a simulated run with real gradients. There is no trace: what takes
 * which time here says nothing about the run that is repeated. */
#include <string.h>

#include "kernels/train/train.h"
#include "profiler/cmd_train_run.h"
#include "profiler/interrupt.h"

/* What the schedule decides must not be given too, where it would not count. */
static dl_status check_options(const dl_train_options *options, dl_error *err)
{
    const dl_train_config config = dl_train_default_config();
    const struct {
        const char *name;
        bool given;
    } decided[] = {{"workers", options->workers != config.workers},
                   {"sync", options->sync != (int)config.sync},
                   {"server-threads", options->server_threads != config.server_threads},
                   {"interval", options->interval != config.interval},
                   {"n", options->accuracy.n != config.softsync_n},
                   {"bound", options->accuracy.bound != config.bound},
                   {"batch", options->batch != config.batch},
                   {"steps", options->steps != config.steps},
                   {"epochs", options->epochs != 0},
                   {"slow", options->slow.count > 0},
                   {"csv", options->csv != NULL},
                   {"rendezvous", options->ranks.rendezvous != NULL}};
    for (size_t i = 0; i < sizeof decided / sizeof *decided; i++) {
        if (!decided[i].given) continue;
        return dl_error_set(err, DL_ERR_USAGE,
                            "--%s and --schedule: what the schedule says is repeated, without a "
                            "row or other settings",
                            decided[i].name);
    }
    dl_launch launch;
    const dl_status status = dl_launch_find(&options->ranks, &launch, err);
    if (status != DL_OK || launch.size == 1) return status;
    return dl_error_set(err, DL_ERR_USAGE,
                        "--schedule is for one process, but a launcher has started %d; --ranks off "
                        "has each repeat it by itself",
                        launch.size);
}

dl_status dl_train_command_replay(dl_train_command *run, dl_error *err)
{
    dl_train_options set = *run->options;
    dl_status status = check_options(&set, err);
    if (status == DL_OK) status = dl_schedule_read(&run->schedule, set.accuracy.schedule, err);
    if (status != DL_OK) return status;
    /* The number of workers and the batch are what --evaluate-every counts its steps by. */
    set.batch = run->schedule.batch;
    const dl_train_options *options = run->options;
    run->options = &set;
    status = dl_train_command_configure(run, err);
    run->options = options;
    if (status == DL_OK) status = dl_train_command_check(run, err);
    if (status == DL_OK) status = dl_run_sizes_find(&run->config, &run->sizes, err);
    if (status == DL_OK) status = dl_train_command_open_test(run, err);
    if (status != DL_OK) return status;
    run->config.stop = dl_interrupt_catch(DL_INTERRUPT_LIMIT_S);
    status = dl_train_replay(&run->config, &run->schedule, &run->data, &run->result, err);
    dl_interrupt_met();
    return status == DL_OK ? dl_train_command_evaluate(run, err) : status;
}
