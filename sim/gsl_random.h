/* The project's counter-based streams (common/random.h) as a generator for GSL's distributions. */
#ifndef DL_SIM_GSL_RANDOM_H
#define DL_SIM_GSL_RANDOM_H

#include <gsl/gsl_rng.h>

#include "common/random.h"

/* A generator that starts where `stream` stands (copied). Release with gsl_rng_free. */
gsl_rng *dl_gsl_random_create(const dl_random *stream);

#endif
