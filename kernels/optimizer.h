/* Optimizers over flat vectors: SGD with momentum, RMSProp, Adam.
 *
 *   sgd      v <- momentum v + g;              p <- p - lr v     (momentum 0: no state)
 *   rmsprop  s <- rho s + (1-rho) g^2;         p <- p - lr g / (sqrt(s) + eps)
 *   adam     m, s first and second moments with bias correction (Kingma & Ba 2015, Algorithm 1)
 *
 * with rho = 0.9 (rmsprop), decays 0.9 and 0.999 (adam), eps = 1e-8. The states start at 0.
 */
#ifndef DL_KERNELS_OPTIMIZER_H
#define DL_KERNELS_OPTIMIZER_H

#include <stddef.h>

#include "common/status.h"
#include "kernels/model.h"

typedef struct dl_optimizer_config {
    const char *name;     /* one of dl_optimizer_names */
    double learning_rate; /* > 0 */
    double momentum;      /* sgd: 0 <= momentum < 1; unused by the others */
} dl_optimizer_config;

extern const char *const dl_optimizer_names[]; /* "sgd", "rmsprop", "adam", NULL */

typedef struct dl_optimizer dl_optimizer;

/* Creates an optimizer for vectors of `count` numbers. Unknown name: DL_ERR_NAME; number outside
 * its range: DL_ERR_RANGE. */
dl_status dl_optimizer_create(dl_optimizer **optimizer, const dl_optimizer_config *config,
                              dl_precision precision, size_t count, dl_error *err) DL_MUST_CHECK;
/* dl_optimizer_create for vectors in a backend's memory; also DL_ERR_SYSTEM if its `wait` fails. */
dl_status dl_optimizer_create_on(dl_optimizer **optimizer, const dl_optimizer_config *config,
                                 const dl_backend *backend, size_t count,
                                 dl_error *err) DL_MUST_CHECK;
void dl_optimizer_destroy(dl_optimizer *optimizer);

/* Counts one update; call once before the dl_optimizer_apply calls of a step (Adam's bias
 * correction needs the count). */
void dl_optimizer_begin(dl_optimizer *optimizer);

/* Multiplies the configured learning rate by `factor` (> 0; 1 at first) from the next apply on. */
void dl_optimizer_scale_rate(dl_optimizer *optimizer, double factor);

/* Applies gradients[first .. first+count-1] to the same range of parameters. With count 0 also before
 * dl_optimizer_begin: a device then loads the kernel. */
void dl_optimizer_apply(dl_optimizer *optimizer, void *parameters, const void *gradients,
                        size_t first, size_t count);

/* Returns the state as one flat vector of *count numbers in the backend's memory (NULL and 0 if
 * there is none), for averaging: momentum v; rmsprop s; adam all m, then all s. Owned by the
 * optimizer, at a fixed address. */
void *dl_optimizer_state(dl_optimizer *optimizer, size_t *count);

#endif
