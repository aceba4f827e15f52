/* The sub-commands of dlcal. argv[0] is "dlcal NAME"; each returns the exit status. */
#ifndef DL_CALIBRATE_COMMANDS_H
#define DL_CALIBRATE_COMMANDS_H

int dl_calibrate_costs(int argc, char **argv); /* a cost file from one rank's traces */
int dl_calibrate_generators(int argc,
                            char **argv);      /* of reinforcement learning, from parts of steps */
int dl_calibrate_info(int argc, char **argv);  /* sums up traces of other profilers */
int dl_calibrate_links(int argc, char **argv); /* times of copies and collectives by size */
int dl_calibrate_predict(int argc, char **argv); /* modelled collectives in a trace */
int dl_calibrate_replay(int argc, char **argv);  /* times traces again by their dependencies */
int dl_calibrate_shapes(int argc, char **argv);  /* times of matrix products by shape */
int dl_calibrate_table(int argc, char **argv);   /* fits costs to measured throughputs */

#endif
