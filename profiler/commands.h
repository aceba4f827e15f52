/* The sub-commands of dlprof. Each parses its command line (argv[0] is "dlprof NAME"), does its
 * work, prints errors to stderr, and returns the exit status: 0, 1 (the run failed) or 2 (usage);
 * train and bench return dl_interrupt_exit_code if they were stopped; dl_cmd_run returns the status
 * of the command that it ran. */
#ifndef DL_PROFILER_COMMANDS_H
#define DL_PROFILER_COMMANDS_H

int dl_cmd_train(int argc, char **argv);
int dl_cmd_bench(int argc, char **argv);
int dl_cmd_bench_shapes(int argc, char **argv); /* argv[0] is "dlprof bench shapes" */
int dl_cmd_run(int argc, char **argv);
int dl_cmd_info(int argc, char **argv);
int dl_cmd_machine(int argc, char **argv);
int dl_cmd_export(int argc, char **argv);

#endif
