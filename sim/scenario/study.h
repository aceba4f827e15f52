/* A scenario file with all its swept values. Lists of [machine] cores and workers, of the batch, of
 * the modes and of their numeric options make the points of one dl_scenario
 * (sim/scenario/scenario.h). A list of any other key makes variants: one dl_scenario with separate
 * costs for each of its values,
 *
 *   [machine]  file  = p2.8xlarge.ini, dgx1_v100.ini    2 machines x 3 places = 6 variants
 *   [sync]     where = cpu, gpu:0, allreduce
 *   [machine]  gpus  = 0, 1 | 0, 4                      keys with lists (gpus, slow): by '|'
 *
 * the first key of the file changing most slowly. A key that depends on another one ([exchange]
 * topk_frac on compress, [noise] sigma on kind) is swept only where it applies, and an option of
 * [sync] only for modes that take it. [scenario] name and [measured] file are texts. */
#ifndef DL_SIM_STUDY_H
#define DL_SIM_STUDY_H

#include "common/ini.h"
#include "sim/costs/assume.h"
#include "sim/scenario/scaling.h"
#include "sim/workloads/architecture.h"

/* A key whose list made variants. */
typedef struct dl_swept_key {
    char *section, *key;
    char *column;  /* name in results and measured tables: the key; but machine for [machine] file,
                    * noise for [noise] kind, input_cores for [input] cores */
    char **values; /* [count] values as in the file */
    char **texts;  /* [count] values as shown in tables: files without folder and .ini */
    char **cells;  /* [count] values for CSV and JSON: an amount without its unit, in the unit of
                    * the column */
    size_t count;
    int option; /* dl_sync_option; -1: a key of another section */
} dl_swept_key;

typedef struct dl_variant {
    dl_scenario scenario;
    dl_costs costs;
    dl_scaling scaling;      /* scaling of the costs to the machine's first GPU */
    dl_scaling *scalings;    /* [costs.model_count] scalings to the machine's models; NULL: only one
                              * model */
    dl_assumptions assumed;  /* assumed settings and costs, and the machine's numbers with bounds */
    dl_calibrate calibrated; /* zeroed: no calibration */
    bool is_calibrated_gpu;  /* the variant has the GPU model, or cores, of the calibrated step */
    size_t part;             /* index into the study's parts, which gives its modes */
    size_t *at; /* [key_count] index of its value for each key; >= count: the key does not apply */
} dl_variant;

typedef struct dl_study {
    char *path;
    char *text;         /* text of the file, with the changes by the command line */
    dl_swept_key *keys; /* [key_count] */
    size_t key_count;
    char **parts; /* [part_count] parts of the list of modes: each word for a mode with a key is one
                   * part, the other words together are one; none if there are no such words */
    size_t part_count;
    dl_variant *variants; /* [variant_count] variants, each with at least one point */
    size_t variant_count;
    size_t point_count;  /* points of all variants */
    double points_limit; /* 0: more than DL_STUDY_POINTS points are an error. Otherwise, if the
                          * lists make more points than this, the study has only one of them and
                          * `listed` is their number */
    bool batch_by_costs; /* the batch is that of the costs, by default; set by the caller */
    bool is_changed;     /* the file's keys are changed by the command line, so that rows of its
                          * measured table may have no point; set by the caller */
    double listed;       /* number of points that the lists make if points_limit is exceeded;
                          * else 0 */
} dl_study;

#define DL_STUDY_POINTS 100000

/* Reads all variants, without their costs, into *study, which must be zeroed except points_limit.
 * Errors as dl_scenario_read. */
dl_status dl_study_read(dl_study *study, const char *path, dl_error *err) DL_MUST_CHECK;
dl_status dl_study_read_text(dl_study *study, const char *name, const char *text, size_t bytes,
                             dl_error *err) DL_MUST_CHECK;

/* Returns the key if its list made variants; else NULL. */
const dl_swept_key *dl_study_swept(const dl_study *study, const char *section, const char *key);

/* Whether the costs set the number of micro-batches of the variant's points. */
bool dl_variant_accumulates_by_costs(const dl_variant *variant);

/* dl_variant_overlaps_by_costs: whether the costs make the variant's exchange overlap the backward
 * pass. dl_variant_assumes_overlap: whether that is only an assumption, as the costs were estimated
 * or derived from one number. */
bool dl_variant_overlaps_by_costs(const dl_variant *variant);
bool dl_variant_assumes_overlap(const dl_variant *variant);

/* Whether GPUs overlap, and divide the model state, as the program of the costs does. */
bool dl_variant_exchanges_as_costs(const dl_variant *variant);

/* Whether the variant's workers make a batch, launch a step and wait for its end in sequence, like
 * the program of the cost file. */
bool dl_variant_waits_by_costs(const dl_variant *variant);

/* Uncertainty of compute, as the logarithm of a factor in either direction, because it was scaled
 * from another GPU (sim/scenario/scaling.h) or estimated ([spread] compute_frac); 0 if neither, or
 * if calibrated on this GPU. */
double dl_variant_compute_log(const dl_variant *variant);

/* [spread] run_frac assumed for GPUs whose compute is one measured step or rate: 95 % of the rows of
 * published tables that nothing was fitted to (docs/accuracy.md) are within exp(1.96 x 0.07). */
#define DL_RUN_FRAC 0.07

/* Returns the arithmetic of the scenario's model: the scenario's value or the default. Requires a
 * model. */
dl_arithmetic dl_scenario_arithmetic(const dl_scenario *scenario);

/* Returns the one batch of the scenario's points, per worker if the scenario gives it so; 0 if they
 * have several. */
int64_t dl_scenario_batch(const dl_scenario *scenario);

/* Returns the model of the first worker's GPU. Requires a scenario with GPUs. */
const dl_gpu_model *dl_scenario_first_gpu(const dl_scenario *scenario);

/* Makes the network of which a GPU computes its part in the scenario: its model divided by the
 * layout and recomputed. Errors: those of dl_architecture_make, and of a model that the layout
 * cannot divide. Release it with dl_architecture_free. */
dl_status dl_scenario_network(const dl_scenario *scenario, dl_architecture *network, dl_error *err);

/* Estimates the costs of the scenario's model on a GPU of its machine; release them with
 * dl_costs_free. Errors: those of dl_architecture_make and dl_roofline_costs. */
dl_status dl_scenario_estimate_costs(const dl_scenario *scenario, const dl_gpu_model *gpu,
                                     dl_costs *costs, dl_error *err) DL_MUST_CHECK;

/* Sets the types of messages of sharded vectors in *gpu that the scenario leaves open to those of
 * passes in 16 bits (in_half) or in fp32. Changes nothing if gpu is NULL or nothing is sharded. */
void dl_scenario_set_dtypes(const dl_scenario *scenario, dl_gpu_options *gpu, bool in_half);

/* Reads the variants' costs, estimates them for a model (sim/workloads/roofline.h), or derives them
 * from one number. Sets measured cores. Scales compute to the machine's GPUs and assumes values
 * that the points need and the costs lack, unless the scenario forbids it. */
dl_status dl_study_read_costs(dl_study *study, dl_error *err) DL_MUST_CHECK;

/* Reads one variant's costs without assuming values: the costs contain only what their sources
 * give. Takes settings that the scenario leaves open (overlap, sharding, ...) from the program of
 * the costs. */
dl_status dl_variant_read_costs(const dl_study *study, dl_variant *variant,
                                dl_error *err) DL_MUST_CHECK;

/* Computes a hash of all inputs of the simulation: the scenario's text and seed, the contents of
 * the files that it names, and `options`, other changes by the command line. The errors of
 * dl_file_read. */
dl_status dl_study_key(const dl_study *study, const char *options, uint64_t *key,
                       dl_error *err) DL_MUST_CHECK;

/* Adds the contents of the files that a scenario names to the hash. */
dl_status dl_scenario_add_files(uint64_t *key, const dl_scenario *scenario,
                                dl_error *err) DL_MUST_CHECK;

void dl_study_free(dl_study *study);

/* Returns the variant of a row of all points; *point is the point's index in it. */
const dl_variant *dl_study_variant(const dl_study *study, size_t row, size_t *point);

/* Returns the value of a swept key in the row of `variant` and `point`; "" if the key does not
 * apply. */
const char *dl_study_text(const dl_study *study, const dl_variant *variant, const dl_point *point,
                          size_t key);
/* Returns the value for CSV and JSON: 6250000 in the column port_bytes_per_s for 50Mb/s. */
const char *dl_study_cell(const dl_study *study, const dl_variant *variant, const dl_point *point,
                          size_t key);

#endif
