/* What and where to record: the settings that `dlprof run` passes to the injected library of each
 * process of the target. They travel in the environment, which children inherit, so that ranks and
 * workers started by the target are recorded with the same settings.
 *
 *   DLPROF_OUTPUT      folder of traces and logs             default "": nothing is recorded
 *   DLPROF_PRESET      light, default or full                default "default"
 *   DLPROF_GRAPHS      node or graph                         default "node"
 *   DLPROF_STEPS       count                                 default 0: no limit
 *   DLPROF_DURATION    seconds                               default 0: no limit
 *   DLPROF_LIMIT       bytes with an optional unit ("2GB")   default 0: no limit
 *   DLPROF_END_WAIT    seconds                               default 5
 *   DLPROF_LIB_RANGES  0 or 1                                default 0
 *   DLPROF_DUMP_RAW    0 or 1                                default 0
 *   DLPROF_CUPTI       file of libcupti to load              default "": search for it
 *   DLPROF_COST        cost of recording, for the trace      default "": unknown */
#ifndef DL_PROFILER_INJECT_SETTINGS_H
#define DL_PROFILER_INJECT_SETTINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/options.h"
#include "common/status.h"

/* Each preset includes the one before it. */
typedef enum dl_capture_preset {
    DL_CAPTURE_LIGHT,   /* kernels, copies, memsets; NVTX */
    DL_CAPTURE_DEFAULT, /* also runtime calls, the driver's launches, synchronisation, events,
                         * overhead */
    DL_CAPTURE_FULL     /* also the driver's copies and waits */
} dl_capture_preset;
extern const char *const dl_capture_preset_names[]; /* "light", "default", "full", NULL */

typedef enum dl_capture_graphs {
    DL_CAPTURE_GRAPH_NODES, /* each kernel and copy of a CUDA graph */
    DL_CAPTURE_GRAPH_WHOLE  /* each launch of a CUDA graph as one box: cheaper */
} dl_capture_graphs;
extern const char *const dl_capture_graphs_names[]; /* "node", "graph", NULL */

#define DL_CAPTURE_STEPS_MAX 4294967295LL   /* maximum steps that a trace can number */
#define DL_CAPTURE_DURATION_MAX_S 31536000. /* a year */
#define DL_CAPTURE_END_WAIT_S 5
#define DL_CAPTURE_LIMIT_MIN_BYTES 131072 /* less would not hold header, names and a full chunk */
#define DL_CAPTURE_LIMIT_MAX_BYTES 0x1p50 /* 1 PiB */

/* Texts are borrowed. */
typedef struct dl_capture_settings {
    const char *output; /* folder, "" = record nothing; absolute from `dlprof run`, since the target
                             may change its directory */
    int preset;         /* dl_capture_preset */
    int graphs;         /* dl_capture_graphs */
    int64_t steps;      /* recording ends after this many marked steps of a process; 0 = never */
    double duration_s;  /* recording ends this long after its start in a process; 0 = never */
    uint64_t limit_bytes; /* recording ends when a process's trace reaches this size; 0 = never */
    double end_wait_s;    /* longest time by which the recording delays the end of the process */
    bool lib_ranges;      /* cuBLAS and cuDNN mark their calls with NVTX ranges */
    bool dump_raw;        /* also save the buffers as CUPTI delivered them */
    const char *cupti;    /* libcupti's file, "" = search for it */
    const char *cost;     /* cost of recording, a meta value of the trace
                           * (trace/activity/capture_cost.h) */
} dl_capture_settings;

dl_capture_settings dl_capture_settings_default(void);

/* Fills table[DL_CAPTURE_OPTION_COUNT] with the options of `dlprof run` that set them. */
#define DL_CAPTURE_OPTION_COUNT 9
void dl_capture_options(dl_capture_settings *settings, dl_option *table);

/* How the user gave the settings, which determines the names in messages. */
typedef enum dl_setting_origin {
    DL_SETTING_VARIABLE, /* "DLPROF_LIB_RANGES" */
    DL_SETTING_OPTION    /* "--lib-ranges" of dlprof run */
} dl_setting_origin;

/* Checks that limits on time and size, if not 0, are large enough; else DL_ERR_RANGE, naming the
 * setting. */
dl_status dl_capture_settings_check(const dl_capture_settings *settings, dl_setting_origin origin,
                                    dl_error *err) DL_MUST_CHECK;

/* Sets each variable of the table above in this process's environment, and with lib_ranges those
 * that make cuBLAS, cuBLASLt and cuDNN mark their calls. The settings must be valid. */
void dl_capture_settings_to_environment(const dl_capture_settings *settings);

/* Number of a copy of a program that `dlprof bench` runs several times; no setting. */
#define DL_COPY_VARIABLE "DLPROF_COPY"

/* Reads the settings from `environment` ("NAME=value" texts up to a NULL, as environ); missing
 * variables keep their defaults. Fails, naming the variable, with DL_ERR_NAME for an unknown
 * DLPROF_ variable (except DL_COPY_VARIABLE) or choice, else with DL_ERR_PARSE or DL_ERR_RANGE;
 * *settings is untouched then. */
dl_status dl_capture_settings_from_environment(dl_capture_settings *settings,
                                               char *const *environment,
                                               dl_error *err) DL_MUST_CHECK;

#endif
