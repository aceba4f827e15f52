/* Compute costs scaled from one GPU to another:
 *
 *   [workload]
 *   scale = auto                                 ; default; no: times stay unchanged
 *   scale_compute = ../machines/p2.8xlarge.ini   ; a machine file with the GPU of the costs
 *
 * Without scale_compute the GPU is looked up by the name of the costs' device in the machines that
 * come with the program (sim/scenario/known_gpus.h). If it is not found, times stay unchanged, and
 * the results say so.
 *
 * A machine with GPUs of several models has separate compute costs for each: those of the model's
 * cost file ([workload] gpu_costs), else the costs scaled to it. Costs with no device, or an
 * unknown one, then count as those of the first GPU's model.
 *
 * The costs' GPU is the one whose model name is in [costs] device ("K80, one GK210 die" is of the
 * model k80). Let A and B be the ratios of the fp32 and of the memory rate, the machine's GPU
 * over the costs' GPU. Then
 *
 *   an operation with flop_per_sample and bytes_per_sample takes the longer of its two roofline
 *   times on each GPU; the time of an update, which streams its vectors, is divided by B;
 *   the time of any other forward or backward is divided by A^(3/4) B^(1/4)
 *
 * since convolutions and matrix products take three quarters of a convolutional network's time.
 * Input and the host's dispatch stay unchanged. The origin of scaled times is "assumed". Error:
 * over 86 pairs of GPUs and models in scenarios/scaling (scaling.awk) the logarithm of measured
 * over scaled speed has root mean square 0.51 and maximum 1.00; twice the root mean square,
 * computed without the rows of a pair's model, covers 84 of them. The intervals of results
 * therefore include compute times multiplied and divided by exp(DL_SCALING_SPREAD). Kepler GPUs
 * (K80, K40) cause most of the error: they reach a smaller fraction of their rates than later GPUs.
 * Between two GPUs of one chip (a100, a100_80gb) the interval extends from the time bounded only by
 * arithmetic to the time bounded only by memory. */
#ifndef DL_SIM_SCALING_H
#define DL_SIM_SCALING_H

#include "sim/scenario/scenario.h"

#define DL_SCALING_ARITHMETIC_SHARE 0.75
#define DL_SCALING_SPREAD 1.02

/* Scaling applied to a scenario's costs. */
typedef struct dl_scaling {
    bool differs;          /* the costs are from another GPU than the machine's, and are not
                            * scaled */
    const char *why_not;   /* reason in words if `differs` is set */
    bool scaled;           /* the costs are scaled; compute_factor, update_factor and spread_log are
                            * then valid */
    double compute_factor; /* factor on the time of forward and backward passes without a
                            * roofline */
    double update_factor;
    double spread_log;     /* half width of the 95 % interval of log(compute_factor) */
    char from[64], to[64]; /* models of the costs' GPU and of the machine's GPU */
} dl_scaling;

/* Scales the costs to the machine's first GPU if the scenario allows it and the costs are from
 * another GPU; then creates costs->models if the machine has GPUs of several models. *scalings is
 * set to the scalings [models] to each of its models, freed by the caller, or to NULL if there is
 * only one. DL_ERR_DATA for costs of a processor, unless scale = no; if, with scale_compute, the
 * costs do not name a GPU of the file; or if a file of gpu_costs is from another GPU or is not
 * suitable. Errors of reading the files. */
dl_status dl_scaling_apply(const dl_scenario *scenario, dl_costs *costs, dl_scaling *scaling,
                           dl_scaling **scalings, dl_error *err) DL_MUST_CHECK;

#endif
