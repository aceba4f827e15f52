/* What `dlprof train` finds out before it makes anything, so that a run that cannot start leaves all
 * files as they are. */
#include <stdio.h>

#include "common/output.h"
#include "kernels/train/train.h"
#include "profiler/cmd_train_run.h"
#include "profiler/measured_row.h"

/* "async or softsync": the modes of a set of 1 << dl_sync. */
static void list_modes(char *text, size_t bytes, unsigned modes)
{
    size_t used = 0;
    text[0] = '\0';
    for (int m = 0; dl_sync_names[m] != NULL; m++) {
        if (!(modes & 1u << m) || used >= bytes) continue;
        used += (size_t)snprintf(text + used, bytes - used, "%s%s", used > 0 ? " or " : "",
                                 dl_sync_names[m]);
    }
}

dl_status dl_train_command_check_mode(const dl_train_options *options, dl_error *err)
{
    const dl_train_config config = dl_train_default_config();
    const struct {
        const char *name;
        bool given; /* and not what it is anyway */
        unsigned modes;
    } taken[] = {
        {"interval", options->interval != config.interval, 1u << DL_SYNC_AVERAGE},
        {"average-state", options->average_state, 1u << DL_SYNC_AVERAGE},
        {"server-threads", options->server_threads != config.server_threads,
         1u << DL_SYNC_AVERAGE | 1u << DL_SYNC_PS},
        {"n", options->accuracy.n != config.softsync_n, 1u << DL_SYNC_SOFTSYNC},
        {"bound", options->accuracy.bound != config.bound, 1u << DL_SYNC_SOFTSYNC},
        {"staleness-rate", options->accuracy.staleness_rate,
         1u << DL_SYNC_ASYNC | 1u << DL_SYNC_SOFTSYNC},
    };
    for (size_t i = 0; i < sizeof taken / sizeof *taken; i++) {
        if (!taken[i].given || taken[i].modes & 1u << options->sync) continue;
        char modes[64];
        list_modes(modes, sizeof modes, taken[i].modes);
        return dl_error_set(err, DL_ERR_USAGE, "--%s needs --sync %s: %s does not take it",
                            taken[i].name, modes, dl_sync_names[options->sync]);
    }
    return DL_OK;
}

static dl_status check_files(const dl_train_command *run, dl_error *err)
{
    const dl_train_options *options = run->options;
    const dl_file_role input = {"--schedule", options->accuracy.schedule};
    const bool replays = options->accuracy.schedule != NULL;
    const bool tells = run->first || replays;
    const dl_file_role outputs[] = {{"--output", options->no_trace || replays ? NULL : run->output},
                                    {"--curve", tells ? options->accuracy.curve : NULL},
                                    {"--csv", tells ? options->csv : NULL}};
    dl_status status = dl_outputs_check(outputs, sizeof outputs / sizeof *outputs, &input, 1, err);
    if (status == DL_OK && run->first && options->csv != NULL) {
        status = dl_measured_row_check(options->csv, err);
    }
    return status;
}

dl_status dl_train_command_check(const dl_train_command *run, dl_error *err)
{
    const dl_train_config *config = &run->config;
    const bool replays = run->options->accuracy.schedule != NULL;
    int devices = 0;
    /* A machine without a GPU is no bad usage. */
    dl_status status = config->device != NULL ? config->device->count(&devices, err) : DL_OK;
    if (status != DL_OK) return status;
    status = replays ? dl_train_check_replay(config, err) : dl_train_check(config, &run->data, err);
    status = dl_workload_usage(status, err);
    return status == DL_OK ? check_files(run, err) : status;
}
