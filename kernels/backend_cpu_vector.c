#include <math.h>
#include <tgmath.h>

#include "kernels/backend_cpu.h"

DL_HOT void dl_cpu_add(void *to, const void *from, size_t count)
{
    dl_real *restrict t = to;
    const dl_real *restrict f = from;
    for (size_t i = 0; i < count; i++)
        t[i] += f[i];
}

DL_HOT void dl_cpu_relu(void *values, size_t count)
{
    dl_real *v = values;
    for (size_t i = 0; i < count; i++)
        v[i] = v[i] > 0 ? v[i] : 0;
}

DL_HOT void dl_cpu_relu_backward(void *gradients, const void *values, size_t count)
{
    dl_real *restrict g = gradients;
    const dl_real *restrict v = values;
    for (size_t i = 0; i < count; i++)
        g[i] = v[i] > 0 ? g[i] : 0;
}

/* The loops of the optimizers copy what they need of `update` first: with -fno-strict-aliasing every
 * store may change it, and a loop whose end may move does not vectorise. */

DL_HOT static void sgd_plain(const dl_update *update)
{
    dl_real *restrict p = update->parameters;
    const dl_real *restrict g = update->gradients;
    const dl_real rate = (dl_real)update->rate;
    const size_t count = update->count;
    for (size_t i = 0; i < count; i++)
        p[i] -= rate * g[i];
}

DL_HOT static void sgd_momentum(const dl_update *update)
{
    dl_real *restrict p = update->parameters, *restrict v = update->first;
    const dl_real *restrict g = update->gradients;
    const dl_real rate = (dl_real)update->rate, decay = (dl_real)update->decay1;
    const size_t count = update->count;
    for (size_t i = 0; i < count; i++) {
        v[i] = decay * v[i] + g[i];
        p[i] -= rate * v[i];
    }
}

void dl_cpu_sgd(const dl_update *update)
{
    if (update->first) {
        sgd_momentum(update);
    } else {
        sgd_plain(update);
    }
}

DL_HOT void dl_cpu_rmsprop(const dl_update *update)
{
    dl_real *restrict p = update->parameters, *restrict s = update->first;
    const dl_real *restrict g = update->gradients;
    const dl_real rate = (dl_real)update->rate, epsilon = (dl_real)update->epsilon;
    const dl_real decay = (dl_real)update->decay1, rest = (dl_real)(1 - update->decay1);
    const size_t count = update->count;
    for (size_t i = 0; i < count; i++) {
        s[i] = decay * s[i] + rest * g[i] * g[i];
        p[i] -= rate * g[i] / (sqrt(s[i]) + epsilon);
    }
}

DL_HOT void dl_cpu_adam(const dl_update *update)
{
    dl_real *restrict p = update->parameters;
    dl_real *restrict m = update->first, *restrict s = update->second;
    const dl_real *restrict g = update->gradients;
    const dl_real decay1 = (dl_real)update->decay1, rest1 = (dl_real)(1 - update->decay1);
    const dl_real decay2 = (dl_real)update->decay2, rest2 = (dl_real)(1 - update->decay2);
    const dl_real rate1 = (dl_real)(update->rate / update->correction1);
    const dl_real scale2 = (dl_real)(1 / update->correction2);
    const dl_real epsilon = (dl_real)update->epsilon;
    const size_t count = update->count;
    for (size_t i = 0; i < count; i++) {
        m[i] = decay1 * m[i] + rest1 * g[i];
        s[i] = decay2 * s[i] + rest2 * g[i] * g[i];
        p[i] -= rate1 * m[i] / (sqrt(s[i] * scale2) + epsilon);
    }
}
