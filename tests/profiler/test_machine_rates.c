#include "profiler/machine/machine_box.h"

#include "tests/check.h"

#include <math.h>

/* The driver's reports on a card, and the rates of its data sheet; 0 where it gives none, or
 * (memory) rounds too much. */
static const struct {
    const char *name;
    int major, minor, cores;
    double clock_hz, memory_clock_hz;
    int memory_bus_bits;
    double published[4]; /* FP32, FP16 and TF32 in Tflop/s, memory in GB/s */
} cards[] = {
    {"Tesla P100-SXM2-16GB", 6, 0, 3584, 1.48e9, 715e6, 4096, {10.6, 21.2, 0, 732}},
    {"NVIDIA GeForce GTX 1080 Ti", 6, 1, 3584, 1.582e9, 5.505e9, 352, {11.34, 0, 0, 484}},
    {"Tesla V100-SXM2-16GB", 7, 0, 5120, 1.53e9, 877e6, 4096, {15.7, 125, 0, 900}},
    {"Tesla T4", 7, 5, 2560, 1.59e9, 5.001e9, 256, {8.1, 65, 0, 320}},
    {"NVIDIA A100-SXM4-40GB", 8, 0, 6912, 1.41e9, 1.215e9, 5120, {19.5, 312, 156, 1555}},
    {"NVIDIA A10", 8, 6, 9216, 1.695e9, 6.251e9, 384, {31.2, 125, 62.5, 600}},
    {"NVIDIA GeForce RTX 3090", 8, 6, 10496, 1.695e9, 9.751e9, 384, {35.6, 71, 35.6, 936}},
    {"NVIDIA H100 80GB HBM3", 9, 0, 16896, 1.98e9, 2.619e9, 5120, {67, 989, 494.5, 3350}},
    {"NVIDIA H100 PCIe", 9, 0, 14592, 1.755e9, 0, 5120, {51, 756, 378, 0}},
    {"NVIDIA H200", 9, 0, 16896, 1.98e9, 0, 6144, {67, 989, 494.5, 0}},
};

static void rates_are_those_of_the_data_sheets(void **state DL_UNUSED)
{
    for (size_t i = 0; i < sizeof cards / sizeof *cards; i++) {
        dl_box_gpu gpu = {.major = cards[i].major,
                          .minor = cards[i].minor,
                          .cores = cards[i].cores,
                          .clock_hz = cards[i].clock_hz,
                          .memory_clock_hz = cards[i].memory_clock_hz,
                          .memory_bus_bits = cards[i].memory_bus_bits};
        strcpy(gpu.name, cards[i].name);
        const dl_gpu_rates rates = dl_gpu_rates_find(&gpu);
        const double found[] = {rates.fp32_flop_per_s / 1e12, rates.fp16_flop_per_s / 1e12,
                                rates.tf32_flop_per_s / 1e12, rates.memory_bytes_per_s / 1e9};
        for (int k = 0; k < 4; k++) {
            const double published = cards[i].published[k];
            if (!(fabs(found[k] - published) <= 0.01 * published))
                fail_msg("%s: rate %d is %g, not %g", gpu.name, k, found[k], published);
        }
    }
}

/* Twice fp16's rate, where fp8 exists: 1979 Tflop/s on an H100 SXM (its data sheet). */
static void fp8_is_there_from_ada_and_hopper_on(void **state DL_UNUSED)
{
    const dl_box_gpu a100 = {.major = 8, .cores = 6912, .clock_hz = 1.41e9};
    const dl_box_gpu h100 = {.major = 9, .cores = 16896, .clock_hz = 1.98e9};
    assert_true(dl_gpu_rates_find(&a100).fp8_flop_per_s <= 0);
    assert_true(fabs(dl_gpu_rates_find(&h100).fp8_flop_per_s / 1979e12 - 1) < 0.01);
}

static void unknown_figures_give_no_rates(void **state DL_UNUSED)
{
    const dl_gpu_rates none =
        dl_gpu_rates_find(&(dl_box_gpu){.cores = 6912, .memory_clock_hz = 1e9});
    assert_true(none.fp32_flop_per_s <= 0 && none.memory_bytes_per_s <= 0);
    const dl_gpu_rates strange =
        dl_gpu_rates_find(&(dl_box_gpu){.major = 99, .cores = 1000, .clock_hz = 1e9});
    assert_true(strange.fp32_flop_per_s > 0 && strange.fp16_flop_per_s <= 0);
}

/* A GTX 1660 has compute capability 7.5, but no tensor cores. */
static void cards_without_tensor_cores_are_known(void **state DL_UNUSED)
{
    dl_box_gpu card = {.name = "NVIDIA GeForce GTX 1660",
                       .major = 7,
                       .minor = 5,
                       .cores = 1408,
                       .clock_hz = 1.785e9};
    assert_true(dl_gpu_rates_find(&card).fp16_flop_per_s <= 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rates_are_those_of_the_data_sheets),
        cmocka_unit_test(fp8_is_there_from_ada_and_hopper_on),
        cmocka_unit_test(unknown_figures_give_no_rates),
        cmocka_unit_test(cards_without_tensor_cores_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
