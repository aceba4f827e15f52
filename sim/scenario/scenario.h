/* A scenario: what to simulate, read from an INI file. Every listed value is swept: lists of cores,
 * workers, batch, modes and their numbers make points; a list of any other key makes variants of
 * the scenario (sim/scenario/study.h). Its keys: sim/scenario/keys.c, docs/keys.md, dlsim
 * --keys. */
#ifndef DL_SIM_SCENARIO_H
#define DL_SIM_SCENARIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/names.h"
#include "common/status.h"
#include "sim/absence.h"
#include "sim/failures.h"
#include "sim/generate/generators.h"
#include "sim/island/split.h"
#include "sim/noise.h"
#include "sim/step/recorded.h"
#include "sim/sync/mode.h"
#include "sim/sync/syncer.h"
#include "sim/target.h"

#define DL_WORKERS_MAX 10000000 /* about 1.5 KB of memory each */
#define DL_SCENARIO_KEYS_MAX 200
#define DL_MICRO_BATCHES_MAX 4096
#define DL_CORES_MEASURED (-1)
#define DL_CORES_GPU 0 /* workers are GPUs */

/* One combination of the swept values. */
typedef struct dl_point {
    int cores; /* DL_CORES_MEASURED until dl_scenario_set_measured_cores; DL_CORES_GPU */
    int workers;
    int64_t batch;   /* all workers together; a multiple of workers */
    const int *gpus; /* [workers x ranks] borrowed, counted over all nodes; NULL: the scenario's */
    int gpu_count;   /* shared by the workers; 0: each has its own, or one per stage */
    const dl_mode *mode;
    const char *word; /* another program's, that gave the mode and a key; NULL: the mode's name */
    double option[DL_SYNC_SWEPT]; /* the fallback where the mode does not take it */
    int stages, micro_batches;    /* of a split model; stages <= 1: it is not split */
    int shards;                   /* ranks that share a stage; <= 1: it is not sharded */
    int chunks;                   /* runs of layers of a stage; <= 1: one */
    int tensor;                   /* GPUs that divide each layer; <= 1: it is not divided */
    int context;                  /* GPUs that divide each sequence; <= 1: it is not divided */
    const dl_axis *axes;          /* [DL_AXES] of a split model, borrowed */
} dl_point;

/* Kinds of workers on cores: threads with one memory, or processes. */
typedef enum dl_processes {
    DL_PROCESSES_AUTO, /* until the costs are read: processes if these have [collective
                          allreduce]s */
    DL_PROCESSES_NO,
    DL_PROCESSES_YES
} dl_processes;

typedef struct dl_slow_worker {
    int worker;
    double factor; /* > 0 */
} dl_slow_worker;

/* [pipeline]. */
typedef struct dl_scenario_pipeline {
    dl_pipeline_options options;
    int stages, micro_batches, chunks;
    int micro_batch;       /* samples of each rank's, in place of micro_batches; 0: not given */
    int shards;            /* ranks that share a stage's parameters; 1: none */
    int tensor;            /* GPUs that divide each layer; 1: none */
    int context;           /* GPUs that divide each sequence; 1: none */
    dl_axis axes[DL_AXES]; /* from neighbours outwards */
    dl_schedule schedule;
} dl_scenario_pipeline;

/* How the workers of a point share its batch (sim/shares.h). */
typedef enum dl_shares_kind { DL_SHARES_EQUAL, DL_SHARES_SPEED } dl_shares_kind;

/* A cost file of one of the machine's GPU models. */
typedef struct dl_gpu_costs {
    int model;
    char *path; /* as to be opened */
} dl_gpu_costs;

/* Source of batches; settings that also apply to GPUs are copied into their options. */
typedef struct dl_scenario_input {
    int loaders; /* of each worker on cores */
    int prefetch;
    dl_quantity storage_bytes_per_s;
    int64_t storage_ahead_bytes;
    double cached_frac;
} dl_scenario_input;

typedef enum dl_scale { DL_SCALE_AUTO, DL_SCALE_NO } dl_scale;
typedef enum dl_missing { DL_MISSING_ASSUME, DL_MISSING_REFUSE } dl_missing;

/* Beyond this factor, either way, the error lies elsewhere than in the speed of computing. */
#define DL_CALIBRATE_FACTOR_MAX 5.0

/* A measured step, and the factor on compute with which it is predicted
 * (sim/scenario/calibrate.h). */
typedef struct dl_calibrate {
    double step_ns;  /* 0: the factor is given, or nothing */
    int workers;     /* of the measurement; 0: the scenario's fewest */
    int64_t samples; /* per worker; 0: those of that point */
    double factor;   /* 0: not yet found, or nothing to do */
} dl_calibrate;

typedef struct dl_scenario {
    char *path, *name;
    char *
        costs_path; /* path to open; beside samples_per_s or a model of exchange only; NULL: none */
    char *measured_path;   /* path to open; NULL: none */
    char *model;           /* sim/workloads/architecture.h; NULL: costs_path or samples_per_s */
    int arithmetic;        /* of the model: 0 auto, else 1 + dl_arithmetic */
    int optimizer;         /* of the model: 0 auto, else 1 + dl_optimizer_kind */
    int recompute;         /* of the model: dl_recompute_names */
    char *scale_path;      /* sim/scenario/scaling.h; NULL: not given */
    char *trace_path;      /* of a recorded step, in place of the costs' times; NULL: not given */
    dl_recorded *recorded; /* that step; NULL: not given */
    dl_scale scale;
    int scale_arithmetic; /* dl_arithmetic */
    dl_missing missing;   /* treatment of needed costs that the cost file lacks */
    int64_t steps, warmup, replicates, seed;
    bool per_worker;           /* results have columns with a number for each worker */
    int64_t samples_per_epoch; /* 0: not given */
    double samples_per_s;      /* of one worker, instead of a cost file; 0: not given */
    dl_calibrate calibrate;    /* from the file; zero: not given */
    char *device;              /* device of samples_per_s; NULL: the machine's GPU */
    int64_t parameter_bytes;   /* instead of the cost file's; 0: not given */
    dl_gpu_costs *gpu_costs;   /* [gpu_costs_count] each of another model */
    size_t gpu_costs_count;
    int shares; /* dl_shares_kind */
    bool batch_per_worker;
    dl_compression compression;
    dl_scenario_input input;
    bool average_state;
    int outer; /* of average: 0 = none */
    int fragments;
    int inside;    /* of average: 0 = none */
    int processes; /* dl_processes; of workers on cores */
    int server_threads;
    bool interval_by_speed;
    dl_syncer_config syncer; /* for async_average */
    dl_absences absences;    /* owns `listed` */
    dl_failures failures;
    dl_target target;
    unsigned without; /* costs that are switched off: sim/scenario/without.h */
    dl_noise_kind noise;
    double sigma;
    dl_slow_worker *slow; /* [slow_count] */
    size_t slow_count;
    dl_gpu_options *gpu;            /* NULL: workers are threads on cores */
    dl_scenario_pipeline *pipeline; /* NULL: models are not split */
    dl_generators *generators;      /* NULL: samples are given; else the points are the trainer's */
    bool given[DL_SCENARIO_KEYS_MAX]; /* by the file: rows of dl_scenario_keys */
    dl_point *points; /* [point_count], in the order cores, workers, batch, mode, options */
    size_t point_count;
} dl_scenario;

/* Reads and checks a scenario into zeroed `scenario`. Errors name file:line, key and value:
 * DL_ERR_PARSE, DL_ERR_NAME (unknown section, key, mode, ...), DL_ERR_RANGE (also: a batch that
 * cannot be divided among the workers), DL_ERR_DATA (a missing key). */
dl_status dl_scenario_read(dl_scenario *scenario, const char *path, dl_error *err) DL_MUST_CHECK;

/* The same from memory; relative paths in it are relative to the folder of `name`. */
dl_status dl_scenario_read_text(dl_scenario *scenario, const char *name, const char *text,
                                size_t bytes, dl_error *err) DL_MUST_CHECK;

/* Sets the measured number of cores (0: not in the cost file) in points that ask for it; points
 * that become equal are merged. DL_ERR_DATA if it is needed and unknown. */
dl_status dl_scenario_set_measured_cores(dl_scenario *scenario, int64_t cores,
                                         dl_error *err) DL_MUST_CHECK;

void dl_scenario_free(dl_scenario *scenario);

/* Whether [generators] gives the duration of an update: then there is no other workload. */
bool dl_scenario_trains_by_keys(const dl_scenario *scenario);

/* Whether the GPUs of a point exchange by collectives, without a server. */
bool dl_scenario_is_collective(const dl_scenario *scenario, const dl_point *point);

/* Number of fragments of the parameters, averaged in sequence. */
int dl_scenario_fragments(const dl_scenario *scenario, const dl_point *point);

/* The layout of workers with one GPU each, spelled as no user would, so that --advise layout can
 * replace it. */
#define DL_LAYOUT_ALONE "pp=1,tp=1"

/* The plan of the point's exchange in a step; on cores only its lag and message are set. */
dl_exchange_plan dl_scenario_exchange(const dl_scenario *scenario, const dl_point *point);

/* GPUs of one worker in the largest of these layouts (text as in a file); *all: of all its workers.
 * Invalid parts count as 1, as they are reported only when the scenario is read. */
int64_t dl_scenario_layout_gpus(const char *layouts, int64_t *all);

/* Whether one of these layouts (text as in a file) agrees with the point's axes, in `order`
 * [DL_AXES], in all sizes that it gives: "tp=8" allows every point with tp = 8. */
bool dl_scenario_layout_allows(const char *layouts, const dl_point *point, const dl_axis *order);

/* Kind of state that is sharded among the workers, else among the GPUs of each worker. */
dl_sharded dl_scenario_sharded(const dl_scenario *scenario);

/* Factors of [noise] slow on the compute times of the workers, [workers]. */
void dl_scenario_slow(const dl_scenario *scenario, int workers, double *slow);

/* Name of the point's mode in output: the word that the scenario uses. */
const char *dl_point_mode(const dl_point *point);

/* Whether each worker of the point is several GPUs; GPUs of the point: workers x ranks, or fewer if
 * workers share them; largest number of workers on a GPU. */
bool dl_point_is_split(const dl_point *point);
/* Whether GPUs of a worker reduce gradients together: shards of a stage, or parts of a sequence. */
bool dl_point_reduces_within(const dl_point *point);
int dl_point_ranks(const dl_point *point); /* GPUs of a worker, unless workers share them */
int dl_point_gpus(const dl_point *point);
int dl_point_workers_per_gpu(const dl_point *point);

/* Price of the nodes that a point uses, with [generators] of both sides; NaN: unknown. */
double dl_scenario_usd_per_hour(const dl_scenario *scenario, const dl_point *point);

dl_split dl_point_split(const dl_point *point);

/* Whether the mode takes the option, and it is given or has a meaningful default. */
bool dl_point_shows(const dl_point *point, int option);

#define DL_POINT_TEXT_BYTES 256

/* "interval 10", "n 2, bound 8", or "" in text[bytes >= 1]; returns text. */
const char *dl_point_options(char *text, size_t bytes, const dl_point *point);

/* "cores 2, workers 4, batch 128, average, interval 10" in text[bytes]; returns text. */
const char *dl_point_text(char *text, size_t bytes, const dl_point *point);

/* Another program's word for a mode; NULL: no such word is known. */
const dl_word *dl_mode_word(const char *given);

#endif
