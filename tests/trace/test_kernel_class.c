#include "tests/check.h"

#include <stdlib.h>

#include "trace/activity/kernel_class.h"

typedef struct kernel_case {
    const char *name;
    dl_kernel_class class;
    dl_phase phase;
} kernel_case;

static bool is_collective(const char *name)
{
    return dl_kernel_classify(name, NULL) == DL_KERNEL_COLLECTIVE;
}

/* Names from the libraries' symbol tables and sources, mangled and demangled. Ambiguous names are
 * listed beside similar names of other classes. */
static const kernel_case cases[] = {
    /* Collectives of all versions; the oldest are called ncclAllReduceRingLLKernel. */
    {"_Z40ncclDevKernel_AllReduce_Sum_bf16_RING_LL24ncclDevKernelArgsStorageILm4096EE",
     DL_KERNEL_COLLECTIVE, DL_PHASE_NONE},
    {"ncclKernel_ReduceScatter_RING_LL_Sum_half(ncclDevComm*, unsigned long, ncclWork*)",
     DL_KERNEL_COLLECTIVE, DL_PHASE_NONE},
    {"ncclAllReduceRingLLKernel_sum_f32(ncclColl)", DL_KERNEL_COLLECTIVE, DL_PHASE_NONE},
    {"_Z30ncclSymkDevKernel_AllGather_LL21ncclSymkDevWorkArgs4K", DL_KERNEL_COLLECTIVE,
     DL_PHASE_NONE},
    {"void oneRankReduce<FuncPreMulSum<float>>(void*, void*, unsigned long)", DL_KERNEL_COLLECTIVE,
     DL_PHASE_NONE},
    {"void vllm::cross_device_reduce_1stage<__half, 2>(vllm::RankData*, int)", DL_KERNEL_COLLECTIVE,
     DL_PHASE_NONE},
    /* Convolutions. */
    {"sm80_xmma_fprop_implicit_gemm_tf32f32_nhwc_tilesize128x128x16_execute_kernel__5x_cudnn",
     DL_KERNEL_CONVOLUTION, DL_PHASE_FORWARD},
    {"sm90_xmma_dgrad_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc", DL_KERNEL_CONVOLUTION,
     DL_PHASE_BACKWARD},
    {"void wgrad_alg0_engine<float, 128, 6, 7, 3, 3, 5, false, 512>(int, int)",
     DL_KERNEL_CONVOLUTION, DL_PHASE_BACKWARD},
    {"volta_scudnn_128x64_relu_interior_nn_v1", DL_KERNEL_CONVOLUTION, DL_PHASE_NONE},
    {"volta_fp16_s884cudnn_fp16_256x64_ldg8_relu_f2f_exp_small_nhwc_tn_v1", DL_KERNEL_CONVOLUTION,
     DL_PHASE_NONE},
    {"void cudnn::winograd_nonfused::winogradForwardData4x4<float, float>(int)",
     DL_KERNEL_CONVOLUTION, DL_PHASE_NONE},
    {"igemm_wrw_gtcx3_nhwc_bf16_bx0_ex1", DL_KERNEL_CONVOLUTION, DL_PHASE_BACKWARD},
    /* Matrix products, including an xmma without fprop, dgrad, wgrad. */
    {"volta_sgemm_64x64_nt", DL_KERNEL_GEMM, DL_PHASE_NONE},
    {"sm90_xmma_gemm_f16f16_f16f32_f32_tn_n_tilesize128x128x64_cublas", DL_KERNEL_GEMM,
     DL_PHASE_NONE},
    {"nvjet_hsh_128x256_64x4_2x1_v_bz_coopA_NNT", DL_KERNEL_GEMM, DL_PHASE_NONE},
    {"void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x64_16x6_nt_align4>(int)",
     DL_KERNEL_GEMM, DL_PHASE_NONE},
    {"_Z13gemv2T_kernelIfLi128E17cublasGemvParams", DL_KERNEL_GEMM, DL_PHASE_NONE},
    {"void splitKreduce_kernel<32, 16, int, float>(cublasSplitKParams<float>)", DL_KERNEL_GEMM,
     DL_PHASE_NONE},
    {"Cijk_Ailk_Bljk_BBS_BH_MT128x128x32_MI16x16x16x1_SN", DL_KERNEL_GEMM, DL_PHASE_NONE},
    /* FlashAttention is built with CUTLASS. */
    {"void flash_fwd_kernel<Flash_fwd_kernel_traits<128, 64, cutlass::half_t>>(Flash_fwd_params)",
     DL_KERNEL_ATTENTION, DL_PHASE_FORWARD},
    {"_ZN7cutlass13device_kernelIN5flash15FlashAttnBwdSm90EEEvNT_6ParamsE", DL_KERNEL_ATTENTION,
     DL_PHASE_BACKWARD},
    {"fmha_cutlassF_bf16_aligned_64x64_rf_sm80(int)", DL_KERNEL_ATTENTION, DL_PHASE_NONE},
    {"cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_6", DL_KERNEL_ATTENTION,
     DL_PHASE_FORWARD},
    /* Normalisation, softmax, losses, pooling. */
    {"_ZN5cudnn20bn_bw_1C11_singlereadIfLi512ELb1ELi1ELi2ELi0EEEvffff", DL_KERNEL_NORMALISATION,
     DL_PHASE_BACKWARD},
    {"void cudnn::bn_fw_tr_1C11_kernel_NCHW<float, float, 512, true, 1>(cudnnTensorStruct)",
     DL_KERNEL_NORMALISATION, DL_PHASE_FORWARD},
    {"void at::native::(anonymous namespace)::GammaBetaBackwardCUDAKernel<float, float>(long)",
     DL_KERNEL_NORMALISATION, DL_PHASE_BACKWARD},
    {"void (anonymous namespace)::softmax_warp_forward<float, float, float, 10, true>(float*)",
     DL_KERNEL_SOFTMAX, DL_PHASE_FORWARD},
    {"void at::native::(anonymous namespace)::nll_loss_backward_reduce_cuda_kernel_2d<float>()",
     DL_KERNEL_SOFTMAX, DL_PHASE_BACKWARD},
    {"void at::native::(anonymous namespace)::max_pool_backward_nchw<float, float>(float const*)",
     DL_KERNEL_POOLING, DL_PHASE_BACKWARD},
    {"_ZN5cudnn20pooling_fw_4d_kernelIffEE", DL_KERNEL_POOLING, DL_PHASE_FORWARD},
    /* The gradient of a table with a fused optimizer; separate optimizers. */
    {"void split_embedding_backward_codegen_rowwise_adagrad_kernel_cta_per_row_1<float>(int)",
     DL_KERNEL_EMBEDDING, DL_PHASE_BACKWARD},
    {"void multi_tensor_apply_kernel<TensorListMetadata<4>, AdamFunctor<float>>(int)",
     DL_KERNEL_OPTIMIZER, DL_PHASE_UPDATE},
    {"_ZN2at6native56_GLOBAL__N__25multi_tensor_apply_kernelINS1_28FusedAdamMathFunctorIfEE",
     DL_KERNEL_OPTIMIZER, DL_PHASE_UPDATE},
    {"void mxnet::op::mxnet_op::mxnet_generic_kernel<mxnet::op::SGDMomKernel, float*>(int)",
     DL_KERNEL_OPTIMIZER, DL_PHASE_UPDATE},
    /* Generic kernels of PyTorch, identified by their template arguments. */
    {"void at::native::vectorized_elementwise_kernel<4, at::native::CUDAFunctor_add<float>>(int)",
     DL_KERNEL_ELEMENTWISE, DL_PHASE_NONE},
    {"void at::native::vectorized_elementwise_kernel<4, at::native::sigmoid_backward_kernel_cuda>",
     DL_KERNEL_ELEMENTWISE, DL_PHASE_BACKWARD},
    {"void at::native::elementwise_kernel<128, 2, at::native::direct_copy_kernel_cuda>(int)",
     DL_KERNEL_LAYOUT, DL_PHASE_NONE},
    {"void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, NormTwoOps<float>>>(int)",
     DL_KERNEL_REDUCTION, DL_PHASE_NONE},
    {"void at::native::(anonymous namespace)::distribution_elementwise_grid_stride_kernel<float, 4,"
     " at::native::templates::cuda::normal_and_transform<float>>(int)",
     DL_KERNEL_ELEMENTWISE, DL_PHASE_NONE},
    {"void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, unsigned int, 2>(float*)",
     DL_KERNEL_LAYOUT, DL_PHASE_NONE},
    {"void cudnn::ops::nchwToNhwcKernel<float, float, float, false>(int)", DL_KERNEL_LAYOUT,
     DL_PHASE_NONE},
    {"void cub::DeviceRadixSortOnesweepKernel<cub::DeviceRadixSortPolicy<long, int>>(int*)",
     DL_KERNEL_REDUCTION, DL_PHASE_NONE},
    /* Compilers: a bias fused after a convolution is element-wise. */
    {"triton_poi_fused_convolution_relu_3", DL_KERNEL_ELEMENTWISE, DL_PHASE_NONE},
    {"triton_tem_fused_mm_12", DL_KERNEL_GEMM, DL_PHASE_NONE},
    {"triton_per_fused_native_layer_norm_native_layer_norm_backward_4", DL_KERNEL_NORMALISATION,
     DL_PHASE_BACKWARD},
    {"triton_red_fused_sum_7", DL_KERNEL_REDUCTION, DL_PHASE_NONE},
    {"loop_add_fusion_3", DL_KERNEL_ELEMENTWISE, DL_PHASE_NONE},
    {"fusion_17", DL_KERNEL_ELEMENTWISE, DL_PHASE_NONE},
    {"input_reduce_fusion", DL_KERNEL_REDUCTION, DL_PHASE_NONE},
    {"loop_transpose_fusion_1", DL_KERNEL_LAYOUT, DL_PHASE_NONE},
    {"gemm_fusion_dot_2", DL_KERNEL_GEMM, DL_PHASE_NONE},
    /* Unknown kernels. */
    {"void clover::par_ranged2d_kernel<advec_cell_kernel(int, int)>(clover::Range2d)",
     DL_KERNEL_OTHER, DL_PHASE_NONE},
    {"my_kernel", DL_KERNEL_OTHER, DL_PHASE_NONE},
    {"", DL_KERNEL_OTHER, DL_PHASE_NONE},
};

static void test_classes(void **state DL_UNUSED)
{
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        dl_phase phase = DL_PHASE_PULL;
        dl_kernel_class class = dl_kernel_classify(cases[i].name, &phase);
        if (class != cases[i].class || phase != cases[i].phase) {
            fail_msg("%s is %s, %s", cases[i].name, dl_kernel_class_name(class),
                     dl_phase_name(phase));
        }
        assert_int_equal(is_collective(cases[i].name), class == DL_KERNEL_COLLECTIVE);
    }
}

/* The end of the pattern "nccl*Kernel" must follow its beginning; '^' means the beginning. */
static void test_pattern_order(void **state DL_UNUSED)
{
    assert_int_equal(dl_kernel_classify("Kernel_nccl", NULL), DL_KERNEL_OTHER);
    assert_int_equal(dl_kernel_classify("my_triton_poi_x", NULL), DL_KERNEL_OTHER);
    assert_int_equal(dl_kernel_classify("triton_poi_x", NULL), DL_KERNEL_ELEMENTWISE);
}

static void test_class_names(void **state DL_UNUSED)
{
    assert_string_equal(dl_kernel_class_name(DL_KERNEL_OTHER), "other");
    assert_string_equal(dl_kernel_class_name(DL_KERNEL_LAYOUT), "copy/layout");
    assert_string_equal(dl_kernel_class_name(DL_KERNEL_CLASS_END), "unknown");
    for (int c = 0; c < DL_KERNEL_CLASS_END; c++)
        assert_non_null(dl_kernel_class_name((dl_kernel_class)c));
}

/* Ids 1 and 3 are kernels; id 2 is a range named like one; id 9 does not exist. */
static void test_table_by_id(void **state DL_UNUSED)
{
    char texts[][24] = {"", "volta_sgemm_64x64_nt", "flash_fwd", "softmax_warp_forward"};
    char *strings[] = {texts[0], texts[1], texts[2], texts[3]};
    dl_activity activities[] = {{.kind = DL_ACTIVITY_KERNEL, .name = 1},
                                {.kind = DL_ACTIVITY_RANGE, .name = 2},
                                {.kind = DL_ACTIVITY_KERNEL, .name = 3},
                                {.kind = DL_ACTIVITY_KERNEL, .name = 9},
                                {.kind = DL_ACTIVITY_KERNEL, .name = 1}};
    DL_AUTOFREE uint8_t *classes = dl_kernel_classes(&(dl_trace){
        .activities = activities, .activity_count = 5, .strings = strings, .string_count = 4});
    const uint8_t expected[] = {DL_KERNEL_OTHER, DL_KERNEL_GEMM, DL_KERNEL_OTHER,
                                DL_KERNEL_SOFTMAX};
    assert_memory_equal(classes, expected, sizeof expected);
}

static void assert_told(const char *name, const char *collective, const char *type)
{
    dl_kernel_collective told = {0};
    assert_true(dl_kernel_tell_collective(name, &told));
    assert_string_equal(told.collective, collective);
    assert_string_equal(told.type, type);
}

static void test_collectives(void **state DL_UNUSED)
{
    assert_told("_Z39ncclDevKernel_AllReduce_Sum_f32_RING_LL24ncclDevKernelArgsStorageILm4096EE",
                "AllReduce", "float32");
    assert_told("_Z45ncclDevKernel_ReduceScatter_MinMax_u8_RING_LL24ncclDevKernelArgs",
                "ReduceScatter", "uint8");
    assert_told("ncclDevKernel_Reduce_SumPostDiv_i64_RING_LL(ncclDevKernelArgs)", "Reduce",
                "int64");
    assert_told("ncclKernel_AllReduce_TREE_LL_Sum___nv_bfloat16(ncclWorkElem)", "AllReduce",
                "bfloat16");
    assert_told("ncclKernel_AllReduce_RING_LL_Sum_double(ncclWorkElem)", "AllReduce", "float64");
    assert_told("ncclAllReduceRingLLKernel_sum_f16(ncclColl)", "AllReduce", "float16");
    assert_told("_Z50ncclSymkDevKernel_AllReduce_RSxLD_AGxST_sum_f8e4m321ncclSymkDevWorkArgs4K",
                "AllReduce", "float8e4m3");
    assert_told("_Z42ncclSymkDevKernel_ReduceScatter_LD_sum_f3221ncclSymkDevWorkArgs4K",
                "ReduceScatter", "float32");
    /* They move bytes, whatever type the name contains. */
    assert_told("ncclKernel_SendRecv_RING_SIMPLE_Sum_int8_t(ncclWorkElem)", "SendRecv", "");
    assert_told("ncclKernel_Broadcast_RING_LL_Sum_int8_t(ncclWorkElem)", "Broadcast", "");
    assert_told("_Z31ncclDevKernel_AllGather_RING_LL24ncclDevKernelArgsStorageILm4096EE",
                "AllGather", "");
    assert_told("ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)", "", "");
    /* RCCL has one kernel for all collectives; DeepEP and NVSHMEM name theirs. */
    assert_told("ncclDevKernel_Generic_1(ncclDevKernelArgsStorage<4096ul>)", "", "");
    assert_told("void deep_ep::internode::dispatch<false, 8, 24576, false>(int4*, float*)",
                "AlltoAll", "");
    assert_told("_ZN7deep_ep9intranode7combineI13__nv_bfloat16Li8ELi768ELi4096EEEvPT_Pf",
                "AlltoAll", "");
    assert_told("void deep_ep::intranode::notify_dispatch<8>(int const*, int*)", "", "");
    assert_told("void nvshmemi_alltoall_kernel<float>(int, float*, float const*)", "AlltoAll", "");
    assert_told("void nvshmemi_fcollect_kernel<int>(int, int*, int const*)", "AllGather", "");
    assert_told("nvshmemi_init_array_kernel(int*)", "", "");
    dl_kernel_collective told = {"kept", "kept"};
    assert_false(dl_kernel_tell_collective("volta_sgemm_64x64_nt", &told));
    assert_string_equal(told.collective, "kept");
}

static void test_rules_of_the_user(void **state DL_UNUSED)
{
    static const dl_kernel_rule rules[] = {{"^my_exchange*ring|token_shuffle", "AllGather"},
                                           {"deep_ep", "Broadcast"}};
    dl_kernel_collective told = {0};
    assert_false(is_collective("my_exchange_ring_f32"));
    dl_kernel_use_rules(rules, 2);
    assert_true(is_collective("my_exchange_ring_f32"));
    assert_true(is_collective("void x::token_shuffle<4>()"));
    assert_false(is_collective("not_my_exchange_ring"));
    assert_true(dl_kernel_tell_collective("my_exchange_ring_f32", &told));
    assert_string_equal(told.collective, "AllGather");
    assert_true(dl_kernel_tell_collective("deep_ep::internode::dispatch", &told));
    assert_string_equal(told.collective, "Broadcast"); /* precedes the built-in rules */
    dl_kernel_use_rules(NULL, 0);
    assert_false(is_collective("my_exchange_ring_f32"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_classes),     cmocka_unit_test(test_pattern_order),
        cmocka_unit_test(test_class_names), cmocka_unit_test(test_table_by_id),
        cmocka_unit_test(test_collectives), cmocka_unit_test(test_rules_of_the_user),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
