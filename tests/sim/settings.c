/* Reads and looks up the settings of the simulated node; settings.h has the form of the files. */
#define _GNU_SOURCE
#include "settings.h"

#include <ctype.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* On a node: the model, then what the loaded driver is and lacks, then what was set (in the board's own memory, and
 * until the next boot), then injected faults. */
static const char *const NODE_FILES[] = {
    "/etc/gpulab-simulation/gpu.conf",
    "/run/gpulab-simulation/driver.conf",
    "/etc/gpulab-simulation/board.conf",
    "/run/gpulab-simulation/state.conf",
    "/etc/gpulab-simulation/faults.conf",
};

enum { MAX_SETTINGS = 4096, MAX_KEY = 96 };
static struct {
    char key[MAX_KEY];
    char value[MAX_VALUE];
} settings[MAX_SETTINGS];
static int setting_count;

static char *trimmed(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    char *end = text + strlen(text);
    while (end > text && isspace((unsigned char)end[-1]))
        *--end = '\0';
    return text;
}

static void read_file(const char *path)
{
    char line[MAX_KEY + MAX_VALUE + 64];
    FILE *file = fopen(path, "r");
    if (!file)
        return;
    while (fgets(line, sizeof line, file) && setting_count < MAX_SETTINGS) {
        line[strcspn(line, "#\n")] = '\0';
        char *value = strchr(line, '=');
        if (!value)
            continue;
        *value++ = '\0';
        snprintf(settings[setting_count].key, MAX_KEY, "%s", trimmed(line));
        snprintf(settings[setting_count].value, MAX_VALUE, "%s", trimmed(value));
        setting_count++;
    }
    fclose(file);
}

/* Where a set value is kept: in one of NODE_FILES, or beside the one file that was named. */
static const char *state_file(const char *key)
{
    static char beside[4096];
    const char *only = getenv("GPULAB_SIMULATION"), *pending = strstr(key, "_pending");
    snprintf(beside, sizeof beside, "%s.state", only ? only : "");
    return only ? beside : NODE_FILES[pending ? 2 : 3];
}

void settings_read(void)
{
    setting_count = 0;
    if (getenv("GPULAB_SIMULATION")) {
        read_file(getenv("GPULAB_SIMULATION"));
        read_file(state_file(""));
        return;
    }
    for (size_t i = 0; i < sizeof NODE_FILES / sizeof *NODE_FILES; i++)
        read_file(NODE_FILES[i]);
}

static const char *last_of(const char *key, const char *other_key)
{
    for (int i = setting_count - 1; i >= 0; i--)
        if (!strcmp(settings[i].key, key) || !strcmp(settings[i].key, other_key))
            return settings[i].value;
    return NULL;
}

const char *node_setting(const char *key)
{
    return last_of(key, key);
}

long node_number(const char *key, long missing)
{
    const char *value = node_setting(key);
    return value ? strtol(value, NULL, 0) : missing;
}

const char *gpu_setting(int gpu, const char *key)
{
    char one[MAX_KEY], every[MAX_KEY];
    snprintf(one, sizeof one, "gpu.%d.%s", gpu, key);
    snprintf(every, sizeof every, "gpu.*.%s", key);
    return last_of(one, every);
}

double gpu_number(int gpu, const char *key, double missing)
{
    const char *value = gpu_setting(gpu, key);
    return value ? strtod(value, NULL) : missing;
}

/* The GPUs that the driver shows: driver_count when it differs from the number on the bus. */
int gpu_count(void)
{
    long count = node_number("driver_count", node_number("count", 0));
    return count < 0 ? 0 : count > MAX_GPUS ? MAX_GPUS : (int)count;
}

int settings_store(int gpu, const char *key, const char *value)
{
    FILE *file = fopen(state_file(key), "a");
    if (!file)
        return -1;
    fprintf(file, "gpu.%d.%s = %s\n", gpu, key, value);
    fclose(file);
    settings_read();
    return 0;
}

__attribute__((visibility("default"))) const char *gpulab_simulation(void)
{
    static char text[256];
    settings_read();
    const char *name = gpu_setting(0, "name");
    snprintf(text, sizeof text, "simulated GPU (gpulab tests/sim): %s x%ld", name ? name : "none",
             node_number("count", 0));
    return text;
}

/* Like a call into a wedged driver: only SIGKILL ends it. */
void simulate_hang(void)
{
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    for (;;)
        pause();
}

void simulate_wait(int gpu)
{
    double delay = (double)node_number("delay_ms", 0);
    if (gpu >= 0)
        delay = gpu_number(gpu, "delay_ms", delay);
    if (node_number("hang", 0) || (gpu >= 0 && gpu_number(gpu, "hang", 0) != 0))
        simulate_hang();
    if (delay > 0) {
        struct timespec time = {(time_t)(delay / 1000), (long)(delay * 1e6) % 1000000000L};
        nanosleep(&time, NULL);
    }
}
