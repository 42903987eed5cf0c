/* The settings of the simulated node: text files of "key = value" lines, read by both simulated libraries.
 *
 *   count = 8                      a setting of the node
 *   gpu.*.temp = 34                a setting of every GPU
 *   gpu.3.temp = 91                a setting of one GPU
 *
 * The last line that fits wins. GPULAB_SIMULATION names the one file to read; without it the files of a node are
 * read in the order of settings.c. A setting that no file holds is NULL.
 */
#ifndef GPULAB_SETTINGS_H
#define GPULAB_SETTINGS_H

enum { MAX_GPUS = 32, MAX_VALUE = 384 };

void settings_read(void);
const char *node_setting(const char *key);
long node_number(const char *key, long missing);
const char *gpu_setting(int gpu, const char *key);
double gpu_number(int gpu, const char *key, double missing);
int gpu_count(void);

/* Keep what a caller set (a power limit, persistence mode) for later readers; 0 when it was written. */
int settings_store(int gpu, const char *key, const char *value);

/* Exported by both libraries: the line by which a program knows that this is no real driver. */
const char *gpulab_simulation(void);

/* Sleep for delay_ms; never return when hang is set. gpu -1: the node's own settings only. */
void simulate_wait(int gpu);

/* Never return: only SIGKILL ends the process, as in a call into a wedged driver. */
void simulate_hang(void);

#endif
