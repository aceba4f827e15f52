#include "sim/gsl_random.h"

#include <string.h>

#include "common/status.h"

/* GSL seeds a generator when it makes one; the stream is copied in right after. */
static void set(void *state, unsigned long seed)
{
    dl_random_init(state, seed, 0, 0, 0);
}

static unsigned long get(void *state)
{
    return dl_random_u32(state);
}

static double get_double(void *state)
{
    return dl_random_uniform(state);
}

static const gsl_rng_type stream_type = {"philox", UINT32_MAX, 0,         sizeof(dl_random),
                                         set,      get,        get_double};

gsl_rng *dl_gsl_random_create(const dl_random *stream)
{
    gsl_rng *rng = gsl_rng_alloc(&stream_type);
    DL_ASSERT(rng != NULL, "no memory for a generator of %zu bytes", sizeof(dl_random));
    memcpy(rng->state, stream, sizeof *stream);
    return rng;
}
