/* Exchange between places on GPUs: copies, averages, messages. */
#include "kernels/cuda/backend_cuda.h"
#include "kernels/cuda/cuda_exchange.h"

/* Without direct access, copies between GPUs go through the host, which works too. */
static void ask_for_access(dl_device *device, int peer)
{
    const uint64_t bit = peer < 64 ? (uint64_t)1 << peer : 0;
    int possible = 0;
    if (peer == device->number || (device->peers & bit) != 0) return;
    device->peers |= bit;
    if (cudaDeviceCanAccessPeer(&possible, device->number, peer) != cudaSuccess || !possible)
        return;
    /* Another place on this GPU may have asked already; that error is forgotten here. */
    if (cudaDeviceEnablePeerAccess(peer, 0) != cudaSuccess) (void)cudaGetLastError();
}

void dl_cuda_copy_from(const dl_device *source, void *to, const void *from, size_t bytes)
{
    dl_device *device = dl_cuda_device();
    if (bytes == 0 || !dl_cuda_works(device)) return;
    ask_for_access(device, source->number);
    dl_cuda_good(
        device,
        cudaMemcpyPeerAsync(to, device->number, from, source->number, bytes, device->stream),
        "cudaMemcpyPeerAsync");
}

void dl_cuda_copy_to(const dl_device *target, void *to, const void *from, size_t bytes)
{
    dl_device *device = dl_cuda_device();
    if (bytes == 0 || !dl_cuda_works(device)) return;
    ask_for_access(device, target->number);
    dl_cuda_good(
        device,
        cudaMemcpyPeerAsync(to, target->number, from, device->number, bytes, device->stream),
        "cudaMemcpyPeerAsync");
}

void dl_cuda_average(void *result, const void *const *vectors, int n, size_t count)
{
    dl_device *device = dl_cuda_device();
    DL_ASSERT(n >= 1 && n <= DL_CUDA_VECTORS_MAX, "%d vectors", n);
    if (count == 0 || !dl_cuda_works(device)) return;
    dl_cuda_good(
        device,
        dl_cuda_launch_average(result, (const float *const *)vectors, n, count, device->stream),
        "average");
}

void dl_cuda_encode(const dl_quantise_plan *plan, const void *blocks, const void *values,
                    void *residual, void *message)
{
    dl_device *device = dl_cuda_device();
    if (plan->count == 0 || !dl_cuda_works(device)) return;
    if (plan->kind == DL_QUANTISE_FP16) {
        dl_cuda_good(device, dl_cuda_launch_halve(message, values, plan->count, device->stream),
                     "rounding to half precision");
    } else {
        dl_cuda_good(device,
                     dl_cuda_launch_sign(message, blocks, plan->block_count, values, residual,
                                         device->stream),
                     "quantising to bits");
    }
}

void dl_cuda_decode(const dl_quantise_plan *plan, const void *blocks, const void *message,
                    void *values)
{
    dl_device *device = dl_cuda_device();
    if (plan->count == 0 || !dl_cuda_works(device)) return;
    if (plan->kind == DL_QUANTISE_FP16) {
        dl_cuda_good(device, dl_cuda_launch_widen(values, message, plan->count, device->stream),
                     "widening of half precision");
    } else {
        dl_cuda_good(
            device,
            dl_cuda_launch_unsign(values, blocks, plan->block_count, message, device->stream),
            "values of bits");
    }
}
