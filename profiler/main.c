/* dlprof: profiles real training and this machine's costs of exchange. */
#include "common/cpu.h"
#include "common/options.h"
#include "common/output.h"
#include "profiler/commands.h"

int main(int argc, char **argv)
{
    static const dl_subcommand commands[] = {
        {"train", "train a model for real and record what its workers do", dl_cmd_train},
        {"bench", "measure what exchange and sharing cost on this machine", dl_cmd_bench},
        {"run", "profile an unchanged program that uses CUDA or NVTX", dl_cmd_run},
        {"info", "summarise traces: steps, their split, throughput, staleness", dl_cmd_info},
        {"machine", "write a machine file for dlsim from this machine's hardware", dl_cmd_machine},
        {"export", "write a trace as Chrome-trace JSON for Perfetto", dl_cmd_export},
    };
    dl_output_start();
    dl_cpu_flush_subnormals();
    return dl_subcommands_main("dlprof", "Profile data-parallel training and the machine below it.",
                               commands, sizeof commands / sizeof commands[0], argc, argv);
}
