/* A scenario file with all its swept values. Lists of [machine] cores and workers, of the batch, of
 * the modes and of their numbers make the points of one dl_scenario (sim/scenario/scenario.h). A
 * list of any other key makes variants: one dl_scenario with separate costs for each of its values,
 *
 *   [machine]  file  = p2.8xlarge.ini, dgx1_v100.ini    2 machines x 3 places = 6 variants
 *   [sync]     where = cpu, gpu:0, allreduce
 *   [machine]  gpus  = 0, 1 | 0, 4                      keys with lists (gpus, slow): by '|'
 *
 * the first key of the file changing most slowly. A key that depends on another one ([exchange]
 * topk_frac on compress, [noise] sigma on kind) is swept only where it applies, and an option of
 * [sync] only for modes that take it. [scenario] name and [measured] file are texts.
 */
#ifndef DL_SIM_STUDY_H
#define DL_SIM_STUDY_H

#include "common/ini.h"
#include "sim/costs/assume.h"
#include "sim/scenario/scaling.h"

/* A key whose list made variants. */
typedef struct dl_swept_key {
    char *section, *key;
    char *column;  /* name in results and measured tables: the key; machine for [machine] file,
                      noise for [noise] kind, input_cores for [input] cores */
    char **values; /* [count] as in the file */
    char **texts;  /* [count] as shown in tables: files without folder and .ini */
    char **cells;  /* [count] for CSV and JSON: an amount without its unit, in the column's */
    size_t count;
    int option; /* dl_sync_option, -1 = another section's */
} dl_swept_key;

typedef struct dl_variant {
    dl_scenario scenario;
    dl_costs costs;
    dl_scaling scaling;      /* of the costs to the machine's first GPU */
    dl_scaling *scalings;    /* [costs.model_count] to its models; NULL: only one */
    dl_assumptions assumed;  /* settings, costs, the machine's numbers with bounds */
    dl_calibrate calibrated; /* zero: not asked for */
    bool is_calibrated_gpu;  /* on the model, or cores, of the calibrated step */
    size_t part;             /* of the study's parts: which modes it has */
    size_t *at; /* [key_count] index of its value of each key; >= count: the key does not apply */
} dl_variant;

typedef struct dl_study {
    char *path;
    char *text;         /* of the file, changed by the command line */
    dl_swept_key *keys; /* [key_count] */
    size_t key_count;
    char **parts; /* [part_count] of the list of modes: each word for a mode with a key by itself,
                     the others together; without such words there are none */
    size_t part_count;
    dl_variant *variants; /* [variant_count], each with a point at least */
    size_t variant_count;
    size_t point_count;  /* of all variants */
    double points_limit; /* 0: more than DL_STUDY_POINTS are an error. Else, if the lists make more,
                            the study has only one of these points, and */
    double listed;       /* this is their number; else 0 */
} dl_study;

#define DL_STUDY_POINTS 100000

/* Reads all variants, without their costs, into `study`, zeroed but for points_limit. Errors as
 * dl_scenario_read. */
dl_status dl_study_read(dl_study *study, const char *path, dl_error *err) DL_MUST_CHECK;
dl_status dl_study_read_text(dl_study *study, const char *name, const char *text, size_t bytes,
                             dl_error *err) DL_MUST_CHECK;

/* The key, if its list made variants; else NULL. */
const dl_swept_key *dl_study_swept(const dl_study *study, const char *section, const char *key);

/* Whether the variant's points take their number of micro-batches from its costs. */
bool dl_variant_accumulates_by_costs(const dl_variant *variant);

/* Whether the costs make the variant's exchange overlap the backward pass; and whether that is only
 * an assumption of costs that were estimated or made from one number. */
bool dl_variant_overlaps_by_costs(const dl_variant *variant);
bool dl_variant_assumes_overlap(const dl_variant *variant);

/* Whether the variant's workers make a batch, launch a step and wait for its end in sequence, as
 * the program of the cost file did. */
bool dl_variant_waits_by_costs(const dl_variant *variant);

/* Uncertainty of compute, as the logarithm of a factor either way, because it was scaled from
 * another GPU (sim/scenario/scaling.h) or estimated ([spread] compute_frac); 0: neither, or
 * calibrated on this GPU. */
double dl_variant_compute_log(const dl_variant *variant);

/* The arithmetic of the scenario's model, which must be given: the scenario's, or the default. */
dl_arithmetic dl_scenario_arithmetic(const dl_scenario *scenario);

/* The model of the first worker's GPU; the scenario must have GPUs. */
const dl_gpu_model *dl_scenario_first_gpu(const dl_scenario *scenario);

/* Estimates the costs of the scenario's model on a GPU of its machine; release them with
 * dl_costs_free. Errors: dl_architecture_make's, dl_roofline_costs'. */
dl_status dl_scenario_estimate_costs(const dl_scenario *scenario, const dl_gpu_model *gpu,
                                     dl_costs *costs, dl_error *err) DL_MUST_CHECK;

/* Reads the variants' costs, or estimates them for a model (sim/workloads/roofline.h), or makes
 * them from one number; sets measured cores, scales compute to the machine's GPUs, and assumes
 * values that the points need and the costs lack; the last two unless the scenario forbids it. */
dl_status dl_study_read_costs(dl_study *study, dl_error *err) DL_MUST_CHECK;

/* Reads one variant's costs likewise, but assumes no values: the costs are those of its sources
 * alone. Settings that the scenario leaves open (overlap, sharding, ...) become those of the
 * program whose costs these are. */
dl_status dl_variant_read_costs(const dl_study *study, dl_variant *variant,
                                dl_error *err) DL_MUST_CHECK;

/* A hash of all inputs of the simulation: the scenario's text and seed, the contents of the files
 * that it names, and `options`, other changes by the command line. The errors of dl_file_read. */
dl_status dl_study_key(const dl_study *study, const char *options, uint64_t *key,
                       dl_error *err) DL_MUST_CHECK;

/* Adds the contents of the files that a scenario names to the hash. */
dl_status dl_scenario_add_files(uint64_t *key, const dl_scenario *scenario,
                                dl_error *err) DL_MUST_CHECK;

void dl_study_free(dl_study *study);

/* The variant of a row of all points; *point is the point's number in it. */
const dl_variant *dl_study_variant(const dl_study *study, size_t row, size_t *point);

/* The value of a swept key in the row of `variant` and `point`, "" where it does not apply. */
const char *dl_study_text(const dl_study *study, const dl_variant *variant, const dl_point *point,
                          size_t key);
/* The same for CSV and JSON: 6250000 in the column port_bytes_per_s for 50Mb/s. */
const char *dl_study_cell(const dl_study *study, const dl_variant *variant, const dl_point *point,
                          size_t key);

#endif
