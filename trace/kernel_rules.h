/* The rules of kernel_class.h, in the order in which they are tried: for kernel_class.c only.
 *
 * A rule is a list of patterns, separated by '|'; a pattern matches where it occurs in the name,
 * capitals counting; '*' inside one stands for any text, '^' in front for the name's begin.
 *
 * Sources of the names: symbol tables of NCCL 2.28.9, cuBLAS 13 and cuDNN 9 (all 5302 xmma kernels
 * of cuDNN and none of cuBLAS' 6034 hold fprop, dgrad or wgrad); names in traces of PyTorch 1.8 to
 * 2.x on V100, A100, H100 and MI300X; the kernels' names in the public sources of the others. */
#ifndef DL_TRACE_KERNEL_RULES_H
#define DL_TRACE_KERNEL_RULES_H

#include "trace/kernel_class.h"

typedef struct kernel_rule {
    const char *patterns;
    dl_kernel_class class;
} kernel_rule;

static const kernel_rule kernel_rules[] = {
    /* NCCL and RCCL, then other libraries' all-reduces and transfers between devices. */
    {"nccl*Kernel|rcclKernel|mscclKernel|mscclpp|oneRankReduce|nvshmem|deep_ep", //
     DL_KERNEL_COLLECTIVE},
    {"one_shot_all_reduce|two_shot_all_reduce|multimem_all|multimem_one_shot|cross_device_reduce|"
     "ShotAllReduce|allreduce_fusion_kernel|allReduceKernel|AllReduceKernel|all_reduce_kernel|"
     "userbuffers_",
     DL_KERNEL_COLLECTIVE},

    /* Triton: the compiler's prefix tells more than the operators fused in. Templates are gemms,
     * convolutions, attention; "for" is a loop over many tensors, as optimizers have. */
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

    /* Matrix products within cuDNN, before its convolutions. */
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

    /* PyTorch's and CUB's frames first: what they are instantiated with may name anything. */
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
    /* XLA names fusions by what lies at their root. */
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

/* Winograd's "forward" transforms serve the gradient of the data as well. */
static const phase_rule phase_rules[] = {
    {"winogradForward", DL_PHASE_NONE},
    {"dgrad|Dgrad|wgrad|Wgrad|backward|Backward|bwd|Bwd|_bw_|bprop|igemm_wrw|GradInput|_grad_|"
     "BiasGrad|PoolGrad|select_and_scatter",
     DL_PHASE_BACKWARD},
    {"fprop|Fprop|forward|Forward|fwd|Fwd|_fw_", DL_PHASE_FORWARD},
};

#endif
