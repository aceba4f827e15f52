/* A scenario: the simulated setting, read from an INI file. Every listed value is swept: lists of
 * cores, workers, batch, modes and their options make points; a list of any other key makes
 * variants of the scenario (sim/scenario/study.h). Keys: sim/scenario/keys.c, docs/keys.md, dlsim
 * --keys. */
#ifndef DL_SIM_SCENARIO_H
#define DL_SIM_SCENARIO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

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

#define DL_WORKERS_MAX 10000000 /* each worker takes about 1.5 KB of memory */
#define DL_SCENARIO_KEYS_MAX 216
#define DL_MICRO_BATCHES_MAX 4096
#define DL_CORES_MEASURED (-1)
#define DL_CORES_GPU 0 /* workers are GPUs */

/* One combination of the swept values. */
typedef struct dl_point {
    int cores; /* or DL_CORES_MEASURED until dl_scenario_set_measured_cores, or DL_CORES_GPU */
    int workers;
    int64_t batch;   /* samples of all workers together; a multiple of workers */
    const int *gpus; /* [workers x ranks] GPU numbers over all nodes, borrowed; NULL: the scenario's
                      * assignment */
    int gpu_count;   /* number of GPUs shared by the workers; 0: not shared, each worker has its own
                      * GPUs */
    const dl_mode *mode;
    const char *word; /* word of another program for the mode and a key, as given in the file; NULL:
                       * the mode's name */
    double option[DL_SYNC_SWEPT]; /* the default where the mode does not take the option */
    DL_AXIS_SIZES;
    int micro_batches;   /* micro-batches of a model with stages */
    int chunks;          /* runs of layers per stage; <= 1: one */
    const dl_axis *axes; /* [DL_AXES] order of the axes of a split model, borrowed */
} dl_point;

/* Kinds of workers on cores: threads with one memory, or processes. */
typedef enum dl_processes {
    DL_PROCESSES_AUTO, /* not known until the costs are read; processes if the costs have times of
                        * exchanges between processes or are of a program whose workers are
                        * processes */
    DL_PROCESSES_NO,
    DL_PROCESSES_YES
} dl_processes;

typedef struct dl_slow_worker {
    int worker;
    double factor; /* factor of the worker's compute times, > 0 */
} dl_slow_worker;

/* Section [pipeline]. */
typedef struct dl_scenario_pipeline {
    dl_pipeline_options options;
    DL_AXIS_SIZES;
    int micro_batches, chunks;
    int micro_batch;       /* samples of a rank's micro-batch, instead of micro_batches; 0: not
                            * given */
    dl_axis axes[DL_AXES]; /* from the axis of neighbouring GPUs outwards */
    dl_schedule schedule;
} dl_scenario_pipeline;

/* Division of a point's batch among its workers (sim/shares.h). */
typedef enum dl_shares_kind { DL_SHARES_EQUAL, DL_SHARES_SPEED } dl_shares_kind;

/* A cost file of one of the machine's GPU models. */
typedef struct dl_gpu_costs {
    int model;
    char *path; /* path to open */
} dl_gpu_costs;

/* Source of batches; settings that also apply to GPUs are copied to the GPU options. */
typedef struct dl_scenario_input {
    int loaders; /* loaders per worker, for workers on cores */
    int prefetch;
    dl_quantity storage_bytes_per_s;
    int64_t storage_ahead_bytes;
    double cached_frac;
} dl_scenario_input;

typedef enum dl_scale { DL_SCALE_AUTO, DL_SCALE_NO } dl_scale;
typedef enum dl_missing { DL_MISSING_ASSUME, DL_MISSING_REFUSE } dl_missing;

/* Outside [1 / this, this] the factor is rejected: the error must have another cause than compute
 * speed. */
#define DL_CALIBRATE_FACTOR_MAX 5.0

/* A measured step, and the compute factor that reproduces it (sim/scenario/calibrate.h). */
typedef struct dl_calibrate {
    double step_ns;  /* 0: the factor, or a rate for dl_calibrate_find, is given, or no
                      * calibration */
    double per_s;    /* rate of all workers, in place of step_ns; 0: not given */
    bool in_tokens;  /* per_s is in tokens per second, not samples */
    int workers;     /* workers of the measured run; 0: the scenario's fewest */
    int64_t samples; /* samples per worker of the measured run; 0: those of the scenario's point */
    double factor;   /* 0: not determined yet, or no calibration */
    double most_ns;  /* dispatch.most_ns of the costs; 0: not limited */
    bool may_launch; /* launches at the end of their assumed interval take as long as the step */
} dl_calibrate;

typedef struct dl_scenario {
    char *path, *name;
    char *costs_path; /* path to open; next to samples_per_s or a model it has exchange costs only;
                     * NULL: none */
    char *measured_path;   /* path to open; NULL: none */
    char *model;           /* network description (sim/workloads/architecture.h); NULL: costs_path,
                            * samples_per_s or the time of an update in [generators] is given */
    int arithmetic;        /* arithmetic of the model: 0 auto, else 1 + dl_arithmetic */
    int optimizer;         /* optimizer of the model: 0 auto, else 1 + dl_optimizer_kind */
    int recompute;         /* recomputation of the model: index into dl_recompute_names */
    char *scale_path;      /* file of scale_compute (sim/scenario/scaling.h); NULL: not given */
    char *trace_path;      /* trace of a recorded step that replaces the costs' times; NULL: not
                            * given */
    dl_recorded *recorded; /* step recorded in trace_path; NULL: not given */
    dl_scale scale;
    dl_missing missing; /* treatment of needed costs that the cost file lacks */
    int64_t steps, warmup, replicates, seed;
    bool per_worker;           /* results have columns with one number per worker */
    int64_t samples_per_epoch; /* 0: not given */
    double samples_per_s;      /* samples/s of one worker, instead of a cost file; 0: not given */
    dl_calibrate calibrate;    /* as given in the file; zeroed: not given */
    char *device;              /* device of samples_per_s; NULL: the machine's GPU */
    int64_t parameter_bytes;   /* bytes of the parameters, instead of the cost file's; 0: not
                                * given */
    dl_gpu_costs *gpu_costs;   /* [gpu_costs_count] cost files, each of another model */
    size_t gpu_costs_count;
    int shares; /* dl_shares_kind */
    bool batch_per_worker;
    dl_compression compression;
    dl_sharded sharded;    /* state that processes on cores divide; on GPUs gpu->sharded */
    bool keeps_parameters; /* on cores; on GPUs gpu->keeps_parameters */
    dl_scenario_input input;
    bool average_state;
    int outer; /* outer optimizer of mode average; 0: none */
    int fragments;
    int inside;    /* exchange inside sites, in mode average; 0: none */
    int processes; /* dl_processes; for workers on cores */
    int server_threads;
    bool interval_by_speed;
    dl_syncer_config syncer; /* for mode async_average */
    dl_absences absences;    /* owns `listed` */
    dl_failures failures;
    dl_target target;
    unsigned without; /* costs that are switched off: sim/scenario/without.h */
    dl_noise_kind noise;
    double sigma;
    dl_slow_worker *slow; /* [slow_count] */
    size_t slow_count;
    dl_gpu_options *gpu;              /* NULL: workers are on cores */
    dl_scenario_pipeline *pipeline;   /* NULL: models are not split */
    dl_generators *generators;        /* NULL: the scenario generates no samples; else the points
                                       * describe the trainer */
    bool given[DL_SCENARIO_KEYS_MAX]; /* rows of dl_scenario_keys that the file sets */
    dl_point *points; /* [point_count] in the order of the lists; cores change most slowly, then
                       * workers, batch, mode and options */
    size_t point_count;
} dl_scenario;

/* Reads and checks a scenario into *scenario, which must be zeroed. Errors name file:line, key and
 * value: DL_ERR_PARSE, DL_ERR_NAME (unknown section, key, mode, ...), DL_ERR_RANGE (also a batch
 * that cannot be divided among the workers), DL_ERR_DATA (a missing key). */
dl_status dl_scenario_read(dl_scenario *scenario, const char *path, dl_error *err) DL_MUST_CHECK;

/* Reads a scenario from memory; its relative paths are relative to the folder of `name`. */
dl_status dl_scenario_read_text(dl_scenario *scenario, const char *name, const char *text,
                                size_t bytes, dl_error *err) DL_MUST_CHECK;

/* Sets the measured number of cores (0: not in the cost file) in points with DL_CORES_MEASURED, and
 * merges points that become equal. DL_ERR_DATA if the number is needed and unknown. */
dl_status dl_scenario_set_measured_cores(dl_scenario *scenario, int64_t cores,
                                         dl_error *err) DL_MUST_CHECK;

void dl_scenario_free(dl_scenario *scenario);

/* Whether [generators] sets the duration of an update, so that there is no other workload. */
bool dl_scenario_trains_by_keys(const dl_scenario *scenario);

/* Whether the GPUs of a point exchange by collectives, without a server. */
bool dl_scenario_is_collective(const dl_scenario *scenario, const dl_point *point);

/* Returns the number of parameter fragments, which are averaged in sequence. */
int dl_scenario_fragments(const dl_scenario *scenario, const dl_point *point);

/* Returns whether an outer optimizer's update follows each average, as always with block
 * momentum. */
bool dl_scenario_has_outer(const dl_scenario *scenario, const dl_point *point);

/* The layout of workers with one GPU each, in a spelling that users do not write, so that --advise
 * layout can replace it. */
#define DL_LAYOUT_ALONE "pp=1,tp=1"

/* Returns the plan of the point's exchange in a step; of threads on cores only its lag and
 * message are set. */
dl_exchange_plan dl_scenario_exchange(const dl_scenario *scenario, const dl_point *point);

/* Returns the GPUs of one worker in the largest of these layouts (text as in a file), and in
 * *all those of all its workers. Invalid parts count as 1; they are reported when the scenario
 * is read. */
int64_t dl_scenario_layout_gpus(const char *layouts, int64_t *all);

/* Returns the number of GPUs of a worker that have samples of their own (fsdp x ep), or 0 if it
 * differs between the layouts. Invalid parts count as 1. */
int64_t dl_scenario_layout_batches(const char *layouts);

/* Whether one of these layouts (text as in a file) agrees in all sizes that it gives with the
 * point's axes, whose order is order[DL_AXES]: "tp=8" allows every point with tp = 8. */
bool dl_scenario_layout_allows(const char *layouts, const dl_point *point, const dl_axis *order);

/* Returns the state that is sharded among the workers or, if it is sharded within workers, among
 * the GPUs of each worker. */
dl_sharded dl_scenario_sharded(const dl_scenario *scenario);

/* Writes the factors of [noise] slow on the workers' compute times to slow[workers]. */
void dl_scenario_slow(const dl_scenario *scenario, int workers, double *slow);

/* Whether the file sets the key `name` of the section, which must be one of dl_scenario_keys. */
bool dl_scenario_gives(const dl_scenario *scenario, const char *section, const char *name);

/* Returns the name of the point's mode in output: the word that the scenario uses. */
const char *dl_point_mode(const dl_point *point);

/* Whether each worker of the point has several GPUs. */
bool dl_point_is_split(const dl_point *point);
/* Whether GPUs of a worker reduce gradients among themselves, as it has shards or divides sequences
 * or experts. */
bool dl_point_reduces_within(const dl_point *point);
/* Number of a stage's ranks that have different samples, >= 1. */
int dl_point_batches(const dl_point *point);
/* Micro-batches per step of a rank, >= 1. */
int dl_point_passes(const dl_point *point);
int dl_point_ranks(const dl_point *point); /* GPUs of a worker, unless workers share them */
/* Returns the GPUs of the point: workers x ranks, or fewer if workers share them. */
int dl_point_gpus(const dl_point *point);
/* Returns the largest number of workers on a GPU. */
int dl_point_workers_per_gpu(const dl_point *point);

/* Returns the price of the nodes that a point uses, US dollars per hour, with [generators] those of
 * both sides; NaN: unknown. */
double dl_scenario_usd_per_hour(const dl_scenario *scenario, const dl_point *point);

dl_split dl_point_split(const dl_point *point);

/* Returns the reason why the point's vectors cannot be sharded this way; NULL: they can. Only
 * vectors whose gradients are all-reduced in every step can be sharded. */
const char *dl_scenario_not_sharded(const dl_scenario *scenario, dl_sharded sharded,
                                    const dl_point *point);

/* Whether the mode takes the option and its value is shown: lag, and options of all modes, only if
 * they differ from their default; others if they are given or have a finite default. */
bool dl_point_shows(const dl_point *point, int option);

#define DL_POINT_TEXT_BYTES 256

/* Writes "interval 10", "n 2, bound 8", or "" to text[bytes >= 1]; returns text. */
const char *dl_point_options(char *text, size_t bytes, const dl_point *point);

/* Writes "cores 2, workers 4, batch 128, average, interval 10" to text[bytes]; returns text. */
const char *dl_point_text(char *text, size_t bytes, const dl_point *point);

/* Returns another program's word for a mode; NULL: unknown word. */
const dl_word *dl_mode_word(const char *given);

/* Another program's word for a mode together with the value of a key, allowed in [sync] mode. */
typedef struct dl_mode_shorthand {
    const char *word, *mode, *section, *key, *value;
} dl_mode_shorthand;

/* Returns the shorthand of a word; NULL: none. */
const dl_mode_shorthand *dl_mode_shorthand_find(const char *word);

/* Completes these words; the word starts after the first `kept` bytes of `typed`. */
void dl_mode_shorthands_complete(FILE *out, const char *typed, size_t kept);

/* Whether `said` is the name of the point's mode in output (dl_point_mode) or another program's
 * word for that name. */
bool dl_point_mode_is(const dl_point *point, const char *said);

#endif
