#include "tests/check.h"

#include <stdio.h>
#include <stdlib.h>

#include "trace/activity/demangle.h"

static void assert_short(const char *name, const char *expected)
{
    DL_AUTOFREE char *text = dl_demangle_short(name);
    assert_string_equal(text, expected);
}

static void test_mangled(void **state DL_UNUSED)
{
    assert_short("_Z13splitK_kernelIfLi4EEvPT_i", "splitK_kernel");
    assert_short("_ZN5cudnn3ops16nchwToNhwcKernelIffEEvPT_", "cudnn::ops::nchwToNhwcKernel");
    assert_short("_ZN2at6native12_GLOBAL__N_116softmax_warp_bwdIfEEvPT_",
                 "at::native::softmax_warp_bwd");
    /* A generic kernel is followed by its functor: of <4, at::native::AddFunctor<float>> not the
     * 4. */
    assert_short("_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_10AddFunctorIfEEEEviT0_",
                 "at::native::vectorized_elementwise_kernel<AddFunctor>");
}

static void test_demangled(void **state DL_UNUSED)
{
    assert_short("void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, 2>(float*)",
                 "at::native::CatArrayBatchedCopy");
    assert_short("void (anonymous namespace)::softmax_warp_forward<float, 10, true>(float*)",
                 "softmax_warp_forward");
    assert_short("void at::native::<unnamed>::vectorized_layer_norm_kernel<float>(int)",
                 "at::native::vectorized_layer_norm_kernel");
    assert_short("std::enable_if<!(false), void>::type internal::gemvx::kernel<int, float>(int)",
                 "internal::gemvx::kernel");
    assert_short("ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)",
                 "ncclKernel_AllReduce_RING_LL_Sum_float");
    assert_short(
        "void reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::func_wrapper_t"
        "<float, at::native::sum_functor<float>::operator()(int)::{lambda(float)#1}> > >()",
        "reduce_kernel<sum_functor>");
    assert_short("void cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x64_16x6_nt>(int)",
                 "cutlass::Kernel<cutlass_80_tensorop_s1688gemm_128x64_16x6_nt>");
    assert_short("void elementwise_kernel<128, 2, void gpu_kernel_impl_nocast<BinaryFunctor<c10::"
                 "Half, float, MulFunctor<float>>>(at::TensorIteratorBase&)::{lambda(int)#1}>(int)",
                 "elementwise_kernel<MulFunctor>");
    assert_short("void reduce_kernel<(int)128, float>(int)", "reduce_kernel");
}

/* Names other than C++ names stay unchanged; broken names are kept as far as readable. */
static void test_others(void **state DL_UNUSED)
{
    assert_short("", "");
    assert_short("volta_sgemm_64x64_nt", "volta_sgemm_64x64_nt");
    assert_short("(x)", "(x)");
    assert_short("_Z", "_Z");
    assert_short("_Z!", "_Z!");
    assert_short("f<int(", "f");
    assert_short("f<(", "f");
    /* Truncated after the second identifier, and within it. */
    assert_short("_ZN2ck12_GLOBAL__N_16kernelINS_", "ck::kernel");
    assert_short("_ZN2ck99kernel", "ck");
}

/* 90 letters after two namespaces: these are removed first, then the middle: 39 + 2 + 39 remain. */
static void test_long(void **state DL_UNUSED)
{
    char letters[91] = "", name[128], expected[DL_SHORT_NAME_CHARS + 1];
    memset(letters, 'a', 45);
    memset(letters + 45, 'b', 45);
    snprintf(name, sizeof name, "first::second::%s", letters);
    snprintf(expected, sizeof expected, "%.39s..%s", letters, letters + 51);
    assert_short(name, expected);
    /* 70 letters: without "first::" the rest, 8 + 70, fits. */
    snprintf(name, sizeof name, "first::second::%.70s", letters);
    assert_short(name, name + strlen("first::"));
}

static void test_cut(void **state DL_UNUSED)
{
    char text[] = "abcdefghij";
    dl_cut_middle(text, 10);
    assert_string_equal(text, "abcdefghij");
    dl_cut_middle(text, 9);
    assert_string_equal(text, "abcd..hij");
    dl_cut_middle(text, 4);
    assert_string_equal(text, "a..j");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mangled), cmocka_unit_test(test_demangled),
        cmocka_unit_test(test_others),  cmocka_unit_test(test_long),
        cmocka_unit_test(test_cut),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
