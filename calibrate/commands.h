/* The sub-commands of dlcal. argv[0] is "dlcal NAME"; each returns the exit status. */
#ifndef DL_CALIBRATE_COMMANDS_H
#define DL_CALIBRATE_COMMANDS_H

int dl_calibrate_costs(int argc, char **argv);      /* writes a cost file from one rank's traces */
int dl_calibrate_generators(int argc, char **argv); /* fits generators and trainers of RL */
int dl_calibrate_info(int argc, char **argv);       /* summarizes traces of other profilers */
int dl_calibrate_links(int argc, char **argv);   /* fits times of copies and collectives by size */
int dl_calibrate_predict(int argc, char **argv); /* predicts steps with modelled collectives */
int dl_calibrate_replay(int argc, char **argv);  /* replays traces by their dependencies */
int dl_calibrate_shapes(int argc, char **argv);  /* fits times of matrix products by shape */
int dl_calibrate_table(int argc, char **argv);   /* fits costs to measured throughputs */

#endif
