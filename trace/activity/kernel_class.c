#include "trace/activity/kernel_class.h"

#include <string.h>

#include "common/alloc.h"

/* Rules for class and phase (see kernel_class.h), in order of precedence.
 *
 * A rule is a list of patterns, separated by '|'; a pattern matches anywhere in the name,
 * case-sensitively; '*' inside a pattern matches any text, '^' in front the name's start.
 *
 * Sources of the names: symbol tables of NCCL 2.28.9, cuBLAS 13 and cuDNN 9 (all 5302 xmma kernels
 * of cuDNN and none of cuBLAS' 6034 hold fprop, dgrad or wgrad); names in traces of PyTorch 1.8 to
 * 2.x on V100, A100, H100 and MI300X; kernel names in the public sources of the others. */
typedef struct kernel_rule {
    const char *patterns;
    dl_kernel_class class;
} kernel_rule;

static const kernel_rule kernel_rules[] = {
    /* NCCL and RCCL, then all-reduces and device-to-device transfers of other libraries. */
    {"nccl*Kernel|rcclKernel|mscclKernel|mscclpp|oneRankReduce|nvshmem|deep_ep", //
     DL_KERNEL_COLLECTIVE},
    {"one_shot_all_reduce|two_shot_all_reduce|multimem_all|multimem_one_shot|cross_device_reduce|"
     "ShotAllReduce|allreduce_fusion_kernel|allReduceKernel|AllReduceKernel|all_reduce_kernel|"
     "userbuffers_",
     DL_KERNEL_COLLECTIVE},

    /* Triton: the compiler's prefix is more reliable than the names of fused operators. Templates
     * are gemms, convolutions, attention; "for" is a loop over many tensors, as in optimizers. */
    {"^triton_tem_*attention|^triton_tem_*sdpa", DL_KERNEL_ATTENTION},
    {"^triton_tem_*conv|^triton_conv", DL_KERNEL_CONVOLUTION},
    {"^triton_tem_|^triton_mm|^triton_bmm|^triton_gemm|^gemm_fusion", DL_KERNEL_GEMM},
    {"^triton_for_", DL_KERNEL_OPTIMIZER},
    {"^triton_*softmax|^triton_*nll_loss|^triton_*cross_entropy", DL_KERNEL_SOFTMAX},
    {"^triton_*_norm", DL_KERNEL_NORMALISATION},
    {"^triton_*embedding", DL_KERNEL_EMBEDDING},
    {"^triton_*max_pool|^triton_*avg_pool", DL_KERNEL_POOLING},
    {"^triton_red_|^triton_per_", DL_KERNEL_REDUCTION},
    {"^triton_poi_*_cat_|^triton_poi_*_clone|^triton_poi_*_copy", DL_KERNEL_LAYOUT},
    {"^triton_poi_|^triton_unk_", DL_KERNEL_ELEMENTWISE},

    {"flash_fwd|flash_bwd|FlashAttn|flash_attn|fmha|Fmha|FMHA|AttentionKernel|"
     "AttentionBackward|attention_kernel|attention_fwd|attention_bwd|paged_attention|attn_fwd|"
     "attn_bwd|_sdpa_|mha_fwd|mha_bwd",
     DL_KERNEL_ATTENTION},

    /* Before optimizers (row-wise adagrad is fused into the gradient) and before pooling. */
    {"embedding|Embedding|_embs_|indexing_backward|linearize_index|bounds_check_indices|"
     "fbgemm_gpu*permute|fbgemm_gpu*offsets|fbgemm_gpu*jagged",
     DL_KERNEL_EMBEDDING},

    {"multi_tensor_apply|FusedAdam|FusedSgd|FusedSGD|AdamFunctor|SGDFunctor|fused_adam|adam_cuda|"
     "ApplyAdam|ApplyGradientDescent|ApplyMomentum|ApplyKerasMomentum|ApplyAdagrad|ApplyRMSProp|"
     "ApplyFtrl|SGDKernel|SGDMom|sgd_update|sgd_mom|lamb_|LAMB|Lamb|adagrad|amp_update_scale|"
     "amp_non_finite|amp_foreach|_fused_sgd|adam_update|AdamKernel|lars_|LARS",
     DL_KERNEL_OPTIMIZER},

    {"softmax|SoftMax|Softmax|nll_loss|NLLCriterion|NLLLoss|cross_entropy|CrossEntropy|xentropy|"
     "mse_|smooth_l1|ctc_loss|CTCLoss|ctc_alpha|ctc_beta|kl_div|_loss|Loss|logsumexp|LogSumExp",
     DL_KERNEL_SOFTMAX},

    {"bn_fw|bn_bw|bnFw|bnBw|batch_norm|BatchNorm|batchnorm|batchNorm|layer_norm|LayerNorm|"
     "layernorm|layerNorm|rms_norm|RMSNorm|RmsNorm|rmsnorm|group_norm|GroupNorm|groupnorm|"
     "InstanceNorm|instance_norm|RowwiseMoments|GammaBeta|ln_fwd|ln_bwd|norm_fwd|norm_bwd|lrn_|LRN|"
     "ComputeInternalGradients|ComputeFusedParams",
     DL_KERNEL_NORMALISATION},

    /* Matrix products in cuDNN, before its convolutions. */
    {"xmma_gemm", DL_KERNEL_GEMM},
    {"fprop|Fprop|dgrad|Dgrad|wgrad|Wgrad|winograd|Winograd|convolve|convolution|Convolution|"
     "conv1d|conv2d|conv3d|Conv1d|Conv2d|Conv3d|Conv2D|conv_fwd|conv_bwd|_conv_|scudnn|hcudnn|"
     "dcudnn|icudnn|84cudnn|16cudnn|88cudnn|depthwise|Depthwise|im2col|im2Col|Im2Col|col2im|Col2Im|"
     "fft2d_|computeOffsetsKernel|computeOffsets2D|computeBOffsets|igemm_fwd|igemm_bwd|igemm_wrw|"
     "bwd_weight|bwd_data|miopenSp3Asm|miopenGcnAsm|MIOpenConv|naive_conv|gridwise_conv",
     DL_KERNEL_CONVOLUTION},

    {"pooling|Pooling|max_pool|MaxPool|avg_pool|AvgPool|AveragePool|average_pool|maxpool|avgpool|"
     "pool2d|pool3d|mloPool|select_and_scatter|reduce_window",
     DL_KERNEL_POOLING},

    {"gemm|Gemm|GEMM|nvjet|Cijk_|gemv|Gemv|splitKreduce|cublasLtEpilogue|dot_kernel|trsm|syrk|herk|"
     "trmm|symm_|matmul|MatMul|cublasSplitK|splitk_reduce|fused_mm",
     DL_KERNEL_GEMM},

    /* Generic kernels of PyTorch and CUB first, as their functors may have any name. */
    {"reduce_kernel|ReduceOp|DeviceReduce|DeviceScan|DeviceRadixSort|DeviceSegmented|"
     "DeviceHistogram|DeviceSelect|DeviceCompact|DeviceUnique|DeviceMerge",
     DL_KERNEL_REDUCTION},
    {"dropout|Dropout|distribution_|Distribution|philox|curand|RngBit|FillPhilox", //
     DL_KERNEL_ELEMENTWISE},
    {"transpose|Transpose|ToNhwc|ToNchw|nhwcTo|nchwTo|permute|Permute|CatArray|concat|Concat|copy|"
     "Copy|memcpy|Memcpy|memset|FillFunctor|fill_kernel|gather|Gather|scatter|Scatter|indexSelect|"
     "index_select|index_elementwise|index_put|index_kernel|indexFunc|IndexKernel|slice|Slice|"
     "constant_pad|reflection_pad|replication_pad|PadKernel|pad_fusion|tensorTransform|"
     "convertTensor|flip_|roll_cuda|compute_cuda_kernel|tril|triu|SwapDimension|ShuffleInTensor|"
     "masked_select|upsample|Upsample|ResizeBilinear|to_dense_repr|TensorReorder",
     DL_KERNEL_LAYOUT},
    {"BiasGrad|RowReduce|ColumnReduce|CleanupSegments|input_reduce|reduce_fusion|reduce_1Block|"
     "radixSort|RadixSort|bitonicSort|sort|cumsum|cumprod|scan_|_scan|argmax|topk|TopK|TopK|"
     "unique|searchsorted|histogram|ReductionKernel|reduction_kernel|row_reduce|column_reduce",
     DL_KERNEL_REDUCTION},
    {"elementwise|Elementwise|ElementWise|element_wise|pointwise|Pointwise|EigenMetaKernel|"
     "BiasNHWC|BiasNCHW|op_tensor|OpTensor|SubTensorOp|Op1dTensor|Op2dTensor|Op4dTensor|"
     "scalePackedTensor|addTensor|scal_kernel|axpy|geam_kernel|activation|Activation|relu|Relu|"
     "gelu|sigmoid|"
     "tanh|silu|swiglu|mxnet_generic_kernel|quantize|rowwise_to_float|qparam|bias_|Bias",
     DL_KERNEL_ELEMENTWISE},
    /* XLA names fusions after their root. */
    {"^input_concatenate|^concatenate|^wrapped_slice|^wrapped_broadcast|^wrapped_convert",
     DL_KERNEL_LAYOUT},
    {"reduce|Reduce", DL_KERNEL_REDUCTION},
    {"^loop_|^fusion|_fusion|^wrapped_", DL_KERNEL_ELEMENTWISE},
    {"cutlass|Cutlass|cublas|_xmma_|symv", DL_KERNEL_GEMM},
};

typedef struct phase_rule {
    const char *patterns;
    dl_phase phase;
} phase_rule;

/* Winograd's "forward" transforms also serve the gradient of the data. */
static const phase_rule phase_rules[] = {
    {"winogradForward", DL_PHASE_NONE},
    {"dgrad|Dgrad|wgrad|Wgrad|backward|Backward|bwd|Bwd|_bw_|bprop|igemm_wrw|GradInput|_grad_|"
     "BiasGrad|PoolGrad|select_and_scatter",
     DL_PHASE_BACKWARD},
    {"fprop|Fprop|forward|Forward|fwd|Fwd|_fw_", DL_PHASE_FORWARD},
};

enum { ID_UNSEEN = UINT8_MAX };

static const dl_kernel_rule *user_rules;
static size_t user_rule_count;

void dl_kernel_use_rules(const dl_kernel_rule *rules, size_t count)
{
    user_rules = rules;
    user_rule_count = count;
}

const char *dl_kernel_class_name(dl_kernel_class class)
{
    static const char *const names[DL_KERNEL_CLASS_END] = {
        [DL_KERNEL_OTHER] = "other",
        [DL_KERNEL_CONVOLUTION] = "convolution",
        [DL_KERNEL_GEMM] = "gemm",
        [DL_KERNEL_ATTENTION] = "attention",
        [DL_KERNEL_NORMALISATION] = "normalisation",
        [DL_KERNEL_SOFTMAX] = "softmax/loss",
        [DL_KERNEL_POOLING] = "pooling",
        [DL_KERNEL_EMBEDDING] = "embedding",
        [DL_KERNEL_OPTIMIZER] = "optimizer",
        [DL_KERNEL_COLLECTIVE] = "collective",
        [DL_KERNEL_ELEMENTWISE] = "elementwise",
        [DL_KERNEL_REDUCTION] = "reduction",
        [DL_KERNEL_LAYOUT] = "copy/layout",
    };
    return (unsigned)class < DL_KERNEL_CLASS_END ? names[class] : "unknown";
}

/* Returns whether the pattern, the text up to `end`, occurs in `name`: its parts between '*' in
 * order. Each part matches at its first occurrence, which leaves the most room for the rest. */
static bool matches_one(const char *pattern, const char *end, const char *name)
{
    bool at_begin = pattern < end && *pattern == '^';
    if (at_begin) pattern++;
    while (pattern < end) {
        const char *star = memchr(pattern, '*', (size_t)(end - pattern));
        size_t length = (size_t)((star != NULL ? star : end) - pattern);
        if (at_begin) {
            if (strncmp(name, pattern, length) != 0) return false;
        } else {
            name = memmem(name, strlen(name), pattern, length);
            if (name == NULL) return false;
        }
        at_begin = false;
        name += length;
        pattern += length + (star != NULL);
    }
    return true;
}

/* Returns whether one of the patterns matches the text. */
static bool matches(const char *patterns, const char *text)
{
    for (;;) {
        const char *end = strchrnul(patterns, '|');
        if (matches_one(patterns, end, text)) return true;
        if (*end == '\0') return false;
        patterns = end + 1;
    }
}

const char *dl_kernel_ruled_collective(const char *name)
{
    for (size_t i = 0; i < user_rule_count; i++) {
        if (matches(user_rules[i].patterns, name)) return user_rules[i].collective;
    }
    return NULL;
}

static dl_phase find_phase(const char *name)
{
    for (size_t i = 0; i < DL_LENGTH(phase_rules); i++) {
        if (matches(phase_rules[i].patterns, name)) return phase_rules[i].phase;
    }
    return DL_PHASE_NONE;
}

dl_kernel_class dl_kernel_classify(const char *name, dl_phase *phase)
{
    dl_kernel_class class =
        dl_kernel_ruled_collective(name) != NULL ? DL_KERNEL_COLLECTIVE : DL_KERNEL_OTHER;
    for (size_t i = 0; i < DL_LENGTH(kernel_rules) && class == DL_KERNEL_OTHER; i++) {
        if (!matches(kernel_rules[i].patterns, name)) continue;
        class = kernel_rules[i].class;
        break;
    }
    if (phase == NULL) return class;
    if (class == DL_KERNEL_OPTIMIZER) {
        *phase = DL_PHASE_UPDATE;
    } else if (class == DL_KERNEL_COLLECTIVE) {
        *phase = DL_PHASE_NONE;
    } else {
        *phase = find_phase(name);
    }
    return class;
}

uint8_t *dl_kernel_classes(const dl_trace *trace)
{
    uint8_t *classes = dl_calloc(trace->string_count, 1, "kernel classes");
    memset(classes, ID_UNSEEN, trace->string_count);
    for (size_t i = 0; i < trace->activity_count; i++) {
        const dl_activity *a = &trace->activities[i];
        if (a->kind == DL_ACTIVITY_KERNEL && a->name < trace->string_count &&
            classes[a->name] == ID_UNSEEN)
            classes[a->name] = (uint8_t)dl_kernel_classify(trace->strings[a->name], NULL);
    }
    for (size_t i = 0; i < trace->string_count; i++) {
        if (classes[i] == ID_UNSEEN) classes[i] = DL_KERNEL_OTHER;
    }
    return classes;
}

typedef struct written_type {
    const char *written, *type;
} written_type;

/* Type names in kernels of NCCL since 2.7 and of RCCL; the first match applies, so a longer name
 * precedes its prefix. */
static const written_type written_types[] = {
    {"f8e4m3", "float8e4m3"},
    {"f8e5m2", "float8e5m2"},
    {"rccl_float8", "float8e4m3"},
    {"rccl_bfloat8", "float8e5m2"},
    {"bf16", "bfloat16"},
    {"__nv_bfloat16", "bfloat16"},
    {"rccl_bfloat16", "bfloat16"},
    {"hip_bfloat16", "bfloat16"},
    {"f16", "float16"},
    {"half", "float16"},
    {"f32", "float32"},
    {"float", "float32"},
    {"f64", "float64"},
    {"double", "float64"},
    {"uint8_t", "uint8"},
    {"u8", "uint8"},
    {"int8_t", "int8"},
    {"i8", "int8"},
    {"uint32_t", "uint32"},
    {"u32", "uint32"},
    {"int32_t", "int32"},
    {"i32", "int32"},
    {"uint64_t", "uint64"},
    {"u64", "uint64"},
    {"int64_t", "int64"},
    {"i64", "int64"},
};

/* Finds the type, which follows the reduction in all versions: "..._Sum_f32", "..._sum_float". */
static const char *find_type(const char *name)
{
    static const char *const reductions[] = {"_SumPostDiv_", "_PreMulSum_", "_MinMax_", "_Sum_",
                                             "_Prod_",       "_Max_",       "_Min_",    "_Avg_"};
    for (size_t i = 0; i < DL_LENGTH(reductions); i++) {
        const char *place = strcasestr(name, reductions[i]);
        if (place == NULL) continue;
        place += strlen(reductions[i]);
        for (size_t t = 0; t < DL_LENGTH(written_types); t++) {
            const char *written = written_types[t].written;
            if (strncmp(place, written, strlen(written)) == 0) return written_types[t].type;
        }
    }
    return "";
}

/* Recognizes DeepEP's dispatch and combine; their announcements ("notify_dispatch") carry no
 * data. */
static const char *tell_deep_ep(const char *name)
{
    if (strstr(name, "notify") != NULL || strstr(name, "clean") != NULL) return "";
    return matches("dispatch|combine", name) ? "AlltoAll" : "";
}

static const char *tell_nvshmem(const char *name)
{
    static const char *const names[][2] = {
        {"alltoall", "AlltoAll"},   {"fcollect", "AllGather"}, {"reducescatter", "ReduceScatter"},
        {"broadcast", "Broadcast"}, {"reduce", "AllReduce"},
    };
    for (size_t i = 0; i < DL_LENGTH(names); i++) {
        if (strstr(name, names[i][0]) != NULL) return names[i][1];
    }
    return "";
}

static const char *tell_nccl(const char *name)
{
    /* Names contained in other names come last: "Reduce", "Gather", "Scatter". */
    static const char *const collectives[] = {"AllReduce", "ReduceScatter", "AllGather", "AlltoAll",
                                              "AllToAll",  "SendRecv",      "Broadcast", "Reduce",
                                              "Gather",    "Scatter"};
    for (size_t i = 0; i < DL_LENGTH(collectives); i++) {
        if (strstr(name, collectives[i]) != NULL) return collectives[i];
    }
    return "";
}

bool dl_kernel_tell_collective(const char *name, dl_kernel_collective *told)
{
    const char *ruled = dl_kernel_ruled_collective(name);
    if (ruled != NULL) {
        *told = (dl_kernel_collective){ruled, ""};
    } else if (matches("nccl*Kernel|rcclKernel", name)) {
        *told = (dl_kernel_collective){tell_nccl(name), ""};
        if (strstr(told->collective, "Reduce") != NULL) told->type = find_type(name);
    } else if (strstr(name, "deep_ep") != NULL) {
        *told = (dl_kernel_collective){tell_deep_ep(name), ""};
    } else if (strstr(name, "nvshmem") != NULL) {
        *told = (dl_kernel_collective){tell_nvshmem(name), ""};
    } else {
        return false;
    }
    return true;
}
