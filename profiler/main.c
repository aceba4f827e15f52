/* dlprof: profiles real training and this machine's costs of exchange. */
#include "common/cpu.h"
#include "common/options.h"
#include "common/output.h"
#include "profiler/commands.h"

static const dl_manual manual = {
    .title = "profile the training of neural networks and the machine below it",
    .description =
        "Trains a network for real and records every operation, copy, average and wait; measures "
        "the costs of copies, averaging, barriers and shared cores on this machine; or records "
        "another program's use of CUDA, NVTX and PyTorch. dlcal(1) reads its traces.",
    .exit_codes =
        (const dl_manual_item[]){
            {"130, 143",
             "train or bench was stopped by Ctrl-C (130) or SIGTERM (143); the trace until then "
             "is written."},
            {"any other", "For run: the exit code of the recorded program; 128 plus the number "
                          "of the signal that killed it, 126 or 127 if it could not be started."},
            {NULL, NULL}},
    .environment =
        (const dl_manual_item[]){
            {"DL_DATA", "Folder of the data sets, which contains mnist, ...; ./data if not set."},
            {"DLPROF_PRESET, DLPROF_STEPS, ...",
             "Defaults of the options of run, with their names in capitals. run passes its "
             "options on in them, so that all processes that the program starts are recorded in "
             "the same way."},
            {"TMPDIR", "Folder in which bench overhead records; /tmp if not set."},
            {"XDG_DATA_HOME", "Folder in place of ~/.local/share."},
            {NULL, NULL}},
    .files =
        (const dl_manual_item[]){
            {"~/.local/share/dlprof/overhead.dlt",
             "Costs of recording on this machine (bench overhead), stored in the traces of run."},
            {"lib/dlscale/libdlprof_inject.so",
             "In the folder of the installation: the library that run has CUDA and NVTX load into "
             "the program."},
            {NULL, NULL}},
    .see_also = "dlcal(1), dlsim(1), dlscale-machine(5)",
};

int main(int argc, char **argv)
{
    static const dl_subcommand commands[] = {
        {"train", "Train a model for real, and record every operation.", dl_cmd_train},
        {"bench", "Measure the costs of exchange and of shared cores or GPUs on this machine.",
         dl_cmd_bench},
        {"run", "Record an unchanged program: CUDA, NVTX, PyTorch.", dl_cmd_run},
        {"info", "Summarize traces: steps and their parts, throughput, staleness.", dl_cmd_info},
        {"machine", "Write a machine file for dlsim from this machine's hardware.", dl_cmd_machine},
        {"export", "Write a trace as Chrome-trace JSON, for Perfetto.", dl_cmd_export},
    };
    dl_output_start();
    dl_cpu_flush_subnormals();
    return dl_subcommands_main("dlprof", "Profile data-parallel training and the machine below it.",
                               commands, sizeof commands / sizeof commands[0], &manual, argc, argv);
}
