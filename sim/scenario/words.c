/* Words of other frameworks and papers for options of a scenario and for modes. A word that means just
 * one thing here is taken; others are answered. Words for keys stand in the key table (keys.c). */
#include <strings.h>

#include "common/alloc.h"
#include "sim/scenario/command.h"
#include "sim/scenario/scenario_internal.h"

/* --- options --------------------------------------------------------------------------------- */

static const char no_tensors[] = "tensor parallelism is not simulated";
static const char no_context[] = "context and sequence parallelism are not simulated";
static const char no_experts[] = "expert parallelism is not simulated";
static const char micro_batches[] =
    "write --set sync.accumulate=COUNT, the micro-batches whose gradients a step adds up";
static const char split[] = "write --set pipeline.stages=COUNT, which splits the model";

const dl_option_word dl_scenario_words[] = {
    {"precision", "arithmetic", NULL},
    {"dtype", "arithmetic", NULL},
    {"model", "workload", NULL},
    {"global-batch", "batch", NULL},
    {"global-batch-size", "batch", NULL},
    {"train-batch-size", "batch", NULL},
    {"local-batch-size", "batch-per-worker", NULL},
    {"per-device-train-batch-size", "batch-per-worker", NULL},
    {"world-size", "workers", NULL},
    {"grad-accum", NULL, micro_batches},
    {"gradient-accumulation", NULL, micro_batches},
    {"gradient-accumulation-steps", NULL, micro_batches},
    {"accumulate", NULL, micro_batches},
    {"no-sync", NULL, micro_batches},
    {"micro-batch-size", NULL,
     "write --batch-per-worker, a GPU's samples of a step, and --set "
     "sync.accumulate=COUNT, its micro-batches"},
    {"seq-len", NULL, "write --workload NAME:sequence=COUNT"},
    {"seq-length", NULL, "write --workload NAME:sequence=COUNT"},
    {"fsdp", NULL, "write --set exchange.sharded=parameters"},
    {"zero-stage", NULL, "write --set exchange.sharded=zero1, zero2 or zero3"},
    {"pp", NULL, split},
    {"pipeline-parallel", NULL, split},
    {"pipeline-parallel-size", NULL, split},
    {"pipeline-model-parallel-size", NULL, split},
    {"tp", NULL, no_tensors},
    {"tensor-parallel", NULL, no_tensors},
    {"tensor-parallel-size", NULL, no_tensors},
    {"tensor-model-parallel-size", NULL, no_tensors},
    {"cp", NULL, no_context},
    {"sp", NULL, no_context},
    {"context-parallel-size", NULL, no_context},
    {"ep", NULL, no_experts},
    {"expert-parallel-size", NULL, no_experts},
    {NULL, NULL, NULL},
};

/* --- modes ----------------------------------------------------------------------------------- */

#define CALLED(mode) "here it is called '" mode "'"
#define SHARDED(state) CALLED("allreduce' with [exchange] sharded = '" state)
#define SPLIT_ONLY "tensor, expert, context and sequence parallelism are not simulated"

static const struct {
    const char *word, *mode; /* a mode, or what the error says */
} mode_words[] = {
    {"ddp", "allreduce"},
    {"distributeddataparallel", "allreduce"},
    {"fsdp", SHARDED("parameters")},
    {"fsdp2", SHARDED("parameters")},
    {"zero", SHARDED("optimizer")},
    {"zero1", SHARDED("optimizer")},
    {"zero2", SHARDED("gradients")},
    {"zero3", SHARDED("parameters")},
    {"full_shard", SHARDED("parameters")},
    {"shard_grad_op",
     CALLED("allreduce' with [exchange] sharded = 'parameters' and reshard_after_forward = 'no")},
    {"deepspeed", SHARDED("optimizer")},
    {"dp", CALLED("ps' with [sync] where = 'gpu:0")},
    {"horovod", "allreduce"},
    {"nccl", "allreduce"},
    {"sync", "allreduce"},
    {"synchronous", "allreduce"},
    {"asynchronous", "async"},
    {"hogwild", "async"},
    {"downpour", "async"},
    {"local_sgd", "average"},
    {"localsgd", "average"},
    {"diloco", CALLED("average' with [sync] outer = 'nesterov")},
    {"fedavg", "average"},
    {"parameter_server", "ps"},
    {"kvstore", "ps"},
    {"hardsync", "ps"},
    {"local", CALLED("ps' with [sync] where = 'cpu")},
    {"device", CALLED("ps' with [sync] where = 'gpu:0")},
    {"dist_sync", "ps"},
    {"dist_device_sync", "ps"},
    {"dist_async", "async"},
    {"tp", SPLIT_ONLY},
    {"tensor", SPLIT_ONLY},
    {"ep", SPLIT_ONLY},
    {"expert", SPLIT_ONLY},
    {"cp", SPLIT_ONLY},
    {"sp", SPLIT_ONLY},
};

const char *dl_mode_of_word(const char *word)
{
    for (size_t i = 0; i < DL_LENGTH(mode_words); i++)
        if (strcasecmp(word, mode_words[i].word) == 0) return mode_words[i].mode;
    return NULL;
}
