/* dlprof run: profiles an unmodified program through a library that CUDA and NVTX load into it, and
 * training with PyTorch on processors through PyTorch's profiler. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/alloc.h"
#include "common/install.h"
#include "common/json.h"
#include "common/options.h"
#include "common/output.h"
#include "common/units.h"
#include "profiler/bench/overhead.h"
#include "profiler/commands.h"
#include "profiler/inject/settings.h"
#include "profiler/run/run_traces.h"
#include "profiler/run/target.h"

/* The command line. */
typedef struct run_options {
    dl_capture_settings capture;
    const char *output, *overhead, *summary, *json;
    bool nccl_plugin, no_torch, force, quiet;
    char **command; /* NULL-ended; borrowed from argv */
} run_options;

/* State of one run. */
typedef struct profiled_run {
    const run_options *options;
    dl_capture_settings capture;
    char *folder, *cost;     /* texts that `capture` points to */
    char *library;           /* path of the injected library; NULL = none */
    char *torch;             /* folder of the recorder of PyTorch on processors; NULL = unused */
    dl_error no_library;     /* why `library` is NULL */
    bool made_folder;        /* created by dlprof, not by the user */
    bool has_folder;         /* the folder is claimed: dl_run_release releases it */
    dl_output summary, json; /* {0} = not requested */
    dl_target_end end;
    dl_run_traces traces;
} profiled_run;

static const dl_option own_options[] = {
    DL_OPTION_ROW_TEXT("output", 'o', run_options, output, "FOLDER",
                       "Folder for the traces, created if missing (default: "
                       "dlprof.<command>.<time>).",
                       .group = "Output"),
    DL_OPTION_ROW_FLAG("nccl-plugin", 0, run_options, nccl_plugin,
                       "Also record what NCCL reports to a profiler plugin.", .group = "Recording"),
    DL_OPTION_ROW_FLAG("no-torch", 0, run_options, no_torch,
                       "Do not record training with PyTorch on processors (by default, 20 steps "
                       "after 15 are recorded, unless --steps or --duration are given)."),
    DL_OPTION_ROW_TEXT("overhead", 0, run_options, overhead, "FILE",
                       "Costs of recording, from dlprof bench overhead, to store in the traces "
                       "(default: ~/.local/share/dlprof/overhead.dlt, if it is of this machine)."),
    DL_OPTION_ROW_FLAG("force", 'f', run_options, force,
                       "Replace the settings of another profiler in the environment."),
    DL_OPTION_ROW_TEXT("summary", 0, run_options, summary, "FILE",
                       "Write the summary to a file instead of standard error.", .group = "Output"),
    DL_OPTION_ROW_TEXT("json", 0, run_options, json, "FILE", "Also write the summary as JSON."),
    DL_OPTION_ROW_FLAG("quiet", 'q', run_options, quiet,
                       "Print only errors and gaps in the traces."),
};

enum {
    OWN_OPTION_COUNT = DL_LENGTH(own_options),
    OPTION_COUNT = OWN_OPTION_COUNT + DL_CAPTURE_OPTION_COUNT
};

static dl_status open_report(const char *path, dl_output *output, dl_error *err)
{
    return path != NULL ? dl_output_open(output, path, err) : DL_OK;
}

static dl_status close_report(dl_output *output, dl_error *err)
{
    return output->out != NULL ? dl_output_close(output, err) : DL_OK;
}

/* Checks the report files; the folder of the traces, in which they may lie, must exist already. */
static dl_status check_reports(const run_options *options, dl_error *err)
{
    const dl_file_role reports[] = {{"--summary", options->summary}, {"--json", options->json}};
    const dl_file_role overhead = {"--overhead", options->overhead};
    return dl_outputs_check(reports, 2, &overhead, 1, err);
}

/* Creates the folder, and sets the variables by which the target's processes record into it. */
static dl_status set_up_recording(profiled_run *run, dl_error *err)
{
    const run_options *options = run->options;
    const dl_status status =
        dl_run_folder(options->output, options->command[0], &run->folder, &run->made_folder, err);
    run->has_folder = status == DL_OK;
    if (status != DL_OK) return status;
    run->capture.output = run->folder;
    if (run->torch != NULL) dl_run_python_path(run->torch);
    return dl_run_environment(run->library, &run->capture, options->nccl_plugin, options->force,
                              err);
}

/* Finds the recorder of PyTorch on processors, if wanted and installed. */
static void find_torch(profiled_run *run)
{
    if (run->options->no_torch) return;
    run->torch = dl_share_path("torch");
    DL_AUTOFREE char *file = dl_format("%s/sitecustomize.py", run->torch);
    if (access(file, R_OK) != 0) {
        free(run->torch);
        run->torch = NULL;
    }
}

/* Prepares everything before the target starts, so that wrong options and files fail here. */
static dl_status prepare(profiled_run *run, dl_error *err)
{
    const run_options *options = run->options;
    run->capture = options->capture;
    dl_status status = dl_capture_settings_check(&run->capture, DL_SETTING_OPTION, err);
    if (status != DL_OK) return err->code = DL_ERR_USAGE;
    status = dl_overhead_file_cost(options->overhead, run->capture.preset, &run->cost, err);
    if (status != DL_OK) return status;
    run->capture.cost = run->cost;
    find_torch(run);
    const bool injects =
        dl_library_path(DL_INJECTED_LIBRARY, &run->library, &run->no_library) == DL_OK;
    if (injects || run->torch != NULL) status = set_up_recording(run, err);
    if (status == DL_OK) status = check_reports(options, err);
    if (status == DL_OK) status = open_report(options->summary, &run->summary, err);
    if (status == DL_OK) status = open_report(options->json, &run->json, err);
    return status;
}

/* Says why this machine or build may show no CUDA; ends the line. */
static void say_driver(const profiled_run *run)
{
    if (!dl_run_library_exports(run->library, DL_CUDA_ENTRY)) {
        fprintf(stderr, ": this build was made without CUPTI and cannot record CUDA\n");
    } else if (access("/proc/driver/nvidia/version", F_OK) != 0) {
        fprintf(stderr, " (there is no sign of an NVIDIA driver on this machine)\n");
    } else {
        fputc('\n', stderr);
    }
}

/* Whether a process reports trouble: a log, a lost activity, a trace that ends early. */
static bool any_trouble(const dl_run_traces *traces)
{
    for (size_t i = 0; i < traces->count; i++) {
        const dl_run_process *process = &traces->processes[i];
        if (process->log != NULL || process->lost > 0 || !process->complete) return true;
    }
    return false;
}

/* Reports that the traces contain no work of a device. */
static void say_no_device(const profiled_run *run)
{
    fprintf(stderr, "dlprof run: no GPU work was recorded");
    if (any_trouble(&run->traces)) {
        fprintf(stderr, "; the summary says more\n");
    } else {
        fprintf(stderr, ", only what the command marks with NVTX");
        say_driver(run);
    }
}

/* Says why there is no injected library; ends the line. */
static void say_no_library(const dl_error *why)
{
    if (why->code == DL_ERR_UNSUPPORTED) {
        fprintf(stderr, "this build has no %s beside the program (CUDA's CUPTI was missing): ",
                DL_INJECTED_LIBRARY);
    }
    fprintf(stderr, "%s%s%s\n", why->file, why->file[0] != '\0' ? ": " : "", why->text);
}

/* Reports why there are no traces, as far as it can be seen from outside. */
static void say_no_trace(const profiled_run *run)
{
    fprintf(stderr, "dlprof run: no trace: ");
    if (run->traces.count > 0) {
        fprintf(stderr, "the processes report\n");
        dl_run_traces_print(&run->traces, stderr);
        return;
    }
    if (run->library == NULL) {
        say_no_library(&run->no_library);
    } else {
        fprintf(stderr,
                "no CUDA activity seen: the command loaded no libcuda and marked no NVTX range");
        say_driver(run);
    }
    if (run->torch != NULL && run->end.signal != 0) {
        fprintf(stderr,
                "dlprof run: the command was killed by SIG%s: steps of PyTorch on the processor, "
                "which are written after the last recorded one or at the program's end, are lost "
                "if there were any\n",
                sigabbrev_np(run->end.signal));
    } else if (run->torch != NULL) {
        fprintf(stderr, "dlprof run: PyTorch ran no backward pass and no optimizer update on the "
                        "processor either; the steps of another loop can be recorded with "
                        "torch.profiler, for dlcal costs\n");
    }
}

/* Largest share of the processors' time that other programs and the host may take without a
 * warning, if training on processors was recorded. */
#define DISTURBED_FRAC 0.1

static void say_disturbed(const profiled_run *run, FILE *out)
{
    const dl_cpu_disturbance *d = &run->end.disturbed;
    if (run->traces.torch_count == 0 || !(d->others_frac + d->steal_frac > DISTURBED_FRAC)) return;
    fprintf(out, "dlprof run: other programs used %.0f %% of the processors meanwhile, ",
            100 * d->others_frac);
    if (d->steal_frac > 0.005) fprintf(out, "the host took %.0f %%, ", 100 * d->steal_frac);
    fprintf(out, "so that steps are longer, and vary: record again when the machine is idle\n");
}

static void print_summary(const profiled_run *run, FILE *out)
{
    fprintf(out, "dlprof run: %s ran %.2f s", run->options->command[0],
            dl_ns_to_s((double)run->end.elapsed_ns));
    if (run->end.signal != 0) {
        fprintf(out, " and was killed by SIG%s", sigabbrev_np(run->end.signal));
    } else if (run->end.exit_code != 0) {
        fprintf(out, " and failed with exit code %d", run->end.exit_code);
    }
    fprintf(out, "; %zu %s in %s\n", run->traces.trace_count,
            run->traces.trace_count == 1 ? "trace" : "traces", run->capture.output);
    say_disturbed(run, out);
    if (run->traces.device_process_count > 0 &&
        !dl_run_library_exports(run->library, DL_NVTX_ENTRY)) {
        fputs("dlprof run: no ranges of NVTX and no sizes of NCCL's collectives are recorded, as "
              "this "
              "build\nfound no NVTX headers of CUDA 13\n",
              out);
    }
    dl_run_traces_print(&run->traces, out);
}

static void write_json(const profiled_run *run, FILE *out)
{
    dl_json json = {out, false}, *to = &json;
    dl_json_begin(to, NULL, '{');
    dl_json_begin(to, "command", '[');
    for (char *const *word = run->options->command; *word != NULL; word++)
        dl_json_text_item(to, NULL, *word);
    dl_json_end(to, ']');
    dl_json_members(
        to, "exit_code=%d signal=%d elapsed_s=%g others_frac=%g steal_frac=%g folder=%s",
        run->end.exit_code, run->end.signal, dl_ns_to_s((double)run->end.elapsed_ns),
        run->end.disturbed.others_frac, run->end.disturbed.steal_frac, run->capture.output);
    dl_run_traces_write_json(&run->traces, to);
    dl_json_end(to, '}');
    fputc('\n', out);
}

/* If traces are missing or incomplete, reports a folder that cannot be written; the recording
 * processes could not log that. */
static void say_full(const profiled_run *run)
{
    dl_error full = {0};
    if (!run->has_folder || dl_run_writable(run->capture.output, &full) == DL_OK) return;
    if (run->traces.trace_count > 0 && !any_trouble(&run->traces)) return;
    dl_error_print(&full, "dlprof run", stderr);
}

static dl_status report(profiled_run *run, dl_error *err)
{
    const run_options *options = run->options;
    dl_status status = DL_OK;
    if (run->has_folder) {
        status = dl_run_traces_collect(&run->traces, run->capture.output, err);
    }
    if (status != DL_OK) return status;
    if (run->traces.trace_count == 0) {
        say_no_trace(run);
    } else if (!options->quiet && run->traces.device_process_count == 0 &&
               run->traces.torch_count == 0) {
        say_no_device(run);
    }
    if (run->summary.out != NULL) {
        print_summary(run, run->summary.out);
    } else if (!options->quiet && run->traces.trace_count > 0) {
        print_summary(run, stderr);
    } else if (run->traces.trace_count > 0) {
        dl_run_traces_print_troubles(&run->traces, stderr);
    }
    say_full(run);
    if (run->json.out != NULL) write_json(run, run->json.out);
    status = close_report(&run->summary, err);
    if (status == DL_OK) status = close_report(&run->json, err);
    return status;
}

static void free_run(profiled_run *run)
{
    dl_output_abandon(&run->summary);
    dl_output_abandon(&run->json);
    dl_run_traces_free(&run->traces);
    free(run->library);
    free(run->torch);
    free(run->folder);
    free(run->cost);
}

/* Returns the target's exit code even if the report fails; dlprof's own if the target did not
 * run. */
static int profile(const run_options *options, const char *program)
{
    dl_error err = {0};
    profiled_run run = {.options = options};
    dl_status status = prepare(&run, &err);
    int exit_code = dl_status_exit_code(status);
    if (status == DL_OK) {
        status = dl_target_run(options->command, &run.end, &err);
        exit_code = run.end.exit_code;
        signal(SIGPIPE, SIG_IGN); /* a closed pipe must not replace the target's exit code */
        if (status == DL_OK) status = report(&run, &err);
    }
    if (run.has_folder) dl_run_release(run.capture.output);
    if (run.made_folder && run.traces.count == 0) rmdir(run.capture.output);
    if (status != DL_OK) dl_error_print(&err, program, stderr);
    free_run(&run);
    return exit_code;
}

int dl_cmd_run(int argc, char **argv)
{
    run_options options = {.capture = dl_capture_settings_default()};
    dl_option table[OPTION_COUNT];
    dl_options_bind(table, own_options, OWN_OPTION_COUNT, &options);
    dl_capture_options(&options.capture, table + OWN_OPTION_COUNT);
    const dl_command command = {
        .program = argv[0],
        .positional = "[--] COMMAND...",
        .summary = "Run a command, unchanged, and record its and its children's use of CUDA, NVTX "
                   "marks and training with PyTorch on processors. The exit code is the command's.",
        .options = table,
        .option_count = OPTION_COUNT,
        .positional_max = SIZE_MAX,
        .runs_program = true,
    };
    DL_SCOPED(dl_text_list) positional = {0};
    dl_options_action action = DL_OPTIONS_RUN;
    dl_error err = {0};
    /* Settings from the environment are the defaults. */
    dl_status status = dl_capture_settings_from_environment(&options.capture, environ, &err);
    if (status != DL_OK) {
        status = err.code = DL_ERR_USAGE;
    } else {
        status = dl_options_parse(&command, argc, argv, &positional, &action, &err);
    }
    if (status == DL_OK && action == DL_OPTIONS_RUN && positional.count == 0) {
        status = dl_error_set(&err, DL_ERR_USAGE, "the command to run must follow the options");
    }
    options.command = argv + (argc - (int)positional.count); /* the command is at the end of argv */
    if (status != DL_OK) {
        dl_error_print(&err, argv[0], stderr);
        return dl_status_exit_code(status);
    }
    return action == DL_OPTIONS_RUN ? profile(&options, argv[0]) : 0;
}
