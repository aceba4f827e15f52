/* Compute costs scaled from one GPU to another:
 *
 *   [workload]
 *   scale = auto                                 ; the default; no: times stay as they are
 *   scale_compute = ../machines/p2.8xlarge.ini   ; a machine file with the GPU of the costs
 *   scale_arithmetic = fp32                      ; the arithmetic whose rates are compared
 *
 * Without scale_compute the GPU is looked up by the name of the costs' device in the machines that
 * come with the program (sim/scenario/known_gpus.h), and fp32 rates are used; if it is not found,
 * times stay as they are, and the results say so.
 *
 * A machine with GPUs of several models has separate compute costs for each: those of the model's
 * cost file ([workload] gpu_costs), else the costs scaled to it. Costs with no device, or an
 * unknown one, then count as those of the first GPU's model.
 *
 * The costs' GPU is the one whose model's name is in [costs] device ("K80, one GK210 die" is of the
 * model k80). Let A and B be the ratios of the arithmetic and the memory rate, the machine's GPU
 * over the costs' GPU. Then
 *
 *   an operation with flop_per_sample and bytes_per_sample takes on each GPU the longer of the two
 *   times (roofline); the time of an update, which streams its vectors, is divided by B;
 *   the time of any other forward or backward is divided by A^(3/4) B^(1/4)
 *
 * since three quarters of a convolutional network's time are convolutions and matrix products.
 * Input and the host's dispatch stay unchanged. The origin of scaled times is assumed. Error: over
 * 86 pairs of GPUs and models in scenarios/scaling (scaling.awk) the logarithm of measured over
 * scaled speed has root mean square 0.51 and maximum 1.00; twice the root mean square, computed
 * without the rows of a pair's model, covers 84 of them. The intervals of results therefore include
 * compute times multiplied and divided by exp(DL_SCALING_SPREAD). Kepler GPUs (K80, K40) cause most
 * of that: they reach a smaller part of their rates than later ones. Between two GPUs of one chip
 * (a100, a100_80gb) the interval reaches from a time that only arithmetic bounds to one that only
 * memory does. */
#ifndef DL_SIM_SCALING_H
#define DL_SIM_SCALING_H

#include "sim/scenario/scenario.h"

#define DL_SCALING_ARITHMETIC_SHARE 0.75
#define DL_SCALING_SPREAD 1.02

/* Scaling applied to a scenario's costs. */
typedef struct dl_scaling {
    bool differs;          /* the costs are of another GPU than the machine's, and not scaled */
    const char *why_not;   /* differs: in words */
    bool scaled;           /* then the next three hold */
    double compute_factor; /* on times of forward and backward without a roofline */
    double update_factor;
    double spread_log;     /* of compute_factor, either way: the 95 % interval */
    char from[64], to[64]; /* models */
} dl_scaling;

/* Scales the costs to the machine's first GPU if the scenario allows it and they are of another
 * one; then makes costs->models if the machine has GPUs of several models. *scalings gets the
 * scaling of each of its models, [models], freed by the caller; NULL if there is only one. With
 * scale_compute DL_ERR_DATA if the costs do not name a GPU of the file, or a rate is unknown;
 * DL_ERR_DATA also if a file of gpu_costs is of another GPU; errors of reading it. */
dl_status dl_scaling_apply(const dl_scenario *scenario, dl_costs *costs, dl_scaling *scaling,
                           dl_scaling **scalings, dl_error *err) DL_MUST_CHECK;

#endif
