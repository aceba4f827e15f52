/* The settings of training that are options of dlprof train: each has one row with its limits, the
 * modes that take it, and its help. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/alloc.h"
#include "kernels/train/train_internal.h"

const char *const dl_sync_names[] = {[DL_SYNC_NONE] = "none",
                                     [DL_SYNC_ALLREDUCE] = "allreduce",
                                     [DL_SYNC_PS] = "ps",
                                     [DL_SYNC_AVERAGE] = "average",
                                     [DL_SYNC_ASYNC] = "async",
                                     [DL_SYNC_SOFTSYNC] = "softsync",
                                     [DL_SYNC_ASYNC_AVERAGE] = "async_average",
                                     [DL_SYNC_ASYNC_AVERAGE + 1] = NULL};

dl_train_config dl_train_default_config(void)
{
    return (dl_train_config){
        .model = "lenet",
        .precision = DL_FLOAT,
        .optimizer = {.name = "sgd", .learning_rate = 0.01, .momentum = 0.9},
        .sync = DL_SYNC_NONE,
        .interval = 1,
        .fragments = 1,
        .mixing = 0.5,                                                  /* as in Streaming DiLoCo */
        .outer = {.kind = DL_OUTER_NONE, .rate = 0.7, .momentum = 0.9}, /* as in DiLoCo */
        .server_threads = 1,
        .softsync_n = 1,
        .bound = -1,
        .merge = {.quorum = 1},
        .workers = 1,
        .threads = 1,
        .batch = 64,
        .steps = 100,
        .seed = 1,
        .wait = DL_WAIT_AUTO,
    };
}

/* Sets of modes: 1 << dl_sync of each. */
enum {
    SERVED = 1 << DL_SYNC_PS,
    AVERAGE = 1 << DL_SYNC_AVERAGE,
    ASYNC = 1 << DL_SYNC_ASYNC,
    SOFT = 1 << DL_SYNC_SOFTSYNC,
    MERGES = 1 << DL_SYNC_ASYNC_AVERAGE
};

/* FREE: other modes may have the setting, without effect. REPLAYED: a replay has it too, since its
 * schedule does not give it. */
enum { FREE = 1, REPLAYED = 2 };

typedef struct setting {
    unsigned modes;   /* the modes that take it; 0: all */
    int is;           /* FREE | REPLAYED */
    dl_option option; /* its target is a field of dl_train_config */
} setting;

static const setting settings[DL_TRAIN_OPTION_COUNT] = {
    {0, 0,
     DL_OPTION_ROW_NUMBER(INT32, "workers", 'w', dl_train_config, workers, 1, DL_TRAIN_WORKERS_MAX,
                          "COUNT",
                          "Number of replicas of the model, each a thread pinned to a core, over "
                          "all ranks together.",
                          .group = "Workers and steps")},
    {0, 0,
     DL_OPTION_ROW_NUMBER(INT32, "threads", 0, dl_train_config, threads, 1, DL_TRAIN_WORKERS_MAX,
                          "COUNT",
                          "Number of threads per worker, each pinned to a core, that divide its "
                          "operations; results are identical to the bit.")},
    {0, 0,
     DL_OPTION_ROW_NUMBER(INT32, "batch", 'b', dl_train_config, batch, 1, 1 << 20, "SAMPLES",
                          "Number of samples per step, of all workers together.")},
    {0, 0,
     DL_OPTION_ROW_NUMBER(INT, "steps", 0, dl_train_config, steps, 1, UINT32_MAX, "COUNT",
                          "Number of steps of each worker.")},
    {0, 0,
     DL_OPTION_ROW_CHOICE("wait", 0, dl_train_config, wait, dl_wait_names, "HOW",
                          "How workers wait; auto spins if each has a core of its own.")},
    {0, 0,
     DL_OPTION_ROW_CHOICE("sync", 's', dl_train_config, sync, dl_sync_names, "MODE",
                          "Mode of exchange between workers.", .group = "Exchange")},
    {AVERAGE | SERVED, FREE,
     DL_OPTION_ROW_NUMBER(INT32, "server-threads", 0, dl_train_config, server_threads, 1,
                          DL_TRAIN_WORKERS_MAX, "COUNT",
                          "Number of workers that average (average) or update (ps), each a slice "
                          "of the parameters.")},
    {AVERAGE | MERGES, FREE,
     DL_OPTION_ROW_NUMBER(INT32, "interval", 0, dl_train_config, interval, 1, INT32_MAX, "STEPS",
                          "Number of steps between two averages (average) or uploads "
                          "(async_average).")},
    {AVERAGE, 0,
     DL_OPTION_ROW_FLAG("interval-by-speed", 0, dl_train_config, interval_by_speed,
                        "Workers that --slow slows do fewer steps between two averages, as many "
                        "as they can in the time of the fastest worker; for average.")},
    {AVERAGE, 0,
     DL_OPTION_ROW_NUMBER(INT32, "sites", 0, dl_train_config, sites, 0, DL_TRAIN_WORKERS_MAX,
                          "COUNT",
                          "Number of sites, equal groups of neighbouring workers, for --inside.")},
    {AVERAGE, 0,
     DL_OPTION_ROW_NUMBER(INT32, "fragments", 0, dl_train_config, fragments, 1,
                          DL_TRAIN_FRAGMENTS_MAX, "COUNT",
                          "Number of parts of the parameters that are averaged one after another, "
                          "each once per interval, for average; must divide the interval.")},
    {AVERAGE, 0,
     DL_OPTION_ROW_NUMBER(INT32, "lag", 0, dl_train_config, lag, 0, INT32_MAX, "STEPS",
                          "Number of steps between sending parameters and merging their average, "
                          "for average; fewer than the interval.")},
    {AVERAGE, FREE | REPLAYED,
     DL_OPTION_ROW_NUMBER(DOUBLE, "mixing", 0, dl_train_config, mixing, 0, 1, "FRACTION",
                          "Share of its own parameters that a worker keeps when it merges an "
                          "average, with --lag (alpha of Streaming DiLoCo).")},
    {AVERAGE, FREE | REPLAYED,
     DL_OPTION_ROW_FLAG("average-state", 0, dl_train_config, average_state,
                        "Also average the optimizer's state, for average.")},
    {AVERAGE | MERGES, REPLAYED,
     DL_OPTION_ROW_CHOICE("outer", 0, dl_train_config, outer.kind, dl_outer_names, "OPTIMIZER",
                          "Optimizer that applies an average to the parameters, for average and "
                          "async_average: none, which replaces them; sgd (BMUF); nesterov "
                          "(DiLoCo).")},
    {AVERAGE | MERGES, FREE | REPLAYED,
     DL_OPTION_ROW_NUMBER(DOUBLE, "outer-rate", 0, dl_train_config, outer.rate, 1e-9, 1e3, "RATE",
                          "Learning rate of the --outer optimizer.")},
    {AVERAGE | MERGES, FREE | REPLAYED,
     DL_OPTION_ROW_NUMBER(DOUBLE, "outer-momentum", 0, dl_train_config, outer.momentum, 0, 0.999999,
                          "FACTOR", "Momentum of the --outer optimizer.")},
    {SOFT, FREE,
     DL_OPTION_ROW_NUMBER(INT32, "n", 0, dl_train_config, softsync_n, 1, DL_TRAIN_WORKERS_MAX,
                          "COUNT",
                          "Divisor n of softsync: an update takes workers / n gradients.")},
    {SOFT | MERGES, 0,
     DL_OPTION_ROW_NUMBER(INT, "bound", 0, dl_train_config, bound, 0, INT32_MAX, "UPDATES",
                          "Largest staleness of a gradient (softsync) or an upload "
                          "(async_average) (default: any).")},
    {MERGES, FREE,
     DL_OPTION_ROW_NUMBER(INT32, "quorum", 0, dl_train_config, merge.quorum, 1,
                          DL_TRAIN_WORKERS_MAX, "COUNT",
                          "Number of uploads that a merge of async_average needs.")},
    {MERGES, FREE,
     DL_OPTION_ROW_NUMBER(INT32, "quorum-max", 0, dl_train_config, merge.quorum_max, 0,
                          DL_TRAIN_WORKERS_MAX, "COUNT",
                          "Largest number of uploads per merge (default: the number of workers).")},
    {MERGES, FREE,
     DL_OPTION_ROW_NUMBER(DOUBLE, "grace-s", 0, dl_train_config, merge.grace_s, 0, 1e6, "SECONDS",
                          "Time that a merge waits for more uploads after the quorum.")},
    {MERGES, FREE,
     DL_OPTION_ROW_CHOICE("grace", 0, dl_train_config, merge.adaptive, dl_merge_grace_names, "HOW",
                          "Wait for more uploads: fixed, all of --grace-s; adaptive, only until a "
                          "worker of the quorum is expected to upload again.")},
    {MERGES, FREE,
     DL_OPTION_ROW_NUMBER(DOUBLE, "scan-s", 0, dl_train_config, merge.scan_s, 0, 1e6, "SECONDS",
                          "Time between scans for uploads; 0: each upload is seen at once.")},
    {MERGES, FREE,
     DL_OPTION_ROW_NUMBER(DOUBLE, "weight-power", 0, dl_train_config, merge.weight_power, 0, 100,
                          "POWER",
                          "Exponent of a merge's weights: an upload that is s versions stale has "
                          "the weight (1 + s)^-POWER.")},
    {MERGES, FREE,
     DL_OPTION_ROW_NUMBER(DOUBLE, "wait-s", 0, dl_train_config, merge.wait_s, 0, 1e6, "SECONDS",
                          "Longest time that a worker waits for a new version after an upload.")},
    {SOFT | ASYNC, REPLAYED,
     DL_OPTION_ROW_FLAG("staleness-rate", 0, dl_train_config, staleness_rate,
                        "Divide a gradient's learning rate by its staleness, for async and "
                        "softsync.")},
    {0, REPLAYED,
     DL_OPTION_ROW_NUMBER(DOUBLE, "rate-drop", 0, dl_train_config, drop_epochs, 0, 1e9, "EPOCHS",
                          "Number of epochs after which the learning rate is divided by ten "
                          "(default: none).",
                          .group = "Accuracy")},
};

void dl_train_options(dl_train_config *config, dl_option *table)
{
    for (size_t i = 0; i < DL_TRAIN_OPTION_COUNT; i++)
        dl_options_bind(&table[i], &settings[i].option, 1, config);
}

/* Returns the value of the option that setting `i` of *config is; the caller frees it. */
static char *value_of(const dl_train_config *config, size_t i)
{
    dl_train_config copy = *config;
    dl_option option;
    dl_options_bind(&option, &settings[i].option, 1, &copy);
    if (option.type == DL_OPTION_FLAG) return dl_strdup(*(bool *)option.target ? "yes" : "no");
    return dl_option_value(&option);
}

static bool is_default(const dl_train_config *config, size_t i)
{
    const dl_train_config usual = dl_train_default_config();
    DL_AUTOFREE char *value = value_of(config, i), *usual_value = value_of(&usual, i);
    return strcmp(value, usual_value) == 0;
}

dl_status dl_train_check_limits(const dl_train_config *config, dl_error *err)
{
    dl_train_config copy = *config;
    dl_option options[DL_TRAIN_OPTION_COUNT];
    dl_train_options(&copy, options);
    for (size_t i = 0; i < DL_TRAIN_OPTION_COUNT; i++) {
        dl_error why = {0};
        DL_AUTOFREE char *value = value_of(config, i);
        if (is_default(config, i) || dl_option_read(&options[i], value, &why) == DL_OK) continue;
        return dl_error_set(err, DL_ERR_RANGE, "--%s: %s", options[i].name, why.text);
    }
    return DL_OK;
}

/* Lists a set of modes as "async or softsync". */
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

dl_status dl_train_check_modes(const dl_train_config *config, bool all, dl_error *err)
{
    char modes[64];
    for (size_t i = 0; i < DL_TRAIN_OPTION_COUNT; i++) {
        const setting *s = &settings[i];
        if (s->modes == 0 || s->modes & 1U << config->sync || (s->is & FREE && !all) ||
            is_default(config, i))
            continue;
        list_modes(modes, sizeof modes, s->modes);
        return dl_error_set(err, DL_ERR_UNSUPPORTED, "--%s needs --sync %s, not %s", s->option.name,
                            modes, dl_sync_names[config->sync]);
    }
    return DL_OK;
}

const char *dl_train_scheduled_option(const dl_train_config *config)
{
    for (size_t i = 0; i < DL_TRAIN_OPTION_COUNT; i++)
        if (!(settings[i].is & REPLAYED) && !is_default(config, i)) return settings[i].option.name;
    return NULL;
}
