#include "sim/platform/exchange_plan.h"

#include "sim/platform/gpu.h"

dl_exchange_plan dl_exchange_plan_among(const dl_gpu_options *options, bool divides_parameters,
                                        int sharers)
{
    const dl_sharded of = divides_parameters ? DL_SHARDED_PARAMETERS : options->sharded;
    const dl_sharded sharded = sharers > 1 ? of : DL_SHARDED_NONE;
    const bool divides = sharded != DL_SHARDED_NONE;
    const bool all = sharded == DL_SHARDED_PARAMETERS;
    return (dl_exchange_plan){
        .is_collective = true,
        .as_ready = options->overlap,
        .passes = 1,
        .sharers = divides ? sharers : 1,
        .divides_gradients = sharded >= DL_SHARDED_GRADIENTS,
        .divides_parameters = all,
        .gathers = all ? 2 - options->keeps_parameters : 0,
        .gathers_after = divides && !all,
        .sum = divides                                         ? DL_REDUCE_SCATTER
               : options->compression.kind == DL_COMPRESS_TOPK ? DL_ALLGATHER
                                                               : DL_ALLREDUCE,
        .sum_frac = divides ? dl_dtype_frac(options->reduce_dtype) : 1,
        .gather_frac = divides ? dl_dtype_frac(options->param_dtype) : 1,
        .bucket_copies =
            options->overlap ? 2 - (options->bucket_views || of != DL_SHARDED_NONE) : 0,
    };
}
