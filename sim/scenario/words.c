/* Words of other frameworks and papers for keys of a scenario, their choices and their options. A
 * word with a single meaning here is accepted; others get an explanation. Words for networks are in
 * sim/workloads/. */
#include <string.h>
#include <strings.h>

#include "common/alloc.h"
#include "common/manual.h"
#include "sim/scenario/keys.h"
#include "sim/scenario/scenario_internal.h"

/* --- keys and options ------------------------------------------------------------------------ */

#define CALLED(name) "here it is called '" name "'"

static const char tensors[] = "write --layout tp=COUNT, GPUs that divide each layer";
static const char context[] = "write --layout cp=COUNT, GPUs that divide each sequence";
static const char buckets[] = "write --set exchange.bucket_bytes=25MB";
static const char exchange_of_parts[] =
    "write --workload NAME:cp_comm_type=p2p (or all_gather, a2a) with --layout cp=COUNT";
static const char by_tokens[] =
    "with --layout tp=COUNT norms and sums are divided by tokens, but for --workload "
    "NAME:sequence_parallel=no; --layout cp=COUNT divides the whole sequence";
static const char experts[] = "write --workload mixtral_8x7b, or NAME:experts=COUNT,active=COUNT";
static const char divided_experts[] = "write --layout ep=COUNT, GPUs that divide the experts";
static const char split[] = "write --layout pp=COUNT, which splits the model";
static const char of_ports[] = "write it after the machine's name, as 2x2xrtx4090@1gbe, or --set "
                               "machine.port_bytes_per_s=1Gb/s; the machine file has it too";
static const char of_delays[] = "between sites it is [network] site_latency_ns; the machine file "
                                "has that of each link, as --save-machine FILE writes it";
static const char of_sites[] = "write [network] sites, site_latency_ns and [machine] "
                               "site_bytes_per_s; unlike sites are in the machine file";
static const char of_machine[] = "the machine file has it, which --save-machine FILE writes";
static const char of_batch[] = "write --batch SAMPLES: its tokens divided by a sample's sequence";
static const char accumulated[] =
    "write --set sync.accumulate=STEPS; --batch-per-worker then has the samples of all STEPS "
    "micro-batches";
static const char of_node[] =
    "write --set machine.price_usd_per_hour=USD, of a node: the price of a GPU times its GPUs";
static const char tokens[] = "write --workload NAME:sequence=COUNT";
static const char four_bits[] = "write --lora RANK, and --workload NAME:frozen_bits=4";
static const char arithmetic[] = "write --arithmetic bf16 or fp16";
static const char fused[] = "write --workload NAME:fused=yes";
static const char compiled[] =
    "write --workload NAME:fused=compiled for a transformer; for others --calibrate STEP, a step "
    "that was timed with it";
static const char nodes[] = "write it in the machine's name, as 2x4xrtx4090@10gbe";
static const char ranks[] = "write --workers COUNT; with --layout a worker is several GPUs";
static const char stages[] = "write --mode zero1, zero2 or zero3";
static const char recomputed[] = "write --recompute full, or selective, or products";
static const char loaders[] =
    "write --set input.cores=COUNT, all loaders of a node, and --set input.prefetch=COUNT, their "
    "batches made ahead for each GPU";
static const char peers[] =
    "write bridges into the machine's name, as 2xrtx3090+nvlink; else the machine file, which "
    "--save-machine FILE writes: peer = all without [shm] is direct access";
static const char one_process[] =
    "DistributedDataParallel is 'allreduce'; DataParallel, one process, is 'ps' with --set "
    "sync.where=gpu:0 --set exchange.overlap=no --set machine.dispatch=single";
static const char neighbours[] = "averages between neighbours (gossip) are not simulated";
static const char attention[] = "write --workload NAME:attention=fused, or plain (eager)";
static const char offload[] = "offload to host memory is not simulated";

const dl_word dl_scenario_words[] = {
    {"precision", "workload.arithmetic", NULL},
    {"dtype", "workload.arithmetic", NULL},
    {"model", "workload.model", NULL},
    {"global_batch", "workload.batch", NULL},
    {"global_batch_size", "workload.batch", NULL},
    {"train_batch_size", "workload.batch", NULL},
    {"local_batch_size", "workload.batch_per_worker", NULL},
    {"per_device_train_batch_size", "workload.batch_per_worker", NULL},
    {"batch_size", NULL,
     "write --batch-per-worker, as of a DataLoader, or --batch, of all workers"},
    {"world_size", NULL, ranks},
    {"h", "sync.interval", NULL},
    {"tau", "sync.interval", NULL},
    {"local_steps", "sync.interval", NULL},
    {"inner_steps", "sync.interval", NULL},
    {"local_sgd_steps", "sync.interval", NULL},
    {"sync_every", "sync.interval", NULL},
    {"sync_interval", "sync.interval", NULL},
    {"staleness", "sync.bound", NULL},
    {"max_staleness", "sync.bound", NULL},
    {"staleness_threshold", "sync.bound", NULL},
    {"grad_accum", NULL, accumulated},
    {"grad_accum_steps", NULL, accumulated},
    {"gradient_accumulation", NULL, accumulated},
    {"gradient_accumulation_steps", NULL, accumulated},
    {"accumulate_grad_batches", NULL, accumulated},
    {"accumulation_steps", NULL, accumulated},
    {"accumulate", "sync.accumulate", NULL},
    {"no_sync", "sync.accumulate", NULL},
    {"micro_batch_size", "pipeline.micro_batch", NULL},
    {"mbs", "pipeline.micro_batch", NULL},
    {"inside_slowdown", NULL, of_machine},
    {"overlap", NULL, of_machine},
    {"shm", NULL, of_machine},
    {"link", NULL, of_machine},
    {"host", NULL, of_machine},
    {"lanes", NULL, of_machine},
    {"pcie", NULL, of_machine},
    {"network", NULL, of_ports},
    {"bandwidth", NULL, of_ports},
    {"latency", NULL, of_delays},
    {"site", NULL, of_sites},
    {"between", NULL, of_sites},
    {"servers", "exchange.shards", NULL},
    {"bound", "sync.bound", NULL},
    {"batch_tokens", NULL, of_batch},
    {"global_batch_tokens", NULL, of_batch},
    {"tokens_per_batch", NULL, of_batch},
    {"tokens_per_step", NULL, of_batch},
    {"seq_len", NULL, tokens},
    {"seq_length", NULL, tokens},
    {"max_seq_len", NULL, tokens},
    {"max_seq_length", NULL, tokens},
    {"sequence", NULL, tokens},
    {"sequence_length", NULL, tokens},
    {"context_length", NULL, tokens},
    {"block_size", NULL, tokens},
    {"csv", NULL, "write -o FILE, the CSV file of the results"},
    {"optim", "workload.optimizer", NULL},
    {"offload", NULL, offload},
    {"cpu_offload", NULL, offload},
    {"offload_optimizer", NULL, offload},
    {"offload_param", NULL, offload},
    {"attn_implementation", NULL, attention},
    {"use_flash_attn", NULL, attention},
    {"packing", NULL, "every sample has the model's sequence, as packed ones do"},
    {"bucket_cap_mb", NULL, buckets},
    {"ddp_bucket_cap_mb", NULL, buckets},
    {"dataloader_num_workers", NULL, loaders},
    {"num_workers", NULL, loaders},
    {"prefetch_factor", NULL, loaders},
    {"pin_memory", NULL, "write --set machine.pageable=no, or yes if it is False"},
    {"p2p", NULL, peers},
    {"nvlink", NULL, peers},
    {"nccl_p2p_disable", NULL, peers},
    {"nccl_p2p_level", NULL, peers},
    {"nccl_algo", NULL, "write --set exchange.algorithm=ring, or tree"},
    {"nccl_ib_disable", NULL,
     "write the network into the machine's name: 2x8xa100@100gbe is TCP, @100ib InfiniBand"},
    {"backend", NULL,
     "NCCL is the default; gloo is --set exchange.collectives=hosts --set exchange.overlap=no"},
    {"strategy", NULL, "write --mode ddp, fsdp, zero1, zero2 or zero3"},
    {"use_distributed_optimizer", NULL, "write --mode zero1"},
    {"overlap_grad_reduce", NULL, "write --set exchange.overlap=yes, or no"},
    {"straggler", NULL, "write --set noise.slow=WORKER:FACTOR"},
    {"tf32", NULL, "write --arithmetic tf32"},
    {"fp8", NULL, "write --arithmetic fp8"},
    {"deepspeed", NULL, stages},
    {"bf16", NULL, arithmetic},
    {"fp16", NULL, arithmetic},
    {"amp", NULL, arithmetic},
    {"autocast", NULL, arithmetic},
    {"channels_last", NULL,
     "networks of images have this layout; --workload NAME:layout=nchw has PyTorch's "
     "default"},
    {"mixed_precision", NULL, arithmetic},
    {"fused", NULL, fused},
    {"compile", NULL, compiled},
    {"torch_compile", NULL, compiled},
    {"nnodes", "machine.nodes", NULL},
    {"price", "machine.price_usd_per_hour", NULL},
    {"price_per_gpu", NULL, of_node},
    {"price_per_gpu_hour", NULL, of_node},
    {"gpu_price", NULL, of_node},
    {"usd_per_gpu", NULL, of_node},
    {"cost_per_gpu_hour", NULL, of_node},
    {"gpus_per_node", NULL, nodes},
    {"nproc_per_node", NULL, nodes},
    {"num_nodes", "machine.nodes", NULL},
    {"devices", NULL, ranks},
    {"data_parallel_size", NULL, ranks},
    {"dp", NULL, ranks},
    {"ngpus", NULL, ranks},
    {"n_gpus", NULL, ranks},
    {"num_gpus", NULL, ranks},
    {"fsdp", NULL,
     "write --mode fsdp, where all workers share the parameters, or --layout "
     "fsdp=COUNT, where those of a worker do"},
    {"hsdp", NULL, "write --mode allreduce --layout fsdp=COUNT"},
    {"zero", NULL, stages},
    {"zero_stage", NULL, stages},
    {"pp", NULL, split},
    {"vp", "pipeline.chunks", NULL},
    {"virtual_pipeline_model_parallel_size", "pipeline.chunks", NULL},
    {"pipeline_parallel", NULL, split},
    {"pipeline_parallel_size", NULL, split},
    {"pipeline_model_parallel_size", NULL, split},
    {"tp", NULL, tensors},
    {"tensor", NULL, tensors},
    {"tensor_parallel", NULL, tensors},
    {"tensor_parallel_size", NULL, tensors},
    {"tensor_model_parallel_size", NULL, tensors},
    {"cp", NULL, context},
    {"sp", NULL, by_tokens},
    {"context_parallel", NULL, context},
    {"sequence_parallel", NULL, by_tokens},
    {"context_parallel_size", NULL, context},
    {"cp_comm_type", NULL, exchange_of_parts},
    {"ulysses", NULL, exchange_of_parts},
    {"ep", NULL, divided_experts},
    {"moe", NULL, experts},
    {"expert", NULL, experts},
    {"experts", NULL, experts},
    {"num_experts", NULL, experts},
    {"expert_parallel", NULL, divided_experts},
    {"expert_parallel_size", NULL, divided_experts},
    {"expert_parallel_degree", NULL, divided_experts},
    {"expert_model_parallel_size", NULL, divided_experts},
    {"checkpointing", "workload.recompute", NULL},
    {"activation_checkpointing", "workload.recompute", NULL},
    {"gradient_checkpointing", NULL, recomputed},
    {"recompute_activations", NULL, "write --recompute selective"},
    {"recompute_granularity", "workload.recompute", NULL},
    {"lora_r", "workload.lora", NULL},
    {"lora_rank", "workload.lora", NULL},
    {"target_modules", "workload.lora_targets", NULL},
    {"peft", NULL, "write --lora RANK"},
    {"qlora", NULL, four_bits},
    {"load_in_4bit", NULL, four_bits},
    {NULL, NULL, NULL},
};

const char *dl_scenario_word_says(const char *word)
{
    const dl_word *found = dl_word_find(dl_scenario_words, word);
    return found != NULL ? found->says : NULL;
}

/* --- choices --------------------------------------------------------------------------------- */

const dl_word dl_arithmetic_words[] = {
    {"amp", NULL, CALLED("bf16' or 'fp16")},
    {"bfloat16", "bf16", NULL},
    {"float16", "fp16", NULL},
    {"half", "fp16", NULL},
    {"float32", "fp32", NULL},
    {"float", "fp32", NULL},
    {"single", "fp32", NULL},
    {"float8", "fp8", NULL},
    {"fp4", "nvfp4", NULL},
    {"float4", "nvfp4", NULL},
    {"mixed_precision", NULL, CALLED("bf16' or 'fp16")},
    {NULL, NULL, NULL},
};

/* Lion (Chen et al. 2023) and torch.optim's RMSprop and Adagrad have one state, read and written in
 * each update, as momentum. */
const dl_word dl_optimizer_words[] = {
    {"adamw", "adam", NULL},
    {"adamw_torch", "adam", NULL},
    {"adamw_torch_fused", "adam", NULL},
    {"adamw8bit", "adam8bit", NULL},
    {"adam_8bit", "adam8bit", NULL},
    {"adamw_8bit", "adam8bit", NULL},
    {"adamw_bnb_8bit", "adam8bit", NULL},
    {"adamw_torch_8bit", "adam8bit", NULL},
    {"lion", "momentum", NULL},
    {"rmsprop", "momentum", NULL},
    {"adagrad", "momentum", NULL},
    {"nesterov", "momentum", NULL},
    {"adafactor", NULL,
     "its update is not simulated; 'sgd' has about its memory (a row and a column of state for "
     "each matrix), but a shorter update"},
    {"muon", NULL,
     "the matrix products of its update are not simulated; 'momentum' has its memory but for "
     "embeddings, which Adam updates"},
    {"paged_adamw_8bit", NULL, offload},
    {"paged_adamw_32bit", NULL, offload},
    {NULL, NULL, NULL},
};

const dl_word dl_compress_words[] = {
    {"onebit", "1bit", NULL},
    {"onebit_adam", NULL, CALLED("1bit")},
    {"top_k", "topk", NULL},
    {"dgc", NULL, CALLED("topk")},
    {"powersgd", NULL, "low-rank compression is not simulated, '1bit' and 'topk' are"},
    {NULL, NULL, NULL},
};

const dl_word dl_sharded_words[] = {
    {"ddp", "none", NULL},
    {"no_shard", "none", NULL},
    {"zero0", "none", NULL},
    {"zero1", "optimizer", NULL},
    {"zero", NULL, CALLED("optimizer', 'gradients' or 'parameters")},
    {"zero2", "gradients", NULL},
    {"zero3", "parameters", NULL},
    {"fsdp", "parameters", NULL},
    {"fsdp2", "parameters", NULL},
    {"full_shard", "parameters", NULL},
    {"shard_grad_op", NULL, CALLED("parameters' with reshard_after_forward = 'no")},
    {NULL, NULL, NULL},
};

/* --- modes ----------------------------------------------------------------------------------- */

/* Words that mean a mode and a key: a scenario's only mode is replaced by both; in a list each such
 * word makes a part of the study (sim/scenario/study.h). */
#define MODES_WITH_KEY(ROW)                                             \
    ROW("fsdp", "allreduce", "exchange", "sharded", "parameters")       \
    ROW("fsdp2", "allreduce", "exchange", "sharded", "parameters")      \
    ROW("full_shard", "allreduce", "exchange", "sharded", "parameters") \
    ROW("zero1", "allreduce", "exchange", "sharded", "optimizer")       \
    ROW("zero2", "allreduce", "exchange", "sharded", "gradients")       \
    ROW("zero3", "allreduce", "exchange", "sharded", "parameters")      \
    ROW("diloco", "average", "sync", "outer", "nesterov")

#define AS_SHORTHAND(word, mode, section, key, value) {word, mode, section, key, value},
#define AS_WORD(word, mode, section, key, value) \
    {word, NULL, CALLED(mode "' with [" section "] " key " = '" value)},

static const dl_word mode_words[] = {
    MODES_WITH_KEY(AS_WORD){"ddp", "allreduce", NULL},
    {"zero_1", NULL, CALLED("zero1")},
    {"zero_2", NULL, CALLED("zero2")},
    {"zero_3", NULL, CALLED("zero3")},
    {"distributeddataparallel", "allreduce", NULL},
    {"dp", NULL, one_process},
    {"dataparallel", NULL, one_process},
    {"data_parallel", NULL, one_process},
    {"shard_grad_op", NULL,
     CALLED("allreduce' with [exchange] sharded = 'parameters' and reshard_after_forward = 'no")},
    {"horovod", "allreduce", NULL},
    {"nccl", "allreduce", NULL},
    {"sync", "allreduce", NULL},
    {"synchronous", "allreduce", NULL},
    {"asynchronous", "async", NULL},
    {"hogwild", "async", NULL},
    {"downpour", "async", NULL},
    {"local_sgd", "average", NULL},
    {"localsgd", "average", NULL},
    {"fedavg", "average", NULL},
    {"post_local_sgd", NULL, "its steps are those of 'allreduce', later of 'average'"},
    {"gossip", NULL, neighbours},
    {"adpsgd", NULL, neighbours},
    {"ad_psgd", NULL, neighbours},
    {"dpsgd", NULL, neighbours},
    {"sgp", NULL, neighbours},
    {"parameter_server", "ps", NULL},
    {"kvstore", "ps", NULL},
    {"hardsync", "ps", NULL},
    {"local", NULL, CALLED("ps' with [sync] where = 'cpu")},
    {"device", NULL, CALLED("ps' with [sync] where = 'gpu:0")},
    {"dist_sync", "ps", NULL},
    {"dist_device_sync", "ps", NULL},
    {"dist_async", "async", NULL},
    {NULL, NULL, NULL},
};

static const dl_mode_shorthand shorthands[] = {MODES_WITH_KEY(AS_SHORTHAND)};

const dl_mode_shorthand *dl_mode_shorthand_find(const char *word)
{
    for (size_t i = 0; i < DL_LENGTH(shorthands); i++)
        if (strcasecmp(shorthands[i].word, word) == 0) return &shorthands[i];
    return NULL;
}

void dl_mode_shorthands_complete(FILE *out, const char *typed, size_t kept)
{
    for (size_t i = 0; i < DL_LENGTH(shorthands); i++)
        dl_complete_word(out, typed, kept, shorthands[i].word);
}

const dl_word *dl_mode_word(const char *given)
{
    const dl_word *word = dl_word_find(mode_words, given);
    const dl_word *other = dl_word_find(dl_scenario_words, given);
    return word != NULL || other == NULL || other->here != NULL ? word : other;
}

char *dl_next_word(const char **list)
{
    if (*list == NULL) return NULL;
    const size_t bytes = strcspn(*list, ",");
    char *word = dl_strndup_trimmed(*list, bytes);
    *list = (*list)[bytes] == ',' ? *list + bytes + 1 : NULL;
    return word;
}

bool dl_point_mode_is(const dl_point *point, const char *said)
{
    const dl_word *word = dl_mode_word(said);
    if (word != NULL && word->here != NULL) said = word->here;
    return strcmp(said, dl_point_mode(point)) == 0;
}
