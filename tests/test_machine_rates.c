#include "profiler/machine_rates.h"

#include "tests/check.h"

/* Published rates, in Tflop/s and GB/s, of cards from their number of cores and clocks as the
 * driver reports them; 0 where the data sheet has none. */
static void rates_are_those_of_the_data_sheets(void **state)
{
    (void)state;
    static const struct {
        dl_box_gpu gpu;
        double fp32, fp16, tf32, memory;
    } cards[] = {
        {{.name = "Tesla P100-SXM2-16GB",
          .major = 6,
          .cores = 3584,
          .clock_hz = 1.48e9,
          .memory_clock_hz = 715e6,
          .memory_bus_bits = 4096},
         10.6,
         21.2,
         0,
         732},
        {{.name = "NVIDIA GeForce GTX 1080 Ti",
          .major = 6,
          .minor = 1,
          .cores = 3584,
          .clock_hz = 1.582e9,
          .memory_clock_hz = 5.505e9,
          .memory_bus_bits = 352},
         11.34,
         0,
         0,
         484},
        {{.name = "Tesla V100-SXM2-16GB",
          .major = 7,
          .cores = 5120,
          .clock_hz = 1.53e9,
          .memory_clock_hz = 877e6,
          .memory_bus_bits = 4096},
         15.7,
         125,
         0,
         900},
        {{.name = "Tesla T4",
          .major = 7,
          .minor = 5,
          .cores = 2560,
          .clock_hz = 1.59e9,
          .memory_clock_hz = 5.001e9,
          .memory_bus_bits = 256},
         8.1,
         65,
         0,
         320},
        {{.name = "NVIDIA A100-SXM4-40GB",
          .major = 8,
          .cores = 6912,
          .clock_hz = 1.41e9,
          .memory_clock_hz = 1.215e9,
          .memory_bus_bits = 5120},
         19.5,
         312,
         156,
         1555},
        {{.name = "NVIDIA A10",
          .major = 8,
          .minor = 6,
          .cores = 9216,
          .clock_hz = 1.695e9,
          .memory_clock_hz = 6.251e9,
          .memory_bus_bits = 384},
         31.2,
         125,
         62.5,
         600},
        {{.name = "NVIDIA GeForce RTX 3090",
          .major = 8,
          .minor = 6,
          .cores = 10496,
          .clock_hz = 1.695e9,
          .memory_clock_hz = 9.751e9,
          .memory_bus_bits = 384},
         35.6,
         71,
         35.6,
         936},
    };
    for (size_t i = 0; i < sizeof cards / sizeof *cards; i++) {
        const dl_gpu_rates rates = dl_gpu_rates_find(&cards[i].gpu);
        const double found[] = {rates.fp32_flop_per_s / 1e12, rates.fp16_flop_per_s / 1e12,
                                rates.tf32_flop_per_s / 1e12, rates.memory_bytes_per_s / 1e9};
        const double published[] = {cards[i].fp32, cards[i].fp16, cards[i].tf32, cards[i].memory};
        for (int k = 0; k < 4; k++)
            assert_float_equal((float)found[k], (float)published[k], (float)(0.01 * published[k]));
    }
}

static void unknown_figures_give_no_rates(void **state)
{
    (void)state;
    const dl_gpu_rates none =
        dl_gpu_rates_find(&(dl_box_gpu){.cores = 6912, .memory_clock_hz = 1e9});
    assert_true(none.fp32_flop_per_s <= 0 && none.memory_bytes_per_s <= 0);
    const dl_gpu_rates strange =
        dl_gpu_rates_find(&(dl_box_gpu){.major = 99, .cores = 1000, .clock_hz = 1e9});
    assert_true(strange.fp32_flop_per_s > 0 && strange.fp16_flop_per_s <= 0);
}

/* A GTX 1660 has compute capability 7.5, but no tensor cores. */
static void cards_without_tensor_cores_are_known(void **state)
{
    (void)state;
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
        cmocka_unit_test(unknown_figures_give_no_rates),
        cmocka_unit_test(cards_without_tensor_cores_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
